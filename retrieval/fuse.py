"""Fuse: ranks counted again among what the reader may see, so that no score depends on anything else.

The index has fused already, over everything its filter let through. Where the filter lags behind a permission change,
forbidden chunks took ranks there; after the recheck the lanes are counted and fused again without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cortex.evidence import Candidate, Hit

LANES = ("dense", "bm25")


@dataclass(frozen=True, slots=True)
class Fusion:
    """The parameters of weighted reciprocal rank fusion; each lane counts `lane_limit` deep."""

    weight_dense: float
    weight_bm25: float
    k: int
    lane_limit: int


def fuse(hits: Sequence[Hit], fusion: Fusion) -> list[Hit]:
    """Rank hits by weighted reciprocal rank fusion (Cormack et al. 2009), best first, ties by chunk id.

    Only these hits take ranks. One beyond the lane limit in every lane is left out.
    """
    dense = _visible_ranks(hits, "dense", fusion.lane_limit)
    bm25 = _visible_ranks(hits, "bm25", fusion.lane_limit)
    fused = []
    for hit in hits:
        ranks = dense.get(hit.chunk_id), bm25.get(hit.chunk_id)
        if ranks == (None, None):
            continue
        score = _share(ranks[0], fusion.weight_dense, fusion.k) + _share(
            ranks[1], fusion.weight_bm25, fusion.k
        )
        lanes = replace(hit.lanes, dense_rank=ranks[0], bm25_rank=ranks[1])
        fused.append(replace(hit, score=score, lanes=lanes))
    return sorted(fused, key=lambda hit: (-hit.score, hit.chunk_id))


def lane_rank(candidate: Candidate | Hit, lane: str) -> int | None:
    """Return a candidate's rank in a lane, 1-based; None when the lane did not find it."""
    return candidate.lanes.dense_rank if lane == "dense" else candidate.lanes.bm25_rank


def lane_length(candidates: Sequence[Candidate | Hit], lane: str) -> int:
    """Count the candidates that a lane found."""
    return sum(lane_rank(candidate, lane) is not None for candidate in candidates)


def _visible_ranks(hits: Sequence[Hit], lane: str, lane_limit: int) -> dict[str, int]:
    ranked = sorted((rank, hit.chunk_id) for hit in hits if (rank := lane_rank(hit, lane)) is not None)
    return {chunk_id: place for place, (_, chunk_id) in enumerate(ranked[:lane_limit], start=1)}


def _share(rank: int | None, weight: float, k: int) -> float:
    return weight / (k + rank) if rank is not None else 0.0
