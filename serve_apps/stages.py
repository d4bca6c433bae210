"""The stages of the query path: which plain objects a replica of each holds, and which calls they answer there.

These are the objects that the fused placement holds in one process (`serve_apps/parts.py`); nothing here knows of Ray.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from cortex.evidence import Candidate
from cortex.ports.models import LexicalEncoder
from cortex.principals import Permit
from cortex.settings import Settings
from retrieval.fuse import Fusion
from retrieval.plan import Plan
from retrieval.recheck import CatalogReaders, Ranking, Readers
from retrieval.understand import ByRules
from retrieval.wording import Wording
from serve_apps.parts import (
    build_embedder,
    build_lexical,
    build_reranker,
    open_catalog,
    open_checker,
    open_generator,
    open_index,
)

# By name, methods of ports: coroutines, or asynchronous generators for what streams.
Calls: TypeAlias = Mapping[str, Callable[..., Any]]
Opener: TypeAlias = Callable[[Settings, bool], AbstractAsyncContextManager[Calls]]


def ranker(readers: Readers, lexical: LexicalEncoder) -> Callable[..., Awaitable[Ranking]]:
    """Make the call that rechecks in one go: from candidates, a permit and a question to what its reader may see."""

    async def rank(
        candidates: Sequence[Candidate], permit: Permit, text: str, fusion: Fusion, depth: int
    ) -> Ranking:
        return await readers.open(permit, Wording(lexical, text)).rank(candidates, fusion, depth)

    return rank


@asynccontextmanager
async def _permissions(settings: Settings, on_gpu: bool) -> AsyncIterator[Calls]:
    async with open_catalog(settings) as catalog:
        yield {
            "permit": catalog.permit,
            "fresh_permit": catalog.fresh_permit,
            "permission_token": catalog.permission_token,
        }


@asynccontextmanager
async def _understanding(settings: Settings, on_gpu: bool) -> AsyncIterator[Calls]:
    yield {"understand": ByRules(Plan.from_settings(settings)).understand}


@asynccontextmanager
async def _embedding(settings: Settings, on_gpu: bool) -> AsyncIterator[Calls]:
    embedder = build_embedder(settings, on_gpu=on_gpu)
    yield {"embed_queries": embedder.embed_queries, "embed_documents": embedder.embed_documents}


@asynccontextmanager
async def _search(settings: Settings, on_gpu: bool) -> AsyncIterator[Calls]:
    async with open_index(settings) as index:
        yield {"search": index.search, "ping": index.ping}


@asynccontextmanager
async def _rerank(settings: Settings, on_gpu: bool) -> AsyncIterator[Calls]:
    reranker = build_reranker(settings)
    yield {"score": reranker.score} if reranker is not None else {}


@asynccontextmanager
async def _recheck(settings: Settings, on_gpu: bool) -> AsyncIterator[Calls]:
    round_size = Plan.from_settings(settings).recheck_round
    async with open_catalog(settings) as catalog, open_checker(settings) as checker:
        yield {
            "rank": ranker(CatalogReaders(catalog, checker, round_size), build_lexical(settings)),
            "hydrate": catalog.hydrate,
            "document_hits": catalog.document_hits,
            "allowed": checker.allowed,
            "ping": checker.ping,
        }


@asynccontextmanager
async def _generation(settings: Settings, on_gpu: bool) -> AsyncIterator[Calls]:
    async with open_generator(settings) as generator:
        yield {"stream": generator.stream} if generator is not None else {}


OPENERS: Mapping[str, Opener] = {
    "permissions": _permissions,
    "understanding": _understanding,
    "embedding": _embedding,
    "search": _search,
    "rerank": _rerank,
    "recheck": _recheck,
    "generation": _generation,
}
