"""The audit: who changed access, what, and when; written in the very transaction that changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from adapters.catalog.failures import translated
from adapters.catalog.queries import queries

_SQL = queries("audit")


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One row: `who` is a person, `operator:NAME` or `source:TYPE:NAME`; `fields` say what, by names and counts."""

    acted_at: datetime
    who: str
    action: str
    fields: Mapping[str, Any]


def record(
    connection: psycopg.Connection, tenant_id: str, who: str, action: str, fields: Mapping[str, Any]
) -> None:
    """Append one row."""
    values = {"tenant_id": tenant_id, "user_id": who, "action": action, "fields": Jsonb(dict(fields))}
    connection.execute(_SQL["append"], values)


def add_to_load(connection: psycopg.Connection, tenant_id: str, source_id: str, **counts: int) -> None:
    """Add to the counts of a source's running load, one row however many transactions it has.

    Call it last: from then on every other writer of the same load waits for this transaction.
    """
    if counted := {name: n for name, n in counts.items() if n}:
        values = {"tenant_id": tenant_id, "source_id": source_id, "counts": Jsonb(counted)}
        connection.execute(_SQL["add_to_load"], values)


def record_for_all(url: str, who: str, action: str, fields: Mapping[str, Any]) -> None:
    """Append one row for every tenant of a catalog."""
    values = {"user_id": who, "action": action, "fields": Jsonb(dict(fields))}
    with translated(), psycopg.connect(url, connect_timeout=5) as connection:
        connection.execute(_SQL["append_to_all"], values)


def read_audit(
    url: str,
    tenant_id: str,
    *,
    who: str = "",
    about: str = "",
    action: str = "",
    since: datetime | None = None,
    limit: int = 50,
) -> Sequence[AuditEvent]:
    """List events, the newest first; `action` may be the beginning of one, `about` is the person that was changed."""
    values = {"tenant_id": tenant_id, "who": who, "about": about, "action": action}
    with translated(), psycopg.connect(url, connect_timeout=5, options="-c timezone=UTC") as connection:
        rows = connection.execute(_SQL["events"], {**values, "since": since, "limit": limit})
        return [AuditEvent(*row) for row in rows]
