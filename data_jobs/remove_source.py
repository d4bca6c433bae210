"""Removes a source from every store, hidden first and its row last; run again after a crash, it goes on.

The receipt says how much was deleted from each store, and what a last look still found there.
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from adapters.catalog.removal import CatalogRemoval, SourceRow
from adapters.objects import ObstoreObjects
from adapters.qdrant_reader import QdrantIndexReader
from adapters.qdrant_writer import QdrantIndexWriter
from cortex.errors import Unavailable
from cortex.settings import Settings
from data_jobs.actor import operator
from data_jobs.checkpoint import work_folder
from data_jobs.parts import deliver_queued, require
from data_jobs.source_lock import others_are_loaded, source_lock


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was deleted. Objects are kept while another source is loaded, since it may just have found them there."""

    source_id: str
    source_type: str
    name: str
    documents: int
    chunks: int
    edges: int
    points: int
    tuples: int
    memberships: int
    objects: int
    objects_kept: int
    citations: int
    runs: int
    points_left: int


def remove_source(settings: Settings, source: SourceRow) -> Receipt:
    """Remove a source; raises Conflict while it is loaded, Unavailable when a store does not answer: then run it again."""
    require(settings.postgres_url, "postgres")
    require(settings.qdrant_url, "qdrant")
    with source_lock(settings, source.source_id), ExitStack() as stack:
        catalog = CatalogRemoval(settings.postgres_url)
        stack.callback(catalog.close)
        reader = QdrantIndexReader.from_settings(settings)
        stack.callback(reader.close)
        counts = catalog.counts(source.source_id)
        catalog.hide(settings.tenant_id, source.source_id, operator())
        n_points = reader.count_source(source.source_id)
        _delete_points(settings, source.source_id)
        catalog.forget_tuples(settings.tenant_id, source.source_id)
        deliver_queued(settings)
        objects = catalog.own_objects(source.source_id)
        keeps = others_are_loaded(settings, source.source_id)
        if not keeps:
            _delete_objects(settings, objects)
        points_left = reader.count_source(source.source_id)
        if points_left:
            raise Unavailable(
                f"{points_left} points came back meanwhile", code="source.not_empty", hint="run it again"
            )
        receipt = Receipt(
            source_id=source.source_id,
            source_type=source.source_type,
            name=source.name,
            documents=counts.n_documents,
            chunks=counts.n_chunks,
            edges=counts.n_edges,
            points=n_points,
            tuples=counts.n_tuples,
            memberships=counts.n_memberships,
            objects=0 if keeps else len(objects),
            objects_kept=len(objects) if keeps else 0,
            citations=counts.n_citations,
            runs=counts.n_runs,
            points_left=points_left,
        )
        shutil.rmtree(work_folder(settings, source.source_id), ignore_errors=True)
        catalog.drop(settings.tenant_id, source.source_id, operator(), asdict(receipt))
    return receipt


def _delete_points(settings: Settings, source_id: str) -> None:
    writer = QdrantIndexWriter.from_settings(settings)
    try:
        writer.delete_source(source_id)
    finally:
        writer.close()


def _delete_objects(settings: Settings, sha256s: list[str]) -> None:
    objects = ObstoreObjects.from_settings(settings)
    for sha256 in sha256s:
        objects.delete(sha256)
