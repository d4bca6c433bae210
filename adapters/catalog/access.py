"""Who may see what, for the operator: people, their groups, what they can reach, and what nobody can."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import psycopg

from adapters.catalog.failures import translated
from adapters.catalog.queries import queries
from cortex.errors import NotFound

_SQL = {**queries("access"), "profiles": queries("reading")["permitted_profiles"]}


@dataclass(frozen=True, slots=True)
class GroupOfUser:
    """One group that a person belongs to, directly or through another group."""

    name: str
    is_direct: bool


@dataclass(frozen=True, slots=True)
class UserAccess:
    """What one person belongs to and can reach: nothing since `removed_at`, if they left."""

    user_id: str
    removed_at: datetime | None
    groups: tuple[GroupOfUser, ...]
    n_profiles: int
    n_documents: int


@dataclass(frozen=True, slots=True)
class Edge:
    """One member of a group; `asserted_by` names the sources that say so, or the operator."""

    group: str
    member: str
    asserted_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TenantAccess:
    """A tenant's people and groups. Dark documents are those whose source could not say who may see them."""

    users: tuple[str, ...]
    removed: tuple[str, ...]
    edges: tuple[Edge, ...]
    n_dark_documents: int


class PostgresAccess:
    """Reads access as the catalog mirrors it; one short connection per question."""

    def __init__(self, url: str) -> None:
        self._url = url

    def user(self, tenant_id: str, user_id: str) -> UserAccess:
        """Describe one person's access; raises NotFound."""
        values = {"tenant_id": tenant_id, "user_id": user_id}
        with self._connected() as connection:
            known = connection.execute(_SQL["user"], values).fetchone()
            if known is None:
                raise NotFound(
                    f"{user_id} is not registered", code="user.unknown", hint="cortex access add-user"
                )
            if known[0] is not None:
                return UserAccess(user_id, known[0], (), 0, 0)
            groups = tuple(GroupOfUser(*row) for row in connection.execute(_SQL["groups_of_user"], values))
            profile_ids = (connection.execute(_SQL["profiles"], values).fetchone() or ([],))[0]
            counted = connection.execute(
                _SQL["documents_of_profiles"], {**values, "profile_ids": profile_ids}
            ).fetchone()
        return UserAccess(user_id, None, groups, len(profile_ids), counted[0] if counted else 0)

    def tenant(self, tenant_id: str) -> TenantAccess:
        """List a tenant's people and group edges, and count its dark documents."""
        values = {"tenant_id": tenant_id}
        with self._connected() as connection:
            people = connection.execute(_SQL["users"], values).fetchall()
            edges = tuple(
                Edge(group, _spelled(kind, name), tuple(asserted_by))
                for group, kind, name, asserted_by in connection.execute(_SQL["edges"], values)
            )
            counted = connection.execute(_SQL["dark_documents"], values).fetchone()
        users, removed = (
            tuple(name for name, is_gone in people if is_gone is side) for side in (False, True)
        )
        return TenantAccess(users, removed, edges, counted[0] if counted else 0)

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        with translated(), psycopg.connect(self._url, options="-c timezone=UTC") as connection:
            yield connection


def _spelled(kind: str, name: str) -> str:
    """Spell a member as the operator types it: a user's name, or `group:NAME`."""
    if kind == "user":
        return name
    return f"group:{name}" if name else "everyone"
