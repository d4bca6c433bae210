"""Parts of the query side, built from settings: the one place where asynchronous programs choose adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from adapters.bm25 import Bm25Encoder
from adapters.catalog.query import PostgresQueryCatalog
from adapters.cross_encoder import open_reranker
from adapters.onnx_embedder import OnnxEmbedder
from adapters.openai_chat import OpenAIGenerator
from adapters.qdrant import QdrantSearchIndex
from adapters.spicedb.checker import SpiceDBChecker
from cortex.errors import Misconfigured
from cortex.settings import Settings
from retrieval.path import Parts
from retrieval.plan import Plan


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[Parts]:
    """Open what the query path works with, in the running event loop; raises Misconfigured."""
    for engine, url in (
        ("postgres", settings.postgres_url),
        ("qdrant", settings.qdrant_url),
        ("spicedb", settings.spicedb_url),
    ):
        if not url:
            raise Misconfigured(
                f"no {engine} is configured and none is running", code=f"{engine}.missing", hint="cortex up"
            )
    catalog = PostgresQueryCatalog(settings.postgres_url)
    index = QdrantSearchIndex.from_settings(settings)
    checker = SpiceDBChecker(
        settings.spicedb_url, settings.spicedb_token.get_secret_value(), settings.spicedb_tls
    )
    generator = OpenAIGenerator.from_settings(settings) if settings.llm_url else None
    async with AsyncExitStack() as stack:
        await catalog.open()
        if generator is not None:
            stack.push_async_callback(generator.close)
        for closing in (catalog.close, index.close, checker.close):
            stack.push_async_callback(closing)
        yield Parts(
            catalog=catalog,
            index=index,
            checker=checker,
            embedder=OnnxEmbedder.from_settings(settings),
            lexical=Bm25Encoder.from_settings(settings),
            reranker=open_reranker(settings),
            generator=generator,
            plan=Plan.from_settings(settings),
        )
