"""Fusion: lanes of scored chunks to one order that depends on nothing but the scores and the chunk ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Engines add float32 terms in an order that depends on their segments: scores closer than this are one score.
_SIGNIFICANT_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Scored:
    """One chunk in one lane; higher is better."""

    chunk_id: str
    score: float


def order_lane(found: Sequence[Scored], limit: int, *, is_whole: bool) -> list[Scored]:
    """Order a lane by score, ties by chunk id, and cut it at `limit`.

    An engine orders equal scores as it likes, and where its own limit cuts through a group of them it chooses as it
    likes. So unless the lane `is_whole`, its last group may be incomplete and is left out.
    """
    ordered = sorted(found, key=lambda one: (-tie_score(one.score), one.chunk_id))
    if not is_whole and ordered:
        last = tie_score(ordered[-1].score)
        ordered = [one for one in ordered if tie_score(one.score) > last]
    return ordered[:limit]


def tie_score(score: float) -> float:
    """Round a score so that what should be equal is."""
    return float(f"{score:.{_SIGNIFICANT_DIGITS}g}")


def reciprocal_rank(rank: int, weight: float, k: int) -> float:
    """Weigh a rank (1-based): 1 / (rank / weight + k), as Qdrant's weighted RRF with its k one higher.

    At weight 1 it is Cormack, Clarke and Büttcher 2009. A weight stretches a lane's ranks.
    """
    return 1.0 / (rank / weight + k) if weight else 0.0


def fuse_ranks(lanes: Mapping[str, Sequence[Scored]], weights: Mapping[str, float], k: int) -> list[Scored]:
    """Fuse ordered lanes by weighted reciprocal rank; ties by chunk id."""
    scores: dict[str, float] = {}
    for name in sorted(lanes):
        for rank, one in enumerate(lanes[name], 1):
            scores[one.chunk_id] = scores.get(one.chunk_id, 0.0) + reciprocal_rank(rank, weights[name], k)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Scored(chunk_id, score) for chunk_id, score in ordered]
