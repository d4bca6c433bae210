"""Parts of the ingest side, built from settings: the one place where synchronous programs choose adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cortex.errors import Misconfigured
from cortex.ports import Embedder, IndexWriter, IngestCatalog, LexicalEncoder, ObjectStore
from cortex.settings import Settings


@dataclass(frozen=True, slots=True)
class Models:
    """The encoders, alike on the ingest and the query side."""

    embedder: Embedder
    lexical: LexicalEncoder


@dataclass(frozen=True, slots=True)
class Stores:
    """Where documents go."""

    catalog: IngestCatalog
    index: IndexWriter
    objects: ObjectStore


def build_models(settings: Settings) -> Models:
    """Load the encoders that settings name; raises Misconfigured."""
    from adapters.bm25 import Bm25Encoder
    from adapters.onnx_embedder import OnnxEmbedder

    return Models(OnnxEmbedder.from_settings(settings), Bm25Encoder.from_settings(settings))


@contextmanager
def open_catalog(settings: Settings) -> Iterator[IngestCatalog]:
    """Open the catalog for writing; raises Misconfigured when none is configured, Unavailable when it is down."""
    from adapters.catalog.ingest import PostgresIngestCatalog

    require(settings.postgres_url, "postgres")
    catalog = PostgresIngestCatalog(settings.postgres_url)
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def open_stores(settings: Settings) -> Iterator[Stores]:
    """Open catalog, index and objects for writing; raises Misconfigured or Unavailable."""
    with open_catalog(settings) as catalog:
        yield Stores(catalog, build_index(settings), build_objects(settings))


def require(url: str, engine: str) -> None:
    """Raise Misconfigured when an engine has no URL, saying how to get one."""
    if not url:
        raise Misconfigured(
            f"no {engine} is configured and none is running", code=f"{engine}.missing", hint="cortex up"
        )


def build_index(settings: Settings) -> IndexWriter:
    """Reach the vector index for writing; raises Misconfigured."""
    from adapters.qdrant import QdrantIndexWriter

    require(settings.qdrant_url, "qdrant")
    return QdrantIndexWriter.from_settings(settings)


def build_objects(settings: Settings) -> ObjectStore:
    """Open the store of raw payloads: the configured one, or a folder of the home."""
    from adapters.objects import ObjectFolder

    return ObjectFolder.from_settings(settings)
