"""Ranking metrics, one file each: `(run, relevant, k) -> [0, 1]`, with formula, empty case and source."""

from eval.metrics.average_precision import average_precision
from eval.metrics.ndcg import ndcg
from eval.metrics.recall import recall
from eval.metrics.reciprocal_rank import reciprocal_rank

__all__ = ["average_precision", "ndcg", "recall", "reciprocal_rank"]
