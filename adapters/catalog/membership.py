"""Changes the group graph: mirrors the edges, keeps what SpiceDB is told free of circles, and makes old permits stale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg

from adapters.catalog.audit import record
from adapters.catalog.cycles import find_cycles, without_cycles
from adapters.catalog.mirror import (
    OPERATOR,
    Tuple,
    assert_tuples,
    member_tuple,
    relationships,
    retract_tuples,
)
from adapters.catalog.queries import queries
from adapters.catalog.queue import queue_tuples
from cortex.documents import Membership
from cortex.errors import Conflict, NotFound

_SQL = queries("permissions")


def lock_tenant(connection: psycopg.Connection, tenant_id: str) -> None:
    """Hold the tenant's row until the transaction ends; raises NotFound for an unknown tenant."""
    if connection.execute(_SQL["lock_tenant"], {"tenant_id": tenant_id}).fetchone() is None:
        raise NotFound("there is no such tenant", code="tenant.unknown")


def replace_memberships(
    connection: psycopg.Connection, tenant_id: str, source_id: str, memberships: Iterable[Membership]
) -> tuple[int, int]:
    """Make one source assert exactly these edges, but none of people who were removed; returns how many came and went."""
    wanted = {member_tuple(membership) for membership in memberships}
    lock_tenant(connection, tenant_id)
    removed = _removed_people(connection, tenant_id, wanted)
    wanted = {edge for edge in wanted if edge.subject_type != "user" or edge.subject_name not in removed}
    values = {"tenant_id": tenant_id, "source_id": source_id}
    present = {Tuple(*row) for row in connection.execute(_SQL["memberships_of_source"], values)}
    change_edges(connection, tenant_id, source_id, wanted - present, present - wanted)
    return len(wanted - present), len(present - wanted)


def add_edges(
    connection: psycopg.Connection, tenant_id: str, memberships: Sequence[Membership], who: str
) -> int:
    """Add edges that the operator asserts; returns how many are new to the graph. Removed people are refused."""
    edges = {member_tuple(membership) for membership in memberships}
    lock_tenant(connection, tenant_id)
    for user_id in _removed_people(connection, tenant_id, edges):
        raise Conflict(
            f"{user_id} was removed", code="user.removed", hint=f"first: cortex access add-user {user_id}"
        )
    touched, _ = change_edges(connection, tenant_id, OPERATOR, edges, set())
    for edge in sorted(touched):
        record(connection, tenant_id, who, "member.add", _named(edge))
    return len(touched)


def remove_edge(connection: psycopg.Connection, tenant_id: str, membership: Membership, who: str) -> bool:
    """Remove an edge whoever asserts it; False when there was none."""
    lock_tenant(connection, tenant_id)
    _, deleted = change_edges(connection, tenant_id, None, set(), {member_tuple(membership)})
    for edge in deleted:
        record(connection, tenant_id, who, "member.remove", _named(edge))
    return bool(deleted)


def change_edges(
    connection: psycopg.Connection,
    tenant_id: str,
    source_id: str | None,
    added: set[Tuple],
    removed: set[Tuple],
) -> tuple[set[Tuple], set[Tuple]]:
    """Apply edge changes under the tenant's lock; what alters the graph is queued and makes permits stale.

    Returns the edges that are new to the graph and those that nobody asserts any more.
    """
    touched = assert_tuples(connection, tenant_id, source_id or OPERATOR, sorted(added))
    deleted = retract_tuples(connection, tenant_id, source_id, sorted(removed))
    if touched or deleted:
        _tell_spicedb(connection, tenant_id, touched, deleted)
        connection.execute(_SQL["bump_revision"], {"tenant_id": tenant_id})
    return touched, deleted


def _removed_people(connection: psycopg.Connection, tenant_id: str, edges: Iterable[Tuple]) -> list[str]:
    """Of the people in some edges, list those who were removed."""
    names = [edge.subject_name for edge in edges if edge.subject_type == "user"]
    values = {"tenant_id": tenant_id, "user_ids": names}
    return [user_id for (user_id,) in connection.execute(_SQL["removed_users"], values)]


def _named(edge: Tuple) -> dict[str, str]:
    """Say an edge as the operator types it."""
    prefix = "" if edge.subject_type == "user" else "group:"
    return {"group": edge.resource_name, "member": prefix + edge.subject_name}


def _tell_spicedb(
    connection: psycopg.Connection, tenant_id: str, touched: set[Tuple], deleted: set[Tuple]
) -> None:
    """Queue the changes of the circle-free graph that follow from the changed edges."""
    before: dict[str, str] = dict(
        connection.execute(_SQL["group_cycles"], {"tenant_id": tenant_id}).fetchall()
    )
    after = before
    if any(edge.subject_type == "group" for edge in touched | deleted):
        after = _refresh_cycles(connection, tenant_id, before)
    values = {"tenant_id": tenant_id, "group_names": [*before, *after]}
    on_circles = connection.execute(_SQL["memberships_of_groups"], values) if before or after else ()
    edges = touched | {Tuple(*row) for row in on_circles}
    old = without_cycles((edges - touched) | deleted, before)
    new = without_cycles(edges, after)
    queue_tuples(
        connection,
        tenant_id,
        "memberships",
        delete=relationships(tenant_id, old - new),
        touch=relationships(tenant_id, new - old),
        gates_checks=True,
    )


def _refresh_cycles(connection: psycopg.Connection, tenant_id: str, before: dict[str, str]) -> dict[str, str]:
    """Find the tenant's circles anew and store them if they changed."""
    key = {"tenant_id": tenant_id}
    after = find_cycles(connection.execute(_SQL["nestings"], key).fetchall())
    if after != before:
        connection.execute(_SQL["clear_group_cycles"], key)
        values = {**key, "group_names": list(after), "representatives": list(after.values())}
        connection.execute(_SQL["store_group_cycles"], values)
    return after
