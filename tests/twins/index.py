"""Twin of the vector index: exact, in memory, and shared by its writer and its reader. For unit tests only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import log

from cortex.chunks import IndexPoint
from cortex.errors import InputError, Misconfigured, Unavailable
from cortex.evidence import Candidate, Filters, LaneScores
from cortex.ports.query import IndexQuery


@dataclass
class MemoryIndex:
    """The points, as an IndexWriter and, through `reader`, as a SearchIndex. `is_down` makes every call fail."""

    points: dict[str, IndexPoint] = field(default_factory=dict)
    version: str = ""
    dimension: int = 0
    is_down: bool = False

    def ensure(self, embedding_model_version: str, dimension: int) -> None:
        """Start over for another model version; refuse another dimension of the same."""
        self._check()
        if self.version == embedding_model_version and self.dimension != dimension:
            raise Misconfigured("the twin has another dimension", code="index.mismatch")
        if self.version != embedding_model_version:
            self.points.clear()
        self.version, self.dimension = embedding_model_version, dimension

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Insert or replace points."""
        self._check()
        self.points |= {point.chunk_id: point for point in points}

    def delete_chunks(self, chunk_ids: Sequence[str]) -> None:
        """Delete points by id."""
        if not chunk_ids:
            raise InputError("nothing selected", code="selector.empty")
        self._keep(lambda point: point.chunk_id not in chunk_ids)

    def delete_document(self, document_id: str) -> None:
        """Delete every point of a document."""
        if not document_id:
            raise InputError("nothing selected", code="selector.empty")
        self._keep(lambda point: point.document_id != document_id)

    def set_profile(self, document_id: str, profile_id: int) -> None:
        """Change the access profile of a document's points."""
        self._check()
        for chunk_id, point in self.points.items():
            if point.document_id == document_id:
                self.points[chunk_id] = replace(point, profile_id=profile_id)

    def count(self, tenant_id: str) -> int:
        """Count a tenant's points."""
        self._check()
        return sum(point.tenant_id == tenant_id for point in self.points.values())

    def optimize(self) -> None:
        """Do nothing: there is nothing to build."""
        self._check()

    @property
    def reader(self) -> MemorySearch:
        """The same points as a SearchIndex."""
        return MemorySearch(self)

    def _keep(self, wanted: Callable[[IndexPoint], bool]) -> None:
        self._check()
        self.points = {chunk_id: point for chunk_id, point in self.points.items() if wanted(point)}

    def _check(self) -> None:
        if self.is_down:
            raise Unavailable("the twin is down", code="index.unavailable")


class MemorySearch:
    """A SearchIndex over a MemoryIndex, by the definitions themselves."""

    def __init__(self, index: MemoryIndex) -> None:
        self._index = index

    async def ping(self) -> None:
        """Fail when the twin is down."""
        self._index._check()

    async def search(self, query: IndexQuery) -> list[Candidate]:
        """Score every permitted point in each lane, order, fuse and cut."""
        self._index._check()
        profiles = set(query.permit.profile_ids)
        permitted = [
            point
            for point in self._index.points.values()
            if point.profile_id in profiles and point.tenant_id == query.permit.principal.tenant_id
        ]
        chosen = [point for point in permitted if _is_chosen(point, query.filters)]
        lanes = {"dense": _dense(query, chosen), "bm25": _bm25(query, permitted, chosen)}
        return _fuse(query, {name: _ordered(lane, query.lane_limit) for name, lane in lanes.items()})[
            query.offset : query.offset + query.limit
        ]


def _is_chosen(point: IndexPoint, filters: Filters) -> bool:
    at = point.updated_at
    return (
        (not filters.collections or point.collection in filters.collections)
        and (not filters.source_types or point.source_type in filters.source_types)
        and (filters.updated_after is None or (at is not None and at >= filters.updated_after))
        and (filters.updated_before is None or (at is not None and at < filters.updated_before))
    )


def _dense(query: IndexQuery, points: Sequence[IndexPoint]) -> list[tuple[IndexPoint, float]]:
    if query.dense is None:
        return []
    return [(point, float(point.vectors.dense @ query.dense)) for point in points]


def _bm25(
    query: IndexQuery, corpus: Sequence[IndexPoint], points: Sequence[IndexPoint]
) -> list[tuple[IndexPoint, float]]:
    """Sum tf weight * query weight * ln(1 + (N - n + 0.5) / (n + 0.5)) over the corpus that the reader may see."""
    if query.sparse is None:
        return []
    weights = dict(zip(query.sparse.indices, query.sparse.values, strict=True))
    held = {index: sum(index in point.vectors.sparse.indices for point in corpus) for index in weights}
    idf = {index: log(1 + (len(corpus) - n + 0.5) / (n + 0.5)) for index, n in held.items()}
    scored = []
    for point in points:
        terms = zip(point.vectors.sparse.indices, point.vectors.sparse.values, strict=True)
        parts = [value * weights[index] * idf[index] for index, value in terms if index in weights]
        if parts:
            scored.append((point, sum(parts)))
    return scored


def _ordered(lane: list[tuple[IndexPoint, float]], limit: int) -> list[tuple[IndexPoint, float]]:
    return sorted(lane, key=lambda pair: (-float(f"{pair[1]:.6g}"), pair[0].chunk_id))[:limit]


def _fuse(query: IndexQuery, lanes: dict[str, list[tuple[IndexPoint, float]]]) -> list[Candidate]:
    weights = {"dense": query.weight_dense, "bm25": query.weight_bm25}
    found: dict[str, Candidate] = {}
    for name, lane in lanes.items():
        for rank, (point, score) in enumerate(lane, 1):
            gain = weights[name] / (query.fusion_k + rank)
            seen = found.get(point.chunk_id, Candidate(point.chunk_id, point.document_id, 0.0, LaneScores()))
            place = {f"{name}_score": score, f"{name}_rank": rank}
            found[point.chunk_id] = replace(seen, score=seen.score + gain, lanes=replace(seen.lanes, **place))
    return sorted(found.values(), key=lambda candidate: (-candidate.score, candidate.chunk_id))
