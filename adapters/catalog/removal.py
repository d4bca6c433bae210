"""Removes sources from the catalog in steps that may each be repeated: hidden first, the source's own row last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from adapters.catalog.audit import record
from adapters.catalog.failures import translated
from adapters.catalog.membership import replace_memberships
from adapters.catalog.mirror import forget_documents, relationships
from adapters.catalog.queries import queries
from adapters.catalog.queue import queue_tuples
from cortex.errors import InputError, NotFound

_SQL = queries("removal")
_BATCH = 500


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source as the operator names it."""

    source_id: str
    source_type: str
    name: str


@dataclass(frozen=True, slots=True)
class SourceCounts:
    """What the catalog holds of a source; `n_tuples` are about its documents, `n_memberships` asserted by it."""

    n_documents: int
    n_chunks: int
    n_edges: int
    n_tuples: int
    n_memberships: int
    n_citations: int
    n_runs: int


class CatalogRemoval:
    """Takes one source after another out of a catalog."""

    def __init__(self, url: str) -> None:
        with translated():
            self._connection = psycopg.connect(url, autocommit=True, options="-c timezone=UTC")

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()

    def find(self, tenant_id: str, named: str) -> SourceRow:
        """Find a source by id, name or `type:name`; raises NotFound, or InputError when several have the name."""
        with self._transaction() as connection:
            rows = connection.execute(_SQL["source"], {"tenant_id": tenant_id, "named": named}).fetchall()
        if not rows:
            raise NotFound("there is no such source", code="source.unknown", hint="cortex sources list")
        if len(rows) > 1:
            types = ", ".join(f"{row[1]}:NAME" for row in rows)
            raise InputError("several sources have this name", code="source.ambiguous", hint=f"say {types}")
        return SourceRow(*rows[0])

    def counts(self, source_id: str) -> SourceCounts:
        """Count what the catalog holds of a source."""
        with self._transaction() as connection:
            row = connection.execute(_SQL["source_counts"], {"source_id": source_id}).fetchone()
        assert row is not None  # one row of numbers
        return SourceCounts(*row)

    def runs(self, source_id: str) -> list[Mapping[str, Any]]:
        """List a source's runs, the newest first."""
        with self._transaction() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            return list(cursor.execute(_SQL["recent_runs"], {"source_id": source_id}))

    def hide(self, tenant_id: str, source_id: str, who: str) -> None:
        """Hide all documents and take the source's memberships back, in one step that the next request sees."""
        with self._transaction() as connection:
            n_hidden = connection.execute(_SQL["hide_source"], {"source_id": source_id}).rowcount
            _, n_removed = replace_memberships(connection, tenant_id, source_id, ())
            if n_hidden or n_removed:
                counts = {"documents_hidden": n_hidden, "members_removed": n_removed}
                record(connection, tenant_id, who, "source.hide", {"source_id": source_id, **counts})

    def forget_tuples(self, tenant_id: str, source_id: str) -> None:
        """Retract the tuples of the source's documents, and queue that for SpiceDB."""
        values = {"source_id": source_id, "limit": _BATCH}
        while True:
            with self._transaction() as connection:
                rows = connection.execute(_SQL["documents_with_tuples"], values).fetchall()
                if not rows:
                    return
                gone = forget_documents(connection, tenant_id, [row[0] for row in rows])
                deleted = relationships(tenant_id, gone)
                queue_tuples(connection, tenant_id, source_id, delete=deleted, gates_checks=False)

    def own_objects(self, source_id: str) -> list[str]:
        """List the contents that no other source's documents have."""
        with self._transaction() as connection:
            return [row[0] for row in connection.execute(_SQL["own_objects"], {"source_id": source_id})]

    def drop(self, tenant_id: str, source_id: str, who: str, receipt: Mapping[str, Any]) -> None:
        """Delete documents, chunks, edges and runs, then the source itself together with the receipt's audit row."""
        values = {"source_id": source_id, "limit": _BATCH}
        with self._transaction() as connection:
            connection.execute(_SQL["forget_answers"], values)
        n_dropped = 1
        while n_dropped:
            with self._transaction() as connection:
                n_dropped = connection.execute(_SQL["drop_some_documents"], values).rowcount
        with self._transaction() as connection:
            connection.execute(_SQL["drop_runs"], values)
            connection.execute(_SQL["drop_source"], values)
            record(connection, tenant_id, who, "source.remove", receipt)

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection]:
        with translated(), self._connection.transaction():
            yield self._connection
