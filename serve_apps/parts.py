"""Parts of the query side, built from settings: the one place where asynchronous programs choose adapters.

Each opener is used twice: by a process that holds all parts, and by the replicas of a stage that holds one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from adapters.bm25 import Bm25Encoder
from adapters.catalog.query import PostgresQueryCatalog
from adapters.cross_encoder import open_reranker
from adapters.in_threads import ThreadedEmbedder, ThreadedReranker
from adapters.onnx_embedder import OnnxEmbedder
from adapters.openai_chat import OpenAIGenerator
from adapters.qdrant import QdrantSearchIndex
from adapters.spicedb.checker import SpiceDBChecker
from cortex.errors import Misconfigured
from cortex.ports.models import Generator, LexicalEncoder
from cortex.ports.query import (
    PassageReranker,
    PermissionChecker,
    QueryCatalog,
    QuestionEmbedder,
    SearchIndex,
)
from cortex.settings import Settings
from retrieval.path import Parts
from retrieval.plan import Plan
from retrieval.understand import ByRules


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[Parts]:
    """Open what the query path works with, in the running event loop; raises Misconfigured."""
    async with AsyncExitStack() as stack:
        plan = Plan.from_settings(settings)
        yield Parts(
            catalog=await stack.enter_async_context(open_catalog(settings)),
            index=await stack.enter_async_context(open_index(settings)),
            checker=await stack.enter_async_context(open_checker(settings)),
            embedder=build_embedder(settings),
            lexical=build_lexical(settings),
            understanding=ByRules(plan),
            reranker=build_reranker(settings),
            generator=await stack.enter_async_context(open_generator(settings)),
            plan=plan,
        )


@asynccontextmanager
async def open_catalog(settings: Settings) -> AsyncIterator[QueryCatalog]:
    """Open the catalog; one that is not up yet is connected to later. Raises Misconfigured without an address."""
    catalog = PostgresQueryCatalog(_required("postgres", settings.postgres_url))
    await catalog.open()
    try:
        yield catalog
    finally:
        await catalog.close()


@asynccontextmanager
async def open_index(settings: Settings) -> AsyncIterator[SearchIndex]:
    """Open the vector index; raises Misconfigured without an address."""
    _required("qdrant", settings.qdrant_url)
    index = QdrantSearchIndex.from_settings(settings)
    try:
        yield index
    finally:
        await index.close()


@asynccontextmanager
async def open_checker(settings: Settings) -> AsyncIterator[PermissionChecker]:
    """Open SpiceDB; raises Misconfigured without an address."""
    url = _required("spicedb", settings.spicedb_url)
    checker = SpiceDBChecker(url, settings.spicedb_token.get_secret_value(), settings.spicedb_tls)
    try:
        yield checker
    finally:
        await checker.close()


@asynccontextmanager
async def open_generator(settings: Settings) -> AsyncIterator[Generator | None]:
    """Open the user's model; None when no address is set."""
    if not settings.llm_url:
        yield None
        return
    generator = OpenAIGenerator.from_settings(settings)
    try:
        yield generator
    finally:
        await generator.close()


def build_embedder(settings: Settings, *, on_gpu: bool = False) -> QuestionEmbedder:
    """Load the dense encoder, on a GPU if that is possible; raises Misconfigured."""
    return ThreadedEmbedder(OnnxEmbedder.from_settings(settings, on_gpu=on_gpu))


def build_lexical(settings: Settings) -> LexicalEncoder:
    """Make the term encoder, which is code and loads nothing."""
    return Bm25Encoder.from_settings(settings)


def build_reranker(settings: Settings) -> PassageReranker | None:
    """Load the cross-encoder; None when none is set. Raises Misconfigured."""
    reranker = open_reranker(settings)
    return ThreadedReranker(reranker) if reranker is not None else None


def _required(engine: str, url: str) -> str:
    if not url:
        raise Misconfigured(
            f"no {engine} is configured and none is running", code=f"{engine}.missing", hint="cortex up"
        )
    return url
