"""Sets access lists: interns grant sets as profiles and mirrors every tuple, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import psycopg

from adapters.catalog.audit import add_to_load
from adapters.catalog.mirror import (
    OPERATOR,
    Tuple,
    assert_tuples,
    forget_documents,
    relationships,
    subject,
)
from adapters.catalog.queries import queries
from adapters.catalog.queue import queue_profile, queue_tuples
from cortex.documents import Acl, acl_sha256
from cortex.errors import Conflict, InputError
from cortex.ports.ingest import AclWrite

_SQL = queries("permissions")


class _Current(NamedTuple):
    """What a document's access is before a write."""

    document_id: str
    profile_id: int | None
    acl_sha256: str | None
    is_known: bool
    had_acl: bool
    has_points: bool


def set_acls(
    connection: psycopg.Connection, tenant_id: str, source_id: str, writes: Sequence[AclWrite]
) -> dict[str, int]:
    """Set many access lists; returns each document's profile id. An unknown list never replaces a known one."""
    current = _hold(connection, tenant_id, source_id, writes)
    kept, changed = {}, []
    for write in writes:
        before = current[write.document_id]
        is_kept = before.acl_sha256 == acl_sha256(write.acl) or (before.is_known and not write.acl.is_known)
        if is_kept and before.profile_id is not None:
            kept[write.document_id] = before.profile_id
        else:
            changed.append(write)
    if not changed:
        return kept
    profile_ids = _intern(connection, tenant_id, [write.acl for write in changed])
    given = {write.document_id: profile_ids[acl_sha256(write.acl)] for write in changed}
    _give(connection, tenant_id, given, current)
    n_first = sum(not current[document_id].had_acl for document_id in given)
    add_to_load(
        connection, tenant_id, source_id, documents_given=n_first, documents_changed=len(given) - n_first
    )
    return kept | given


def _hold(
    connection: psycopg.Connection, tenant_id: str, source_id: str, writes: Sequence[AclWrite]
) -> dict[str, _Current]:
    """Create and hold the documents' rows, and read their access."""
    ids = [write.document_id for write in writes]
    if len(set(ids)) != len(ids):
        raise InputError("a document appears twice in one batch of access lists", code="acl.repeated")
    held = connection.execute(
        _SQL["lock_documents"],
        {
            "tenant_id": tenant_id,
            "source_id": source_id,
            "document_ids": ids,
            "external_ids": [write.external_id for write in writes],
        },
    ).fetchall()
    if len(held) != len(ids):
        raise Conflict("a document id belongs to another source", code="document.foreign")
    rows = connection.execute(_SQL["document_profiles"], {"document_ids": ids})
    return {row[0]: _Current(*row) for row in rows}


def _intern(connection: psycopg.Connection, tenant_id: str, acls: Sequence[Acl]) -> dict[str, int]:
    """Map each list's hash to its profile, creating profiles that are new."""
    wanted = {acl_sha256(acl): acl for acl in acls}
    values = {"tenant_id": tenant_id, "acl_sha256s": list(wanted)}
    found: dict[str, int] = dict(connection.execute(_SQL["find_profiles"], values).fetchall())
    if len(found) == len(wanted):
        return found
    connection.execute(_SQL["lock_tenant"], {"tenant_id": tenant_id})
    found = dict(connection.execute(_SQL["find_profiles"], values).fetchall())
    created = {sha: _create(connection, tenant_id, sha, wanted[sha]) for sha in wanted if sha not in found}
    if created:
        connection.execute(_SQL["bump_revision"], {"tenant_id": tenant_id})
    return found | created


def _create(connection: psycopg.Connection, tenant_id: str, sha256: str, acl: Acl) -> int:
    """Create a profile with its tuples. Until SpiceDB has them, checks through it deny, so nothing needs to wait."""
    values = {"tenant_id": tenant_id, "acl_sha256": sha256, "is_known": acl.is_known}
    row = connection.execute(_SQL["insert_profile"], values).fetchone()
    assert row is not None  # INSERT … RETURNING
    name = str(row[0])
    grants = [
        Tuple("profile", name, relation, *subject(grant))
        for relation, side in (("denied", acl.denied), ("viewer", acl.viewers))
        for grant in side
    ]
    added = assert_tuples(connection, tenant_id, OPERATOR, grants)
    queue_tuples(
        connection, tenant_id, f"profile/{name}", touch=relationships(tenant_id, added), gates_checks=False
    )
    return int(row[0])


def _give(
    connection: psycopg.Connection,
    tenant_id: str,
    given: Mapping[str, int],
    current: Mapping[str, _Current],
) -> None:
    """Point documents to their profiles, in the catalog, in the mirror and in the queue."""
    connection.execute(
        _SQL["set_profiles"], {"document_ids": list(given), "profile_ids": list(given.values())}
    )
    forgotten = forget_documents(connection, tenant_id, list(given))
    rows = [Tuple("document", document_id, "access", "profile", str(n)) for document_id, n in given.items()]
    added = assert_tuples(connection, tenant_id, OPERATOR, rows)
    queue_tuples(
        connection,
        tenant_id,
        f"documents/{len(given)}",
        delete=relationships(tenant_id, forgotten - added),
        touch=relationships(tenant_id, added),
        gates_checks=any(current[document_id].had_acl for document_id in given),
    )
    for document_id, profile_id in given.items():
        if current[document_id].has_points:
            queue_profile(connection, tenant_id, document_id, profile_id)
