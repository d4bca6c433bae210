"""Changes the group graph: mirrors the edges, keeps what SpiceDB is told free of circles, and makes old permits stale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import psycopg

from adapters.catalog.cycles import find_cycles, without_cycles
from adapters.catalog.mirror import (
    OPERATOR,
    Tuple,
    assert_tuples,
    checked_name,
    member_tuple,
    relationships,
    retract_tuples,
)
from adapters.catalog.queries import queries
from adapters.catalog.queue import queue_tuples
from cortex.documents import Membership
from cortex.errors import NotFound

_SQL = queries("permissions")


def lock_tenant(connection: psycopg.Connection, tenant_id: str) -> None:
    """Hold the tenant's row until the transaction ends; raises NotFound for an unknown tenant."""
    if connection.execute(_SQL["lock_tenant"], {"tenant_id": tenant_id}).fetchone() is None:
        raise NotFound("there is no such tenant", code="tenant.unknown")


def replace_memberships(
    connection: psycopg.Connection, tenant_id: str, source_id: str, memberships: Iterable[Membership]
) -> int:
    """Make one source assert exactly these edges; returns how many of its edges changed."""
    wanted = {member_tuple(membership) for membership in memberships}
    lock_tenant(connection, tenant_id)
    values = {"tenant_id": tenant_id, "source_id": source_id}
    present = {Tuple(*row) for row in connection.execute(_SQL["memberships_of_source"], values)}
    return _change(connection, tenant_id, source_id, wanted - present, present - wanted)


def add_edges(connection: psycopg.Connection, tenant_id: str, memberships: Sequence[Membership]) -> int:
    """Add edges that the operator asserts; returns how many are new to the graph."""
    lock_tenant(connection, tenant_id)
    return _change(connection, tenant_id, OPERATOR, {member_tuple(m) for m in memberships}, set())


def remove_edge(connection: psycopg.Connection, tenant_id: str, membership: Membership) -> bool:
    """Remove an edge whoever asserts it; False when there was none."""
    lock_tenant(connection, tenant_id)
    return _change(connection, tenant_id, None, set(), {member_tuple(membership)}) > 0


def register(connection: psycopg.Connection, tenant_id: str, user_ids: Iterable[str]) -> int:
    """Register people and make them members of everyone; returns how many are new."""
    names = sorted({checked_name(user_id) for user_id in user_ids})
    lock_tenant(connection, tenant_id)
    values = {"tenant_id": tenant_id, "user_ids": names}
    new = [user_id for (user_id,) in connection.execute(_SQL["register_users"], values)]
    edges = {Tuple("group", "", "member", "user", user_id) for user_id in new}
    return _change(connection, tenant_id, OPERATOR, edges, set())


def _change(
    connection: psycopg.Connection,
    tenant_id: str,
    source_id: str | None,
    added: set[Tuple],
    removed: set[Tuple],
) -> int:
    """Apply edge changes under the tenant's lock; what alters the graph is queued and makes permits stale.

    For one source returns how many of its edges changed, else how many edges of the graph did.
    """
    touched = assert_tuples(connection, tenant_id, source_id or OPERATOR, sorted(added))
    deleted = retract_tuples(connection, tenant_id, source_id, sorted(removed))
    if touched or deleted:
        _tell_spicedb(connection, tenant_id, touched, deleted)
        connection.execute(_SQL["bump_revision"], {"tenant_id": tenant_id})
    return len(added) + len(removed) if source_id else len(touched) + len(deleted)


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
