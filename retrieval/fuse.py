"""Fuse: the lanes' own scores brought to one scale, among what the reader may see and nothing else.

Ranks were fused already, over whatever the index filter let through (`adapters/fuse.py`); that orders the pool. Ranks cannot tell a lane
that found the thing from one that found nothing better, so the final order goes by scores: the cosine as it is, and
BM25 as a share of what the question could have scored at most, estimated from the share of its words that the first
hits contain (after the theoretical normalisation of Bruch et al. 2023). A paraphrase leaves the words to count little,
a quotation makes them count fully; no weight has to be chosen per corpus.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import NamedTuple

from cortex.evidence import Hit, LaneScores
from retrieval.plan import Plan
from retrieval.understand import LanePlan
from retrieval.wording import Wording

LANES = ("dense", "bm25")
# First hits of the lexical lane among which rarity is counted: more cost time and gain nothing.
_N_RARITY = 10
_RANK = {"dense": attrgetter("dense_rank"), "bm25": attrgetter("bm25_rank")}
_PLACE = itemgetter(0, 1)  # a rank or score, then the chunk id


@dataclass(frozen=True, slots=True)
class Fusion:
    """How lanes are fused: their weights, the index's rank constant, how deep each counts, the cosine of unrelated texts."""

    weight_dense: float
    weight_bm25: float
    k: int
    lane_limit: int
    cosine_floor: float = 0.0

    @classmethod
    def of(cls, lanes: LanePlan, plan: Plan, depth: int) -> Fusion:
        """Take the weights of this question and the numbers of the plan; lanes are at least as deep as the search."""
        limit = max(plan.lane_limit, depth)
        return cls(lanes.weight_dense, lanes.weight_bm25, plan.fusion_k, limit, plan.cosine_floor)


class Ranked(NamedTuple):
    """A hit's place in the fused order: its score in [0, 1], and its ranks in the lanes among what was fused.

    Most of what is fused is never shown: a tuple is made in a fraction of the time of a hit with its place.
    """

    hit: Hit
    score: float
    dense_rank: int | None
    bm25_rank: int | None

    def as_hit(self) -> Hit:
        """Return the hit with its place."""
        lanes = self.hit.lanes
        placed = LaneScores(lanes.dense_score, self.dense_rank, lanes.bm25_score, self.bm25_rank)
        return replace(self.hit, score=self.score, lanes=placed)


def fuse(hits: Sequence[Hit], fusion: Fusion, wording: Wording) -> list[Ranked]:
    """Score hits, best first, ties by chunk id.

    Only these hits take ranks. One beyond the lane limit in every lane is left out.
    """
    dense, bm25 = (_lane(hits, lane)[: fusion.lane_limit] for lane in LANES)
    score = _scorer(fusion, _attainable(bm25, wording))
    dense_ranks = {hit.chunk_id: rank for rank, hit in enumerate(dense, start=1)}
    bm25_ranks = {hit.chunk_id: rank for rank, hit in enumerate(bm25, start=1)}
    fused = []
    for chunk_id, hit in {hit.chunk_id: hit for hit in (*dense, *bm25)}.items():
        dense_rank, bm25_rank, lanes = dense_ranks.get(chunk_id), bm25_ranks.get(chunk_id), hit.lanes
        scored = score(
            lanes.dense_score if dense_rank is not None else None,
            lanes.bm25_score if bm25_rank is not None else None,
        )
        fused.append((-scored, chunk_id, Ranked(hit, scored, dense_rank, bm25_rank)))
    fused.sort(key=_PLACE)
    return [ranked for _, _, ranked in fused]


def is_decisive(ranked: Ranked) -> bool:
    """Say whether a hit decided on the scores of others."""
    return ranked.bm25_rank is not None and ranked.bm25_rank <= _N_RARITY


def lane_length(places: Sequence[LaneScores | Ranked], lane: str) -> int:
    """Count the places that a lane gave."""
    rank_of = _RANK[lane]
    return sum(rank_of(place) is not None for place in places)


def _lane(hits: Sequence[Hit], lane: str) -> list[Hit]:
    """Put the hits that a lane found in its order."""
    rank_of = _RANK[lane]
    found = [(rank, hit.chunk_id, hit) for hit in hits if (rank := rank_of(hit.lanes)) is not None]
    found.sort(key=_PLACE)
    return [hit for _, _, hit in found]


def _attainable(lane: Sequence[Hit], wording: Wording) -> float:
    """Estimate the BM25 score of a passage that held every word: the best score over the share of words it has."""
    if not lane:
        return math.inf
    share = wording.shares(lane[:_N_RARITY])[0]
    best = lane[0].lanes.bm25_score or 0.0
    return best / share if share > 0 and best > 0 else math.inf


def _scorer(fusion: Fusion, attainable: float) -> Callable[[float | None, float | None], float]:
    """Make the function of a hit's cosine and BM25 score; None for a lane that it has no rank in."""
    floor, weight_dense, weight_bm25 = fusion.cosine_floor, fusion.weight_dense, fusion.weight_bm25
    span, weights = 1 - floor, weight_dense + weight_bm25

    def score(cosine: float | None, bm25: float | None) -> float:
        similar = max(0.0, cosine - floor) / span if cosine is not None else 0.0
        words = bm25 / attainable if bm25 is not None else 0.0
        # Engines add floats in an order of their own: what differs by less than a millionth is equal.
        return round((weight_dense * similar + weight_bm25 * words) / weights, 6)

    return score
