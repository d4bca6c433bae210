"""Reciprocal rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def reciprocal_rank(run: Sequence[str], relevant: Mapping[str, int], k: int) -> float:
    """Compute 1 / rank of the first relevant document within k; its mean over queries is MRR at k.

    0 when none is found. Voorhees 1999, TREC-8 question answering track.
    """
    for rank, document in enumerate(run[:k], 1):
        if relevant.get(document, 0) > 0:
            return 1.0 / rank
    return 0.0
