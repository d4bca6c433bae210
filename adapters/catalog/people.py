"""People of a tenant: registered, removed, and let back in by the operator alone.

Who was removed stays in the table, so that a source that still names them cannot bring them back. Access profiles that
name them stay as well: documents share them, and a denial taken out of one could let others in.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg

from adapters.catalog.audit import record
from adapters.catalog.membership import change_edges, lock_tenant
from adapters.catalog.mirror import OPERATOR, Tuple, checked_name
from adapters.catalog.queries import queries
from cortex.errors import NotFound

_SQL = queries("permissions")


def register(connection: psycopg.Connection, tenant_id: str, user_ids: Iterable[str]) -> list[str]:
    """Register people and make them members of everyone; returns who is new. Who was removed stays so."""
    new = _register(connection, tenant_id, _names(user_ids))
    _join_everyone(connection, tenant_id, new)
    return new


def admit(connection: psycopg.Connection, tenant_id: str, user_ids: Iterable[str], who: str) -> list[str]:
    """Register people, and let those back in who had been removed; returns whom that changed."""
    names = _names(user_ids)
    new = _register(connection, tenant_id, names)
    values = {"tenant_id": tenant_id, "user_ids": names}
    back = sorted(user_id for (user_id,) in connection.execute(_SQL["readmit_users"], values))
    _join_everyone(connection, tenant_id, [*new, *back])
    for user_id in new:
        record(connection, tenant_id, who, "user.add", {"user_id": user_id})
    for user_id in back:
        record(connection, tenant_id, who, "user.readmit", {"user_id": user_id})
    return [*new, *back]


def remove(connection: psycopg.Connection, tenant_id: str, user_id: str, who: str) -> bool:
    """Take a person out of every group, everyone included, and refuse them; False when that was done before."""
    lock_tenant(connection, tenant_id)
    values = {"tenant_id": tenant_id, "user_id": user_id}
    known = connection.execute(_SQL["is_registered"], values).fetchone()
    if not (known and known[0]):
        raise NotFound(f"{user_id} is not registered", code="user.unknown", hint="cortex access list")
    edges = {Tuple(*row) for row in connection.execute(_SQL["memberships_of_user"], values)}
    is_new = connection.execute(_SQL["remove_user"], values).rowcount > 0
    change_edges(connection, tenant_id, None, set(), edges)
    if is_new:
        groups = sorted(edge.resource_name for edge in edges if edge.resource_name)
        record(connection, tenant_id, who, "user.remove", {"user_id": user_id, "groups": groups})
    return is_new


def _names(user_ids: Iterable[str]) -> list[str]:
    return sorted({checked_name(user_id) for user_id in user_ids})


def _register(connection: psycopg.Connection, tenant_id: str, names: list[str]) -> list[str]:
    lock_tenant(connection, tenant_id)
    values = {"tenant_id": tenant_id, "user_ids": names}
    return sorted(user_id for (user_id,) in connection.execute(_SQL["register_users"], values))


def _join_everyone(connection: psycopg.Connection, tenant_id: str, user_ids: Iterable[str]) -> None:
    edges = {Tuple("group", "", "member", "user", user_id) for user_id in user_ids}
    change_edges(connection, tenant_id, OPERATOR, edges, set())
