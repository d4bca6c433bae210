"""Normalised discounted cumulative gain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2


def ndcg(run: Sequence[str], relevant: Mapping[str, int], k: int) -> float:
    """Compute nDCG at k with linear gain.

    sum over ranks i <= k of grade(run[i]) / log2(i + 1), divided by the same sum over the ideal order of all judged
    documents. 0 when nothing relevant is judged or the run is empty. Järvelin and Kekäläinen 2002, as `ndcg_cut` of
    trec_eval computes it.
    """
    ideal = sorted((grade for grade in relevant.values() if grade > 0), reverse=True)[:k]
    best = sum(grade / log2(rank + 1) for rank, grade in enumerate(ideal, 1))
    if not best:
        return 0.0
    gained = sum(
        max(relevant.get(document, 0), 0) / log2(rank + 1) for rank, document in enumerate(run[:k], 1)
    )
    return gained / best
