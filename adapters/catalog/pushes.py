"""Verified pushes in the catalog: recorded once, and waiting until somebody has read again what they name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from adapters.catalog.failures import translated
from adapters.catalog.queries import queries
from cortex.ports.connectors import SourceConfig
from cortex.ports.ingest import Push

_SQL = queries("pushes")
_BATCH = 500
_RUNS_KEPT = 200


class CatalogPushes:
    """Port PushQueue. Each call is a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url

    def source(self, source_id: str) -> SourceConfig | None:
        """Read a source of any tenant; None when there is none."""
        with self._connection() as connection:
            row = connection.execute(_SQL["pushed_source"], {"source_id": source_id}).fetchone()
        return SourceConfig(*row) if row else None

    def record(self, source_id: str, push_id: str, changed_ids: Sequence[str]) -> bool:
        """Record a push; False when it is known already."""
        values = {"source_id": source_id, "push_id": push_id, "changed_ids": list(changed_ids)}
        with self._connection() as connection:
            return connection.execute(_SQL["record_push"], values).rowcount == 1

    def waiting(self, source_id: str) -> list[Push]:
        """List a source's oldest waiting pushes; a batch at most."""
        with self._connection() as connection:
            rows = connection.execute(_SQL["waiting_pushes"], {"source_id": source_id, "limit": _BATCH})
            return [Push(push_id, tuple(changed_ids)) for push_id, changed_ids in rows]

    def waiting_sources(self) -> list[str]:
        """List the sources whose pushes wait."""
        with self._connection() as connection:
            return [source_id for (source_id,) in connection.execute(_SQL["waiting_sources"])]

    def settle(self, source_id: str, push_ids: Collection[str]) -> None:
        """Note that pushes were acted on; forget old ones, and all but the newest runs."""
        values = {"source_id": source_id, "push_ids": list(push_ids), "kept": _RUNS_KEPT}
        with self._connection() as connection:
            for name in ("settle_pushes", "forget_pushes", "forget_runs"):
                connection.execute(_SQL[name], values)

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection]:
        with translated(), psycopg.connect(self._url, options="-c timezone=UTC") as connection:
            yield connection
