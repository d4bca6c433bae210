"""Recheck: the late permission check, refilled in rounds until enough is authorised or the pool ends.

Every candidate passes twice more: the catalog's current rows (deleted, replaced, moved to another access list) and
SpiceDB, at least as fresh as the newest permission write. A check that fails closes the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cortex.evidence import Candidate, Hit
from cortex.ports.query import PermissionChecker, QueryCatalog
from cortex.principals import Permit
from retrieval.fuse import LANES, Fusion, Ranked, fuse, is_decisive, lane_length
from retrieval.run import Run, step, together
from retrieval.search import Pool
from retrieval.wording import Wording


class Reader:
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

    async def rank(self, candidates: Sequence[Candidate], fusion: Fusion, depth: int) -> list[Ranked]:
        """Fuse the candidates that may be seen; the first `depth` are authorised, the others not refused so far.

        So are those that decided on the scores. Each refusal lets others move up, so the next round checks those.
        """
        await self._meet(candidates)
        while True:
            ranked = fuse(self._visible(candidates), fusion, self._wording)
            deciding = (*ranked[:depth], *filter(is_decisive, ranked[depth:]))
            if await self._check(each.hit.document_id for each in deciding):
                return ranked

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
        ranked = await reader.rank(pool.candidates, fusion, depth)
        short = [lane for lane in LANES if lane_length(ranked, lane) < fusion.lane_limit]
        if not any(pool.may_deepen(lane) for lane in short):
            return [each.as_hit() for each in ranked[:depth]]
        await pool.deepen()
