"""Recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def recall(run: Sequence[str], relevant: Mapping[str, int], k: int) -> float:
    """Compute the share of the relevant documents (grade > 0) among the first k.

    0 when nothing relevant is judged. Manning, Raghavan and Schütze 2008, chapter 8; `recall` of trec_eval.
    """
    wanted = {document for document, grade in relevant.items() if grade > 0}
    return len(wanted.intersection(run[:k])) / len(wanted) if wanted else 0.0
