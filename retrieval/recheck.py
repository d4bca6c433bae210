"""Recheck: the late permission check, refilled in rounds until enough is authorised or the pool ends.

Every candidate passes twice more: the catalog's current rows (deleted, replaced, moved to another access list) and
SpiceDB, at least as fresh as the newest permission write. A check that fails closes the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cortex.evidence import Candidate, Hit
from cortex.ports.query import PermissionChecker, QueryCatalog
from cortex.principals import Permit
from retrieval.fuse import LANES, Fusion, Ranked, fuse, is_decisive, lane_length
from retrieval.run import Run, step, together
from retrieval.search import Pool
from retrieval.wording import Wording


@dataclass(frozen=True, slots=True)
class Ranking:
    """What a reader may see of some candidates: the best of it as hits, and how many of all each lane had found."""

    hits: list[Hit]
    lane_lengths: Mapping[str, int]

    @classmethod
    def of(cls, ranked: Sequence[Ranked], depth: int) -> Ranking:
        """Take the first `depth` of a fused order as hits."""
        return cls(
            [each.as_hit() for each in ranked[:depth]],
            {lane: lane_length(ranked, lane) for lane in LANES},
        )


class Reader(Protocol):
    """One reader with one question."""

    async def rank(self, candidates: Sequence[Candidate], fusion: Fusion, depth: int) -> Ranking:
        """Fuse the candidates that may be seen, and return the best `depth`, each authorised. Raises ChecksUnavailable."""


class Readers(Protocol):
    """Whoever rechecks: the code of this file, here or in a process of its own."""

    def open(self, permit: Permit, wording: Wording) -> Reader:
        """Begin for one reader and one question."""


class CatalogReaders:
    """The Readers of this file, over the catalog and SpiceDB, which is asked about `round_size` documents at a time."""

    def __init__(self, catalog: QueryCatalog, checker: PermissionChecker, round_size: int) -> None:
        self._catalog = catalog
        self._checker = checker
        self._round_size = round_size

    def open(self, permit: Permit, wording: Wording) -> CatalogReader:
        """Begin for one reader and one question."""
        return CatalogReader(self._catalog, self._checker, permit, wording, self._round_size)


class CatalogReader:
    """What one reader may see of the candidates met so far. Nothing is loaded or checked twice."""

    def __init__(
        self,
        catalog: QueryCatalog,
        checker: PermissionChecker,
        permit: Permit,
        wording: Wording,
        round_size: int,
    ) -> None:
        self._catalog = catalog
        self._checker = checker
        self._permit = permit
        self._wording = wording
        self._round_size = round_size
        self._hits: dict[str, Hit | None] = {}  # by chunk id; None: the catalog does not show it
        self._verdicts: dict[str, bool] = {}  # by document id, as SpiceDB said

    async def rank(self, candidates: Sequence[Candidate], fusion: Fusion, depth: int) -> Ranking:
        """Fuse the candidates that may be seen; the first `depth` are authorised, the others not refused so far.

        So are those that decided on the scores. Each refusal lets others move up, so the next round checks those.
        """
        await self._meet(candidates)
        while True:
            ranked = fuse(self._visible(candidates), fusion, self._wording)
            deciding = (*ranked[:depth], *filter(is_decisive, ranked[depth:]))
            if await self._check(each.hit.document_id for each in deciding):
                return Ranking.of(ranked, depth)

    async def _meet(self, candidates: Sequence[Candidate]) -> None:
        """Load candidates; the first time, ask SpiceDB meanwhile about those that the index puts first: most will rank."""
        if self._verdicts:
            await self._load(candidates)
            return
        first = list(dict.fromkeys(each.document_id for each in candidates))[: self._round_size]
        await together(self._load(candidates), self._check(first))

    async def _load(self, candidates: Sequence[Candidate]) -> None:
        unknown = [candidate for candidate in candidates if candidate.chunk_id not in self._hits]
        if unknown:
            shown = {hit.chunk_id: hit for hit in await self._catalog.hydrate(unknown, self._permit)}
            self._hits.update({candidate.chunk_id: shown.get(candidate.chunk_id) for candidate in unknown})

    async def _check(self, document_ids: Iterable[str]) -> bool:
        """Ask SpiceDB about documents it was not asked about, in rounds; False as soon as one is refused."""
        unchecked = list(dict.fromkeys(each for each in document_ids if each not in self._verdicts))
        for start in range(0, len(unchecked), self._round_size):
            asked = unchecked[start : start + self._round_size]
            allowed = await self._checker.allowed(self._permit.principal, asked, self._permit.token)
            self._verdicts.update({document_id: document_id in allowed for document_id in asked})
            if len(allowed) < len(asked):
                return False
        return True

    def _visible(self, candidates: Sequence[Candidate]) -> list[Hit]:
        visible = []
        for candidate in candidates:
            hit = self._hits[candidate.chunk_id]
            if hit is None or not self._verdicts.get(hit.document_id, True):
                continue
            # Read deeper, a lane may have found what only the other had found before.
            visible.append(hit if hit.lanes == candidate.lanes else replace(hit, lanes=candidate.lanes))
        return visible


@step("recheck")
async def recheck(run: Run, pool: Pool, reader: Reader, fusion: Fusion, depth: int) -> list[Hit]:
    """Return the best `depth` hits that the reader may see, fused among themselves. Raises ChecksUnavailable.

    A lane that lost candidates and holds more is read deeper, until it is as long as if those had never existed.
    """
    while True:
        ranking = await reader.rank(pool.candidates, fusion, depth)
        short = [lane for lane in LANES if ranking.lane_lengths[lane] < fusion.lane_limit]
        if not any(pool.may_deepen(lane) for lane in short):
            return ranking.hits
        await pool.deepen()
