"""Stages, publishes and tombstones documents, each in one transaction of the caller's connection."""

from __future__ import annotations

from typing import NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from adapters.catalog.audit import add_to_load
from adapters.catalog.edges import copy_edges
from adapters.catalog.mirror import forget_documents, relationships
from adapters.catalog.queries import queries
from adapters.catalog.queue import queue_obsolete, queue_tuples
from adapters.catalog.signatures import bands
from cortex.chunks import Chunk
from cortex.errors import Conflict, InputError
from cortex.ports.ingest import DocumentWrite

_SQL = queries("documents")


class _Held(NamedTuple):
    """A document's row, held until the transaction ends."""

    tenant_id: str
    source_id: str
    shown: int | None
    staged: int | None
    is_deleted: bool
    shown_sha256: str | None
    staged_sha256: str | None


def stage(connection: psycopg.Connection, write: DocumentWrite) -> None:
    """Store a version beside the one shown; an earlier staged one is dropped and its own points are queued."""
    document = write.document
    if not write.chunks:
        raise InputError("a document without chunks cannot be staged", code="document.empty")
    key = {"document_id": document.document_id}
    held = connection.execute(
        _SQL["lock_document"],
        {
            **key,
            "tenant_id": document.tenant_id,
            "source_id": document.source_id,
            "external_id": document.external_id,
        },
    ).fetchone()
    if held is None:
        raise Conflict("this document id belongs to another source", code="document.foreign")
    shown, abandoned = held
    version_id = _insert_version(connection, write)
    _copy_chunks(connection, version_id, document.document_id, write.chunks)
    copy_edges(connection, version_id, document)
    connection.execute(_SQL["point_to_staged"], {**key, "version_id": version_id})
    if abandoned is not None:
        gone = _chunk_ids(connection, abandoned) - _chunk_ids(connection, shown, version_id)
        connection.execute(_SQL["drop_versions"], {"version_ids": [abandoned]})
        queue_obsolete(connection, document.tenant_id, document.document_id, sorted(gone))


def publish(connection: psycopg.Connection, document_id: str, content_sha256: str) -> tuple[str, ...]:
    """Show the staged version and drop the old one; repeating a publish that was done changes nothing."""
    held = _hold(connection, document_id)
    if held and held.staged is None and held.shown_sha256 == content_sha256:
        return ()
    if held is None or held.staged_sha256 != content_sha256:
        raise Conflict("this version of the document is not staged", code="document.not_staged")
    obsolete: tuple[str, ...] = ()
    if held.shown is not None:
        obsolete = tuple(sorted(_chunk_ids(connection, held.shown) - _chunk_ids(connection, held.staged)))
    connection.execute(_SQL["show_staged"], {"document_id": document_id})
    if held.shown is not None:
        connection.execute(_SQL["drop_versions"], {"version_ids": [held.shown]})
    queue_obsolete(connection, held.tenant_id, document_id, obsolete)
    return obsolete


def tombstone(connection: psycopg.Connection, document_id: str) -> tuple[str, ...]:
    """Hide a document, forget its access list, drop its text and queue the deletion of its points."""
    held = _hold(connection, document_id)
    if held is None or held.is_deleted:
        return ()
    tenant_id, shown, staged = held.tenant_id, held.shown, held.staged
    obsolete = tuple(sorted(_chunk_ids(connection, shown, staged)))
    forgotten = relationships(tenant_id, forget_documents(connection, tenant_id, [document_id]))
    connection.execute(_SQL["hide"], {"document_id": document_id})
    connection.execute(_SQL["drop_versions"], {"version_ids": _present(shown, staged)})
    queue_tuples(connection, tenant_id, document_id, delete=forgotten, gates_checks=False)
    queue_obsolete(connection, tenant_id, document_id, obsolete)
    add_to_load(connection, tenant_id, held.source_id, documents_hidden=1)
    return obsolete


def _hold(connection: psycopg.Connection, document_id: str) -> _Held | None:
    row = connection.execute(_SQL["hold_document"], {"document_id": document_id}).fetchone()
    return _Held(*row) if row else None


def _present(*version_ids: int | None) -> list[int]:
    return [version_id for version_id in version_ids if version_id is not None]


def _chunk_ids(connection: psycopg.Connection, *version_ids: int | None) -> set[str]:
    rows = connection.execute(_SQL["chunk_ids"], {"version_ids": _present(*version_ids)})
    return {chunk_id for (chunk_id,) in rows}


def _insert_version(connection: psycopg.Connection, write: DocumentWrite) -> int:
    document = write.document
    row = connection.execute(
        _SQL["insert_version"],
        {
            "document_id": document.document_id,
            "tenant_id": document.tenant_id,
            "content_sha256": document.content_sha256,
            "fingerprint": write.fingerprint,
            "embedding_model_version": write.embedding_model_version,
            "source_type": document.source_type,
            "collection": document.collection,
            "title": document.title,
            "media_type": document.media_type,
            "permalink": document.permalink,
            "author": document.author,
            "language": document.language,
            "created_at": document.created_at,
            "updated_at": document.updated_at,
            "meta": Jsonb(dict(document.meta)),
            "group_id": write.near_duplicate_of or document.document_id,
            "signature": write.signature,
            "bands": bands(write.signature),
            "n_edges": len(document.edges),
            "n_names": len(document.names),
        },
    ).fetchone()
    assert row is not None  # INSERT … RETURNING
    return int(row[0])


def _copy_chunks(
    connection: psycopg.Connection, version_id: int, document_id: str, chunks: tuple[Chunk, ...]
) -> None:
    with connection.cursor().copy(_SQL["copy_chunks"]) as copy:
        for chunk in chunks:
            anchor = chunk.anchor
            copy.write_row(
                (
                    chunk.chunk_id,
                    version_id,
                    document_id,
                    chunk.ordinal,
                    chunk.text,
                    chunk.byte_start,
                    chunk.byte_end,
                    anchor.kind,
                    anchor.start,
                    anchor.end,
                    anchor.label,
                    list(chunk.heading_path),
                    chunk.kind,
                    chunk.n_tokens,
                )
            )
