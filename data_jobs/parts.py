"""Parts of the ingest side, built from settings: the one place where synchronous programs choose adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cortex.errors import Misconfigured
from cortex.ports.ingest import IndexWriter, IngestCatalog, ObjectStore
from cortex.ports.models import Embedder, LexicalEncoder, TokenCounter
from cortex.settings import Settings
from data_jobs.actor import operator
from data_jobs.patience import patiently

# SpiceDB takes 4,000 to 9,000 tuples a second: enough for a million documents.
_DELIVERY_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class ModelNames:
    """What a program must know of encoders that others run for it."""

    embedding_model_version: str
    lexical: LexicalEncoder


@dataclass(frozen=True, slots=True)
class Models:
    """The encoders, alike on the ingest and the query side."""

    embedder: Embedder
    lexical: LexicalEncoder

    @property
    def names(self) -> ModelNames:
        """Name them."""
        return ModelNames(self.embedder.version, self.lexical)


@dataclass(frozen=True, slots=True)
class Stores:
    """Where documents go."""

    catalog: IngestCatalog
    index: IndexWriter
    objects: ObjectStore


def build_models(settings: Settings, *, on_gpu: bool = False) -> Models:
    """Load the encoders that settings name, the dense one on a GPU if that is possible; raises Misconfigured."""
    from adapters.bm25 import Bm25Encoder
    from adapters.onnx_embedder import OnnxEmbedder

    return Models(OnnxEmbedder.from_settings(settings, on_gpu=on_gpu), Bm25Encoder.from_settings(settings))


def name_models(settings: Settings) -> ModelNames:
    """Name the encoders that settings name, the dense one by its files alone: its session is 200 MB; raises Misconfigured."""
    from adapters.bm25 import Bm25Encoder
    from adapters.onnx_embedder import model_version

    return ModelNames(model_version(settings), Bm25Encoder.from_settings(settings))


def can_use_gpus() -> bool:
    """Say whether the encoders' runtime is installed in its build for GPUs."""
    from adapters import onnx_text

    return onnx_text.can_use_gpus()


def build_token_counter(settings: Settings) -> TokenCounter:
    """Load what chunking needs of the embedder that settings name; raises Misconfigured."""
    from adapters.onnx_embedder import OnnxTokenCounter

    return OnnxTokenCounter.from_settings(settings)


@contextmanager
def open_catalog(settings: Settings) -> Iterator[IngestCatalog]:
    """Open the catalog for writing; raises Misconfigured when none is configured, Unavailable when it is down."""
    from adapters.catalog.ingest import PostgresIngestCatalog

    require(settings.postgres_url, "postgres")
    catalog = PostgresIngestCatalog(settings.postgres_url, operator())
    try:
        yield catalog
    finally:
        catalog.close()


def open_stores(settings: Settings, catalog: IngestCatalog, model_version: str, dimension: int) -> Stores:
    """Open index and objects beside an open catalog, the index ready for a model's vectors."""
    index = build_index(settings)
    patiently(lambda: index.ensure(model_version, dimension))
    return Stores(catalog, index, build_objects(settings))


def open_stores_for(models: Models, settings: Settings, catalog: IngestCatalog) -> Stores:
    """Open the stores, the index ready for the vectors of models that this process runs itself."""
    return open_stores(settings, catalog, models.embedder.version, models.embedder.dimension)


def require(url: str, engine: str) -> None:
    """Raise Misconfigured when an engine has no URL, saying how to get one."""
    if not url:
        raise Misconfigured(
            f"no {engine} is configured and none is running", code=f"{engine}.missing", hint="cortex up"
        )


def build_index(settings: Settings) -> IndexWriter:
    """Reach the vector index for writing; raises Misconfigured."""
    from adapters.qdrant_writer import QdrantIndexWriter

    require(settings.qdrant_url, "qdrant")
    return QdrantIndexWriter.from_settings(settings)


def build_objects(settings: Settings) -> ObjectStore:
    """Open the store of raw payloads: the configured one, or a folder of the home."""
    from adapters.objects import ObstoreObjects

    return ObstoreObjects.from_settings(settings)


def deliver_queued(settings: Settings) -> None:
    """Return when every permission and deletion queued so far is in force, with the running relay or in its place.

    Without SpiceDB configured there is nobody to tell. Raises Unavailable when time is up.
    """
    from adapters.catalog.outbox import PostgresOutbox
    from adapters.spicedb.writer import SpiceDBWriter
    from data_jobs.deliver import INDEX_TOPICS, drain

    if not settings.spicedb_url:
        return
    outbox = PostgresOutbox(settings.postgres_url)
    writer = SpiceDBWriter(
        settings.spicedb_url, settings.spicedb_token.get_secret_value(), settings.spicedb_tls
    )
    try:
        index = build_index(settings) if outbox.backlog(INDEX_TOPICS).n_waiting else None
        drain(outbox, writer, index, timeout_s=_DELIVERY_TIMEOUT_S)
    finally:
        outbox.close()
        writer.close()
