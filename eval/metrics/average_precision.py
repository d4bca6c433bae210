"""Average precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def average_precision(run: Sequence[str], relevant: Mapping[str, int], k: int) -> float:
    """Compute average precision over the first k; its mean over queries is MAP.

    Precision at the rank of each relevant document found, summed and divided by the number of relevant documents.
    0 when nothing relevant is judged. Buckley and Voorhees 2000; `map` of trec_eval cut at k.
    """
    n_relevant = sum(grade > 0 for grade in relevant.values())
    found, total = 0, 0.0
    for rank, document in enumerate(run[:k], 1):
        if relevant.get(document, 0) > 0:
            found += 1
            total += found / rank
    return total / n_relevant if n_relevant else 0.0
