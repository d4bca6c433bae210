"""The record of backfills in the catalog: who has what, since when, what was logged, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row

from adapters.catalog.failures import translated
from adapters.catalog.queries import queries

_SQL = queries("backfills")
_LOG_CHARS = 100_000
# A job says every few seconds that it lives; one that has not for so long is lost, and may be submitted again.
SILENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Backfill:
    """One submission. `status`: running, succeeded, failed, stopped, or lost: it runs no longer, and could not say why."""

    submission_id: str
    source_id: str
    source: str
    ray_address: str
    log: str
    submitted_at: datetime
    finished_at: datetime | None
    status: str
    run_id: str | None
    counts: Mapping[str, int]


class PostgresBackfills:
    """Each call is a connection of its own: they are rare."""

    def __init__(self, url: str) -> None:
        self._url = url

    def claim(self, submission_id: str, tenant_id: str, source_id: str, ray_address: str) -> str:
        """Record a submission; returns the id of the one that has the source already, or empty: then it is ours."""
        values = {
            "submission_id": submission_id,
            "tenant_id": tenant_id,
            "source_id": source_id,
            "ray_address": ray_address,
            "silence_s": SILENCE_S,
        }
        with self._connection() as connection:
            if active := connection.execute(_SQL["active_backfill"], values).fetchone():
                return str(active[0])
            return "" if connection.execute(_SQL["claim_backfill"], values).fetchone() else submission_id

    def hear(self, submission_id: str, lines: str = "") -> None:
        """Note that a submission lives, and what it logged."""
        values = {"submission_id": submission_id, "lines": lines, "log_chars": _LOG_CHARS}
        with self._connection() as connection:
            connection.execute(_SQL["hear_backfill"], values)

    def finish(self, submission_id: str, status: str) -> None:
        """Close a submission: succeeded, failed or stopped."""
        with self._connection() as connection:
            connection.execute(_SQL["finish_backfill"], {"submission_id": submission_id, "status": status})

    def listed(self, tenant_id: str, submission_id: str = "") -> list[Backfill]:
        """List submissions, newest first; all of a tenant, or one."""
        values = {"tenant_id": tenant_id, "submission_id": submission_id, "silence_s": SILENCE_S}
        with self._connection() as connection:
            cursor = connection.cursor(row_factory=class_row(Backfill))
            return cursor.execute(_SQL["list_backfills"], values).fetchall()

    def cursor(self, source_id: str) -> str:
        """Name the newest run that loaded all of a source; empty when none did."""
        with self._connection() as connection:
            row = connection.execute(_SQL["last_succeeded_run"], {"source_id": source_id}).fetchone()
        return str(row[0]) if row else ""

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection]:
        with translated(), psycopg.connect(self._url, connect_timeout=5, options="-c timezone=UTC") as opened:
            yield opened
