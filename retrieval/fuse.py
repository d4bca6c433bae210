"""Fuse: the lanes' own scores brought to one scale, among what the reader may see and nothing else.

Ranks were fused already, over whatever the index filter let through (`adapters/fuse.py`); that orders the pool. Ranks cannot tell a lane
that found the thing from one that found nothing better, so the final order goes by scores: the cosine as it is, and
BM25 as a share of what the question could have scored at most, estimated from the share of its words that the first
hits contain (after the theoretical normalisation of Bruch et al. 2023). A paraphrase leaves the words to count little,
a quotation makes them count fully; no weight has to be chosen per corpus.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cortex.evidence import Candidate, Hit, LaneScores
from retrieval.plan import Plan
from retrieval.understand import LanePlan
from retrieval.wording import Wording

LANES = ("dense", "bm25")
# First hits of the lexical lane among which rarity is counted: more cost time and gain nothing.
_N_RARITY = 10


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


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit's place in the fused order: its score in [0, 1], and its lanes' scores and ranks among what was fused."""

    hit: Hit
    score: float
    lanes: LaneScores

    def as_hit(self) -> Hit:
        """Return the hit with its place. Most of what is fused is never shown, and a hit is long to copy."""
        return replace(self.hit, score=self.score, lanes=self.lanes)


def fuse(hits: Sequence[Hit], fusion: Fusion, wording: Wording) -> list[Ranked]:
    """Score hits, best first, ties by chunk id.

    Only these hits take ranks. One beyond the lane limit in every lane is left out.
    """
    dense, bm25 = (_lane(hits, lane)[: fusion.lane_limit] for lane in LANES)
    attainable = _attainable(bm25, wording)
    dense_ranks = {hit.chunk_id: rank for rank, hit in enumerate(dense, start=1)}
    bm25_ranks = {hit.chunk_id: rank for rank, hit in enumerate(bm25, start=1)}
    fused = []
    for hit in {hit.chunk_id: hit for hit in (*dense, *bm25)}.values():
        lanes = LaneScores(
            dense_score=hit.lanes.dense_score,
            dense_rank=dense_ranks.get(hit.chunk_id),
            bm25_score=hit.lanes.bm25_score,
            bm25_rank=bm25_ranks.get(hit.chunk_id),
        )
        fused.append(Ranked(hit, _score(lanes, fusion, attainable), lanes))
    return sorted(fused, key=lambda each: (-each.score, each.hit.chunk_id))


def is_decisive(ranked: Ranked) -> bool:
    """Say whether a hit decided on the scores of others."""
    return ranked.lanes.bm25_rank is not None and ranked.lanes.bm25_rank <= _N_RARITY


def lane_rank(candidate: Candidate | Hit | Ranked, lane: str) -> int | None:
    """Return a candidate's rank in a lane, 1-based; None when the lane did not find it."""
    return candidate.lanes.dense_rank if lane == "dense" else candidate.lanes.bm25_rank


def lane_length(candidates: Sequence[Candidate | Hit | Ranked], lane: str) -> int:
    """Count the candidates that a lane found."""
    return sum(lane_rank(candidate, lane) is not None for candidate in candidates)


def _lane(hits: Sequence[Hit], lane: str) -> list[Hit]:
    ranked = [(rank, hit.chunk_id, hit) for hit in hits if (rank := lane_rank(hit, lane)) is not None]
    return [hit for _, _, hit in sorted(ranked, key=lambda each: each[:2])]


def _attainable(lane: Sequence[Hit], wording: Wording) -> float:
    """Estimate the BM25 score of a passage that held every word: the best score over the share of words it has."""
    if not lane:
        return math.inf
    share = wording.shares(lane[:_N_RARITY])[0]
    best = lane[0].lanes.bm25_score or 0.0
    return best / share if share > 0 and best > 0 else math.inf


def _score(lanes: LaneScores, fusion: Fusion, attainable: float) -> float:
    cosine, words = 0.0, 0.0
    if lanes.dense_rank is not None and lanes.dense_score is not None:
        cosine = max(0.0, lanes.dense_score - fusion.cosine_floor) / (1 - fusion.cosine_floor)
    if lanes.bm25_rank is not None and lanes.bm25_score is not None:
        words = lanes.bm25_score / attainable
    weighted = fusion.weight_dense * cosine + fusion.weight_bm25 * words
    # Engines add floats in an order of their own: what differs by less than a millionth is equal.
    return round(weighted / (fusion.weight_dense + fusion.weight_bm25), 6)
