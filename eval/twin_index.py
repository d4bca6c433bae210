"""A physical twin: a vector index of its own that holds nothing but the points given."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx

from adapters.qdrant import QdrantSearchIndex
from adapters.qdrant_writer import QdrantIndexWriter
from cortex.chunks import IndexPoint
from cortex.ports.models import Embedder
from cortex.ports.query import SearchIndex
from cortex.settings import Settings

_TIMEOUT_S = 30


@asynccontextmanager
async def physical_twin(
    settings: Settings, alias: str, embedder: Embedder, points: Sequence[IndexPoint]
) -> AsyncIterator[SearchIndex]:
    """Fill a new index under `alias` with points, yield it for searching, then drop it."""
    writer = QdrantIndexWriter.from_settings(settings, alias)
    writer.ensure(embedder.version, embedder.dimension)
    if points:
        writer.upsert(points)
    index = QdrantSearchIndex.from_settings(settings, alias)
    try:
        yield index
    finally:
        await index.close()
        await _drop(settings, alias)


async def _drop(settings: Settings, alias: str) -> None:
    key = settings.qdrant_api_key.get_secret_value()
    async with httpx.AsyncClient(
        base_url=settings.qdrant_url, headers={"api-key": key} if key else {}, timeout=_TIMEOUT_S
    ) as client:
        listed = (await client.get("/collections")).raise_for_status().json()["result"]["collections"]
        for name in (collection["name"] for collection in listed):
            if name.startswith(f"{alias}-"):
                (await client.delete(f"/collections/{name}")).raise_for_status()
