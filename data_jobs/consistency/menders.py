"""Menders: what `--repair` does about each kind of difference. None shows a document to anyone who did not see it by the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from adapters.catalog.inventory import CatalogInventory
from adapters.catalog.mend import CatalogMender
from adapters.catalog.mirror import Tuple
from adapters.catalog.outbox import PostgresOutbox
from adapters.catalog.shown import forget_fingerprints
from adapters.objects import LITTER_AFTER, ObstoreObjects
from cortex.ports.ingest import IndexWriter
from cortex.ports.outbox import Relationship
from cortex.settings import Settings
from data_jobs.checkpoint import are_loads_interrupted
from data_jobs.consistency.rebuild import PointBuilder
from data_jobs.consistency.report import Kind, Ledger


class IndexMender:
    """Mends points: orphans are deleted, access is sent again, and the others are made again from stored content."""

    def __init__(
        self,
        url: str,
        catalog: CatalogMender,
        outbox: PostgresOutbox,
        index: IndexWriter,
        builder: Callable[[], PointBuilder | None],
        ledger: Ledger,
    ) -> None:
        self._url = url
        self._catalog = catalog
        self._outbox = outbox
        self._index = index
        self._builder = builder
        self._ledger = ledger

    def mend(self, kind: Kind, points: Sequence[tuple[str, str]]) -> None:
        """Mend points of one kind of difference, given as (chunk id, document id)."""
        if kind is Kind.POINT_ORPHAN:
            self._delete(points)
        elif kind is Kind.POINT_PROFILE:
            n_known = self._catalog.requeue_profiles(sorted({document_id for _, document_id in points}))
            self._ledger.mended(kind, len(points) if n_known else 0)
        else:
            self._rebuild(kind, points)

    def _delete(self, points: Sequence[tuple[str, str]]) -> None:
        """Delete points that no version uses, while their documents are held from being staged anew."""
        document_ids = sorted({document_id for _, document_id in points if document_id})
        with self._outbox.unused_chunks(document_ids, [chunk_id for chunk_id, _ in points]) as unused:
            if unused:
                self._index.delete_chunks(unused)
        self._ledger.mended(Kind.POINT_ORPHAN, len(unused))

    def _rebuild(self, kind: Kind, points: Sequence[tuple[str, str]]) -> None:
        builder = self._builder()
        for document_id, chunk_ids in _by_document(points).items():
            if builder is not None and builder.rebuild(document_id, chunk_ids):
                self._ledger.mended(kind, len(chunk_ids))
            else:
                forget_fingerprints(self._url, [document_id])
                self._ledger.to_reload(kind, len(chunk_ids))


class TupleMender:
    """Mends permissions: what two records say differently is seen by nobody until its source is loaded again."""

    def __init__(self, catalog: CatalogMender, ledger: Ledger) -> None:
        self._catalog = catalog
        self._ledger = ledger

    def mend_documents(self, kind: Kind, documents: Sequence[tuple[str, str]]) -> None:
        """Mend documents of one kind of difference, given as (tenant, document id)."""
        if kind is Kind.EDGE_MISSING:
            self._catalog.make_again([document_id for _, document_id in documents])
            self._ledger.to_reload(kind, len(documents))
            return
        mend = {
            Kind.ACCESS_MISSING: self._catalog.restate_documents,
            Kind.ACCESS_FOREIGN: self._catalog.hide_documents,
            Kind.EDGE_FOREIGN: self._catalog.own_edges,
            Kind.VERSION_UNUSED: self._catalog.drop_unused_versions,
        }[kind]
        for tenant_id, document_ids in _by_tenant(documents).items():
            self._ledger.mended(kind, mend(tenant_id, document_ids))

    def mend_profiles(self, kind: Kind, profiles: Sequence[tuple[str, str]]) -> None:
        """Mend access profiles, given as (tenant, profile's name)."""
        for tenant_id, name in profiles:
            self._catalog.drop_profile(tenant_id, name)
            self._ledger.mended(kind)

    def tell(self, tenant_id: str, tuples: Sequence[Tuple]) -> None:
        """Tell SpiceDB what the mirror has, if it still has it."""
        self._catalog.tell_tuples(tenant_id, tuples)
        self._ledger.mended(Kind.TUPLE_MISSING, len(tuples))

    def retract(self, relationships: Sequence[Relationship]) -> None:
        """Take from SpiceDB what the mirror does not have."""
        self._catalog.retract(relationships)
        self._ledger.mended(Kind.TUPLE_STALE, len(relationships))


class ContentMender:
    """Mends objects: litter is deleted; what is lost or damaged is stored again by the next load of its source."""

    def __init__(
        self, settings: Settings, inventory: CatalogInventory, objects: ObstoreObjects, ledger: Ledger
    ) -> None:
        self._settings = settings
        self._inventory = inventory
        self._objects = objects
        self._ledger = ledger

    def mend(self, kind: Kind, sha256s: Sequence[str]) -> None:
        """Mend objects of one kind of difference."""
        if kind is Kind.OBJECT_ORPHAN:
            self._ledger.mended(kind, sum(map(self._collect, sha256s)))
            return
        if kind is Kind.OBJECT_CORRUPT:
            for sha256 in sha256s:
                self._objects.delete(sha256)
        documents = self._inventory.documents_of_objects(sha256s)
        forget_fingerprints(
            self._settings.postgres_url, sorted({one for ids in documents.values() for one in ids})
        )
        self._ledger.to_reload(kind, len(sha256s))

    def _collect(self, sha256: str) -> bool:
        """Delete litter, unless a load has found it there since, or one that was killed may go on and need it."""
        is_litter = not are_loads_interrupted(self._settings) and self._objects.is_older(sha256, LITTER_AFTER)
        if is_litter:
            self._objects.delete(sha256)
        return is_litter


def _by_document(points: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for chunk_id, document_id in points:
        found.setdefault(document_id, []).append(chunk_id)
    return found


def _by_tenant(documents: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tenant_id, document_id in documents:
        found.setdefault(tenant_id, []).append(document_id)
    return found
