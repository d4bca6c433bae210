"""The mirror of permission tuples: who asserts which, and what SpiceDB must be told when that changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import psycopg

from adapters.catalog.queries import queries
from cortex.documents import Grant, GrantKind, Membership
from cortex.errors import InputError
from cortex.ids import tenant_object_id
from cortex.ports.outbox import Relationship

_SQL = queries("permissions")
_LONGEST_NAME = 512
OPERATOR = ""


class Tuple(NamedTuple):
    """One permission tuple in the source's own names; the group '' is everyone in the tenant."""

    resource_type: str
    resource_name: str
    relation: str
    subject_type: str
    subject_name: str


def subject(grant: Grant) -> tuple[str, str]:
    """Name the subject of a grant as (type, name); raises InputError for a nameless or endless one."""
    if grant.kind is GrantKind.EVERYONE:
        return "group", ""
    return grant.kind.value, checked_name(grant.name)


def checked_name(name: str) -> str:
    """Return a user's or group's name; raises InputError when it is empty or too long."""
    if not 0 < len(name) <= _LONGEST_NAME:
        raise InputError(f"a name has 1 to {_LONGEST_NAME} characters, not {len(name)}", code="name.invalid")
    return name


def member_tuple(membership: Membership) -> Tuple:
    """Write a group edge as a tuple."""
    return Tuple("group", checked_name(membership.group_name), "member", *subject(membership.member))


def relationship(tenant_id: str, row: Tuple) -> Relationship:
    """Say a tuple in SpiceDB's words."""
    return Relationship(
        row.resource_type,
        tenant_object_id(tenant_id, row.resource_name),
        row.relation,
        row.subject_type,
        tenant_object_id(tenant_id, row.subject_name),
        "member" if row.subject_type == "group" else "",
    )


def relationships(tenant_id: str, rows: Iterable[Tuple]) -> list[Relationship]:
    """Say tuples in SpiceDB's words, in a stable order: what denies first, then what allows."""
    return [
        relationship(tenant_id, row) for row in sorted(rows, key=lambda row: (row.relation != "denied", row))
    ]


def assert_tuples(
    connection: psycopg.Connection, tenant_id: str, source_id: str, rows: Sequence[Tuple]
) -> set[Tuple]:
    """Add one source's assertions; returns the tuples that nobody asserted before."""
    if not rows:
        return set()
    values = {"tenant_id": tenant_id, "source_id": source_id, **_columns(rows)}
    return {Tuple(*row) for row in connection.execute(_SQL["assert_tuples"], values)}


def retract_tuples(
    connection: psycopg.Connection, tenant_id: str, source_id: str | None, rows: Sequence[Tuple]
) -> set[Tuple]:
    """Remove one source's assertions, or everybody's (None); returns the tuples that nobody asserts any more."""
    if not rows:
        return set()
    values = {"tenant_id": tenant_id, "source_id": source_id, **_columns(rows)}
    return {Tuple(*row) for row in connection.execute(_SQL["retract_tuples"], values)}


def forget_documents(
    connection: psycopg.Connection, tenant_id: str, document_ids: Sequence[str]
) -> set[Tuple]:
    """Remove the access tuples of documents; returns them."""
    values = {"tenant_id": tenant_id, "document_ids": list(document_ids)}
    rows = [Tuple(*row) for row in connection.execute(_SQL["document_tuples"], values)]
    return retract_tuples(connection, tenant_id, None, rows)


def _columns(rows: Sequence[Tuple]) -> dict[str, list[str]]:
    """Turn tuples into one array per column."""
    return {
        "resource_types": [row.resource_type for row in rows],
        "resource_names": [row.resource_name for row in rows],
        "relations": [row.relation for row in rows],
        "subject_types": [row.subject_type for row in rows],
        "subject_names": [row.subject_name for row in rows],
    }
