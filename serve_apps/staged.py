"""The parts of the query path in the staged placement: each asks its stage. Only an ingress opens them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from cortex.settings import Settings
from retrieval.path import Parts
from retrieval.plan import Plan
from serve_apps.handles import StageClient
from serve_apps.parts import build_lexical, open_catalog
from serve_apps.placements import is_configured
from serve_apps.remote import (
    RemoteChecker,
    RemoteEmbedder,
    RemoteGenerator,
    RemoteIndex,
    RemoteReaders,
    RemoteReranker,
    RemoteUnderstanding,
    StagedCatalog,
)


@asynccontextmanager
async def open_staged_parts(settings: Settings, stages: Mapping[str, StageClient]) -> AsyncIterator[Parts]:
    """Open the parts over stages, in the running event loop.

    The term encoder is here too: support reads the best passages, and is quicker than sending them would be.
    """
    reranks, generates = (is_configured(name, settings) for name in ("rerank", "generation"))
    async with open_catalog(settings) as own:
        yield Parts(
            catalog=StagedCatalog(stages["permissions"], stages["recheck"], own),
            index=RemoteIndex(stages["search"]),
            checker=RemoteChecker(stages["recheck"]),
            readers=RemoteReaders(stages["recheck"]),
            embedder=RemoteEmbedder(stages["embedding"]),
            lexical=build_lexical(settings),
            understanding=RemoteUnderstanding(stages["understanding"]),
            reranker=RemoteReranker(stages["rerank"]) if reranks else None,
            generator=RemoteGenerator(stages["generation"], settings.llm_model) if generates else None,
            plan=Plan.from_settings(settings),
        )
