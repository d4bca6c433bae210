"""Retrieval scores: rankings of one lane or plan against judgements, each figure with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from eval.datasets import JudgedQuery
from eval.intervals import Estimate, mean_with_interval
from eval.metrics import average_precision, ndcg, recall, reciprocal_rank

DEPTH = 200  # documents per query that a ranking is judged to

Metric = Callable[[Sequence[str], Mapping[str, int], int], float]

METRICS: dict[str, tuple[Metric, int]] = {
    "ndcg@10": (ndcg, 10),
    "mrr@10": (reciprocal_rank, 10),
    "recall@10": (recall, 10),
    "recall@100": (recall, 100),
    "map": (average_precision, DEPTH),
}


def collapse(document_ids: Iterable[str]) -> list[str]:
    """Reduce a ranking of chunks to one of documents, each at its best chunk, at most DEPTH deep."""
    return list(dict.fromkeys(document_ids))[:DEPTH]


def score_rankings(
    rankings: Mapping[str, Sequence[str]], queries: Sequence[JudgedQuery]
) -> dict[str, Estimate]:
    """Score rankings (query id to document ids, best first) on every metric; a query without ranking scores 0."""
    return {
        name: mean_with_interval(
            [metric(rankings.get(query.query_id, ()), query.relevant, k) for query in queries]
        )
        for name, (metric, k) in METRICS.items()
    }
