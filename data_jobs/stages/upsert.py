"""Upsert: documents into the catalog and the vector index, so that a crash at any point loses and repeats nothing.

Reads: item, acl, fingerprint, document, signature, chunks, vectors. Writes: nothing; the stores have it.

For each document: its access list (which gives the profile that its points carry), its version staged beside the one
shown, its points, and the switch, each step in one transaction for the batch. Ids are derived from content, so whatever
is done twice comes out the same; the switch queues the deletion of points that are no longer used. Raw payloads were
stored before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from cortex.chunks import IndexPoint
from cortex.documents import Document
from cortex.ports.ingest import AclWrite, DocumentWrite, IndexWriter, IngestCatalog
from data_jobs.rows import Row

_POINTS_PER_CALL = 256


class UpsertStage:
    """Writes batches of documents that are complete up to their vectors."""

    def __init__(self, catalog: IngestCatalog, index: IndexWriter, embedding_model_version: str) -> None:
        self._catalog = catalog
        self._index = index
        self._embedding_model_version = embedding_model_version

    def __call__(self, rows: Sequence[Row]) -> None:
        """Write documents of one source; raises Unavailable when a store does not answer: then write them again."""
        documents = [_document(row) for row in rows]
        if not documents:
            return
        first = documents[0]
        writes = [
            AclWrite(document.external_id, document.document_id, row.acl)
            for document, row in zip(documents, rows, strict=True)
        ]
        profile_ids = self._catalog.set_acls(first.tenant_id, first.source_id, writes)
        with self._catalog.together():
            group_ids = [self._stage(document, row) for document, row in zip(documents, rows, strict=True)]
        points = (
            point
            for document, row, group_id in zip(documents, rows, group_ids, strict=True)
            for point in self._points(document, row, profile_ids[document.document_id], group_id)
        )
        while batch := list(islice(points, _POINTS_PER_CALL)):
            self._index.upsert(batch)
        with self._catalog.together():
            for document in documents:
                self._catalog.publish_document(document.document_id, document.content_sha256)

    def _stage(self, document: Document, row: Row) -> str:
        """Stage one document; returns the id of the group of near-duplicates that it belongs to."""
        first = self._catalog.near_duplicates(document.tenant_id, document.document_id, row.signature)
        self._catalog.stage_document(
            DocumentWrite(
                document, row.fingerprint, row.chunks, self._embedding_model_version, first, row.signature
            )
        )
        return first or document.document_id

    def _points(self, document: Document, row: Row, profile_id: int, group_id: str) -> Iterator[IndexPoint]:
        for chunk, vectors in zip(row.chunks, row.vectors, strict=True):
            yield IndexPoint(
                chunk_id=chunk.chunk_id,
                document_id=document.document_id,
                tenant_id=document.tenant_id,
                profile_id=profile_id,
                source_id=document.source_id,
                source_type=document.source_type,
                collection=document.collection,
                group_id=group_id,
                updated_at=document.updated_at,
                embedding_model_version=self._embedding_model_version,
                vectors=vectors,
            )


def _document(row: Row) -> Document:
    assert row.document is not None  # rows that failed are not upserted
    return row.document
