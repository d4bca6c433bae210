"""The vector index on Qdrant, for reading: both lanes in one round trip, fused without chance.

Requests and answers are Qdrant's JSON. As the client's models, the question's vector and the some two hundred points found
took more processor than the search.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from opentelemetry.trace import Span, SpanKind

from adapters.fuse import Scored, fuse_ranks, order_lane
from adapters.qdrant_clients import ALIAS, AsyncWire
from adapters.qdrant_errors import translated
from adapters.qdrant_filters import narrowed, permit_filter
from cortex.evidence import Candidate, LaneScores
from cortex.ports.query import IndexQuery
from cortex.settings import Settings
from cortex.telemetry import span

_TIMEOUT_S = 15
_COUNT_TTL_S = 30.0
_SPARE = 28  # read past the lane's end, so that a group of equal scores there is seen whole
_DEEPEST = 8_192  # a lane whose ties reach past this is cut before them


# As Qdrant's JSON has them: id, score, payload.
Points = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Found:
    """What one round trip gave: the lanes in order, and each chunk's document."""

    lanes: Mapping[str, Sequence[Scored]]
    document_ids: Mapping[str, str]


class QdrantSearchIndex:
    """A SearchIndex. Decision 0008 says why the lanes are fused here and not by Qdrant."""

    def __init__(self, wire: AsyncWire, *, exact_below: int, alias: str = ALIAS) -> None:
        self._wire = wire
        self._alias = alias
        self._collection = f"/collections/{quote(alias, safe='')}"
        self._exact_below = exact_below
        self._counted = (-_COUNT_TTL_S, 0)  # when, and how many points

    @classmethod
    def from_settings(cls, settings: Settings, alias: str = ALIAS) -> QdrantSearchIndex:
        """Connect to `CORTEX_QDRANT_URL`; the first call opens the connection."""
        key = settings.qdrant_api_key.get_secret_value()
        wire = AsyncWire(settings.qdrant_url, key, _TIMEOUT_S)
        return cls(wire, exact_below=settings.exact_search_below, alias=alias)

    async def search(self, query: IndexQuery) -> list[Candidate]:
        """Return fused candidates, best first, ties by chunk id, each with its lane scores and ranks."""
        if not query.permit.profile_ids or (query.dense is None and query.sparse is None):
            return []
        found = await self._read(query)
        weights = {"dense": query.weight_dense, "bm25": query.weight_bm25}
        fused = fuse_ranks(found.lanes, weights, query.fusion_k)
        places = _lane_scores(found.lanes)
        return [
            Candidate(one.chunk_id, found.document_ids[one.chunk_id], one.score, places[one.chunk_id])
            for one in fused[query.offset : query.offset + query.limit]
        ]

    async def ping(self) -> None:
        """Raise Unavailable unless the index answers."""
        with translated():
            await self._wire.get("/collections")

    async def close(self) -> None:
        """Close the connections."""
        await self._wire.close()

    async def _read(self, query: IndexQuery) -> Found:
        """Read both lanes, deeper where equal scores stand across a lane's end."""
        lanes = await self._lanes(query)
        depth = query.lane_limit + _SPARE
        while lanes:
            answers = await self._query([{**lane, "limit": depth} for lane in lanes.values()])
            by_lane = dict(zip(lanes, answers, strict=True))
            is_whole = {name: len(points) < depth for name, points in by_lane.items()}
            found = {
                name: order_lane(_scored(points), query.lane_limit, is_whole=is_whole[name])
                for name, points in by_lane.items()
            }
            if depth >= _DEEPEST or all(
                is_whole[name] or len(found[name]) == query.lane_limit for name in found
            ):
                return Found(found, _document_ids(answers))
            depth *= 4
        return Found({}, {})

    async def _query(self, requests: Sequence[Mapping[str, Any]]) -> list[Points]:
        """Send a batch; returns each request's points, best first."""
        with self._asking("query_batch_points", len(requests)) as asking:
            answer = await self._wire.post(f"{self._collection}/points/query/batch", {"searches": requests})
            found = [each["points"] for each in answer]
            asking.set_attribute("db.response.returned_rows", sum(map(len, found)))
        return found

    async def _lanes(self, query: IndexQuery) -> dict[str, Mapping[str, Any]]:
        permitted = permit_filter(query.permit)
        always = {"filter": narrowed(permitted, query.filters), "with_payload": ["document_id"]}
        lanes: dict[str, Mapping[str, Any]] = {}
        if query.dense is not None:
            lanes["dense"] = {
                "query": query.dense,
                "using": "dense",
                "params": {"exact": await self._is_exact()},
                **always,
            }
        if query.sparse is not None and query.sparse.indices:
            lanes["bm25"] = {
                "query": {"indices": list(query.sparse.indices), "values": list(query.sparse.values)},
                "using": "bm25",
                # Rarity counts over what the reader may see, whatever the question is narrowed to.
                "params": {"idf": {"corpus": permitted}},
                **always,
            }
        return lanes

    async def _is_exact(self) -> bool:
        """Say whether the index is small enough to scan; its size is asked for now and then."""
        counted_at_s, count = self._counted
        if time.monotonic() - counted_at_s > _COUNT_TTL_S:
            with self._asking("count"):
                counted = await self._wire.post(f"{self._collection}/points/count", {"exact": False})
                count = counted["count"]
            self._counted = (time.monotonic(), count)
        return count < self._exact_below

    @contextmanager
    def _asking(self, operation: str, n_requests: int = 1) -> Iterator[Span]:
        described: dict[str, str | int] = {
            "db.system.name": "qdrant",
            "db.operation.name": operation,
            "db.collection.name": self._alias,
        }
        if n_requests > 1:
            described["db.operation.batch.size"] = n_requests
        with span(f"qdrant {operation}", described, kind=SpanKind.CLIENT) as opened, translated():
            yield opened


def _scored(points: Points) -> list[Scored]:
    return [Scored(point["id"], point["score"]) for point in points]


def _document_ids(answers: Sequence[Points]) -> dict[str, str]:
    return {
        point["id"]: (point.get("payload") or {}).get("document_id", "")
        for points in answers
        for point in points
    }


def _lane_scores(lanes: Mapping[str, Sequence[Scored]]) -> dict[str, LaneScores]:
    dense, bm25 = (
        {one.chunk_id: (one.score, rank) for rank, one in enumerate(lanes.get(name, ()), 1)}
        for name in ("dense", "bm25")
    )
    nowhere = (None, None)
    return {
        chunk_id: LaneScores(*dense.get(chunk_id, nowhere), *bm25.get(chunk_id, nowhere))
        for chunk_id in dense | bm25
    }
