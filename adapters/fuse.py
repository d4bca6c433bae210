"""Fusion: lanes of scored chunks to one order that depends on nothing but the scores and the chunk ids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

# Engines add float32 terms in an order that depends on their segments, so a score differs in its last digits between
# two indexes. Neighbours nearer than this are one score; what is reported keeps fewer digits than differ.
_EQUAL_WITHIN = 2e-6
_REPORTED_DIGITS = 4
_SCORE = itemgetter(1)


class Scored(NamedTuple):
    """One chunk in one lane; higher is better. A tuple, for a search makes some four hundred."""

    chunk_id: str
    score: float


def order_lane(found: Sequence[Scored], limit: int, *, is_whole: bool) -> list[Scored]:
    """Order a lane by score, ties by chunk id, and cut it at `limit`.

    An engine orders equal scores as it likes, and where its own limit cuts through a group of them it chooses as it
    likes. So unless the lane `is_whole`, its last group may be incomplete and is left out.
    """
    groups = _groups(sorted(found, key=_SCORE, reverse=True))
    if not is_whole:
        groups = groups[:-1]
    ordered = [one for group in groups for one in (sorted(group) if len(group) > 1 else group)]
    return [Scored(one.chunk_id, _reported(one.score)) for one in ordered[:limit]]


def _groups(descending: Sequence[Scored]) -> list[list[Scored]]:
    """Split a descending lane where neighbours' scores differ."""
    groups: list[list[Scored]] = []
    last = math.inf
    for one in descending:
        if last - one.score <= _EQUAL_WITHIN * abs(last) and groups:
            groups[-1].append(one)
        else:
            groups.append([one])
        last = one.score
    return groups


def _reported(score: float) -> float:
    return float(f"{score:.{_REPORTED_DIGITS}g}")


def fuse_ranks(lanes: Mapping[str, Sequence[Scored]], weights: Mapping[str, float], k: int) -> list[Scored]:
    """Fuse ordered lanes by weighted reciprocal rank, the sum of weight / (k + rank); ties by chunk id.

    Ranks are 1-based. Cormack, Clarke and Büttcher 2009.
    """
    scores: dict[str, float] = {}
    for name in sorted(lanes):
        for rank, one in enumerate(lanes[name], 1):
            scores[one.chunk_id] = scores.get(one.chunk_id, 0.0) + weights[name] / (k + rank)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [Scored(chunk_id, score) for chunk_id, score in ordered]
