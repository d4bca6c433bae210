"""The catalog as ingest writes it: port IngestCatalog, plus batches where a round trip per document would cost."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import ConnectionPool

from adapters.catalog import people
from adapters.catalog.audit import add_to_load, record
from adapters.catalog.edges import count_edges, list_edges
from adapters.catalog.failures import translated
from adapters.catalog.grant import set_acls
from adapters.catalog.membership import add_edges, remove_edge, replace_memberships
from adapters.catalog.queries import queries
from adapters.catalog.signatures import NEAR_DUPLICATE_SIMILARITY, bands, similarity
from adapters.catalog.stage import publish, stage, tombstone
from cortex.documents import Acl, Membership
from cortex.edges import EdgeState, ResolvedEdge
from cortex.errors import Conflict, NotFound
from cortex.ports.connectors import FetchFailure, Skipped, SourceConfig
from cortex.ports.ingest import AclWrite, DocumentWrite, KnownDocument

_SQL = {**queries("sources"), **queries("documents")}

# Longer than a restart of the embedded Postgres (0.3-3 s): a job survives one without failing a document.
_CONNECT_TIMEOUT_S = 10.0


class PostgresIngestCatalog:
    """Port IngestCatalog. One per process; safe to share between threads, which take turns on two connections.

    `actor` is who changes access here, for the audit; what a source says is written under the source's name.
    """

    def __init__(self, url: str, actor: str = "operator") -> None:
        self._actor = actor
        self._pool = ConnectionPool(
            url,
            min_size=1,
            max_size=2,
            timeout=_CONNECT_TIMEOUT_S,
            kwargs={"options": "-c timezone=UTC"},
            check=ConnectionPool.check_connection,
            open=False,
        )
        self._shared = threading.local()
        with translated():
            self._pool.open()

    def close(self) -> None:
        """Give the connections back."""
        self._pool.close()

    def ensure_source(self, config: SourceConfig) -> None:
        """Create or update the source row, and its tenant on first mention."""
        values = {
            "tenant_id": config.tenant_id,
            "source_id": config.source_id,
            "source_type": config.source_type,
            "name": config.name,
            "collection": config.collection,
            "options": Jsonb(dict(config.options)),
        }
        with self._transaction() as connection:
            connection.execute(_SQL["ensure_tenant"], values)
            if connection.execute(_SQL["ensure_source"], values).rowcount == 0:
                raise Conflict("this source id belongs to another tenant", code="source.foreign")

    def list_sources(self, tenant_id: str) -> list[Mapping[str, Any]]:
        """List sources with document counts and the newest run: the fields of `cortex.api.SourceModel`, and options."""
        with self._transaction() as connection:
            rows = connection.cursor(row_factory=dict_row).execute(
                _SQL["list_sources"], {"tenant_id": tenant_id}
            )
            return [_source(row) for row in rows]

    def start_run(self, source_id: str) -> str:
        """Open a sync run and close one that was killed; returns the new run's id."""
        values = {"source_id": source_id}
        with self._transaction() as connection:
            connection.execute(_SQL["close_interrupted_runs"], values)
            row = connection.execute(_SQL["start_run"], values).fetchone()
        assert row is not None  # INSERT … RETURNING
        return str(row[0])

    def update_run(self, run_id: str, counts: Mapping[str, int]) -> bool:
        """Publish a run's progress; True when somebody asked it to stop."""
        values = {"run_id": run_id, "counts": Jsonb(dict(counts))}
        with self._transaction() as connection:
            row = connection.execute(_SQL["update_run"], values).fetchone()
        if row is None:
            raise NotFound("there is no such sync run", code="run.unknown")
        return bool(row[0])

    def request_stop(self, tenant_id: str, run_id: str) -> None:
        """Ask a run to stop; raises NotFound unless it runs."""
        self._write("request_stop", tenant_id=tenant_id, run_id=run_id)

    def finish_run(
        self,
        run_id: str,
        status: str,
        counts: Mapping[str, int],
        failures: Sequence[FetchFailure],
        skipped: Sequence[Skipped] = (),
    ) -> None:
        """Close a run with its counts, what failed as (path, code, reason), and what was left out on purpose."""
        listed = [{"path": f.external_id, "code": f.code, "reason": f.reason} for f in failures]
        self._write(
            "finish_run",
            run_id=run_id,
            status=status,
            counts=Jsonb(dict(counts)),
            failures=Jsonb(listed),
            skipped=Jsonb([asdict(kind) for kind in skipped]),
        )

    def known_documents(self, source_id: str, embedding_model_version: str) -> dict[str, KnownDocument]:
        """Map external_id to what is held of a source; tombstoned documents are left out."""
        values = {"source_id": source_id, "embedding_model_version": embedding_model_version}
        with self._transaction() as connection:
            rows = connection.execute(_SQL["known_documents"], values)
            return {row[0]: KnownDocument(row[1], row[0], *row[2:]) for row in rows}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make one transaction of all that this thread writes in a block: all of it is kept, or nothing."""
        with self._transaction() as connection:
            outer, self._shared.connection = getattr(self._shared, "connection", None), connection
            try:
                yield
            finally:
                self._shared.connection = outer

    def near_duplicates(self, tenant_id: str, document_id: str, signature: bytes) -> str:
        """Return the first document of the group whose member is most similar (0.85 or more), or empty."""
        values = {"tenant_id": tenant_id, "document_id": document_id, "bands": bands(signature)}
        with self._transaction() as connection:
            rows = connection.execute(_SQL["similar"], values).fetchall() if signature else []
        scored = [(-similarity(signature, other), other_id, group_id) for other_id, group_id, other in rows]
        best = min(scored, default=(0.0, "", ""))
        return best[2] if -best[0] >= NEAR_DUPLICATE_SIMILARITY and best[2] != document_id else ""

    def stage_document(self, write: DocumentWrite) -> None:
        """Write the new version's rows without showing them: readers keep the old version."""
        with self._transaction() as connection:
            stage(connection, write)

    def publish_document(self, document_id: str, content_sha256: str) -> tuple[str, ...]:
        """Show the staged version in one transaction; returns the obsolete chunk ids, also queued in the outbox."""
        with self._transaction() as connection:
            return publish(connection, document_id, content_sha256)

    def set_acl(self, tenant_id: str, source_id: str, external_id: str, document_id: str, acl: Acl) -> int:
        """Set a document's access list as its own versioned write; returns its access profile id."""
        return self.set_acls(tenant_id, source_id, [AclWrite(external_id, document_id, acl)])[document_id]

    def set_acls(self, tenant_id: str, source_id: str, writes: Sequence[AclWrite]) -> dict[str, int]:
        """Set many access lists in one transaction; returns each document's access profile id."""
        with self._transaction() as connection:
            return set_acls(connection, tenant_id, source_id, writes)

    def set_fingerprints(self, fingerprints: Mapping[str, str]) -> None:
        """Note by document id that shown versions were found unchanged under a new fingerprint."""
        values = {"document_ids": list(fingerprints), "fingerprints": list(fingerprints.values())}
        with self._transaction() as connection:
            connection.execute(_SQL["set_fingerprints"], values)

    def set_memberships(self, tenant_id: str, source_id: str, memberships: Iterable[Membership]) -> int:
        """Replace the group edges that one source asserts; returns how many changed."""
        with self._transaction() as connection:
            n_added, n_removed = replace_memberships(connection, tenant_id, source_id, memberships)
            add_to_load(connection, tenant_id, source_id, members_added=n_added, members_removed=n_removed)
        return n_added + n_removed

    def add_membership(self, tenant_id: str, membership: Membership) -> bool:
        """Add one group edge asserted by the operator; False when it was there."""
        return self.add_memberships(tenant_id, [membership]) > 0

    def add_memberships(self, tenant_id: str, memberships: Sequence[Membership]) -> int:
        """Add group edges asserted by the operator; returns how many were not there."""
        with self._transaction() as connection:
            connection.execute(_SQL["ensure_tenant"], {"tenant_id": tenant_id})
            return add_edges(connection, tenant_id, memberships, self._actor)

    def remove_membership(self, tenant_id: str, membership: Membership) -> bool:
        """Remove one group edge whoever asserted it; False when there was none."""
        with self._transaction() as connection:
            return remove_edge(connection, tenant_id, membership, self._actor)

    def ensure_users(self, tenant_id: str, user_ids: Iterable[str], source_id: str = "") -> None:
        """Register people whom a source names; who was removed stays so."""
        with self._transaction() as connection:
            connection.execute(_SQL["ensure_tenant"], {"tenant_id": tenant_id})
            n_added = len(people.register(connection, tenant_id, user_ids))
            if source_id:
                add_to_load(connection, tenant_id, source_id, people_added=n_added)
            elif n_added:
                record(connection, tenant_id, self._actor, "user.add", {"people_added": n_added})

    def admit_users(self, tenant_id: str, user_ids: Iterable[str]) -> None:
        """Register people as the operator says, and let those back in who had been removed."""
        with self._transaction() as connection:
            connection.execute(_SQL["ensure_tenant"], {"tenant_id": tenant_id})
            people.admit(connection, tenant_id, user_ids, self._actor)

    def remove_user(self, tenant_id: str, user_id: str) -> bool:
        """Refuse a person from the next request on, out of every group; False when that was done before."""
        with self._transaction() as connection:
            return people.remove(connection, tenant_id, user_id, self._actor)

    def tombstone(self, document_id: str) -> tuple[str, ...]:
        """Hide a document at once and queue its deletion; returns the chunk ids to delete."""
        with self._transaction() as connection:
            return tombstone(connection, document_id)

    def count_edges(self, source_id: str) -> dict[EdgeState, int]:
        """Count the edges of a source's shown documents by where they lead."""
        with self._transaction() as connection:
            return count_edges(connection, source_id)

    def list_edges(
        self, source_id: str, states: Collection[EdgeState] = (), limit: int | None = None
    ) -> list[ResolvedEdge]:
        """List the edges of a source's shown documents, of some states or of all, by document and place in it."""
        with self._transaction() as connection:
            return list_edges(connection, source_id, states, limit)

    def _write(self, name: str, **values: Any) -> None:
        """Run one update of a run's row; raises NotFound when there is no such run."""
        with self._transaction() as connection:
            if connection.execute(_SQL[name], values).rowcount == 0:
                raise NotFound("there is no such sync run", code="run.unknown")

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection]:
        """Open a transaction that commits at the end of the block, or use the one that is open for several writes."""
        if (shared := getattr(self._shared, "connection", None)) is not None:
            with translated():
                yield shared
            return
        with translated(), self._pool.connection() as connection, connection.transaction():
            yield connection


def _source(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Shape a listed source with its newest run, or None."""
    run_fields = ("run_id", "status", "started_at", "finished_at", "counts", "failures", "skipped")
    run = {**{name: row[name] for name in run_fields}, **_pace(row)} if row["run_id"] else None
    left_out = (*run_fields, "updated_at")
    return {name: value for name, value in row.items() if name not in left_out} | {"run": run}


def _pace(row: Mapping[str, Any]) -> Mapping[str, float | None]:
    """Say how fast a run that is under way goes, and how long the rest takes at this pace."""
    counts, updated_at = row["counts"], row["updated_at"]
    made = counts.get("indexed", 0) + counts.get("failed", 0)
    if row["status"] != "running" or updated_at is None or not made:
        return {"chunks_per_s": None, "remaining_s": None}
    elapsed_s = max((updated_at - row["started_at"]).total_seconds(), 1e-3)
    left = max(counts.get("total", 0) - made - counts.get("unchanged", 0), 0)
    return {
        "chunks_per_s": round(counts.get("chunks", 0) / elapsed_s, 2),
        "remaining_s": round(left * elapsed_s / made, 1),
    }
