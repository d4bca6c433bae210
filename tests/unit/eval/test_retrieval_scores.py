"""Rankings of chunks become scores of documents."""

import pytest

from eval.datasets import JudgedQuery
from eval.retrieval_scores import DEPTH, collapse, score_rankings


def test_collapse_keeps_each_document_at_its_best_chunk() -> None:
    """Order of first sight, once each, and no deeper than the judged depth."""
    assert collapse(["b", "a", "b", "c"]) == ["b", "a", "c"]
    assert len(collapse(str(i) for i in range(1000))) == DEPTH


def test_a_query_without_a_ranking_counts_as_zero() -> None:
    """A failed query must lower the mean, never leave it."""
    queries = [JudgedQuery("1", "x", {"a": 1}), JudgedQuery("2", "y", {"b": 1})]
    scores = score_rankings({"1": ["a"]}, queries)
    assert scores["ndcg@10"].value == pytest.approx(0.5)
    assert scores["recall@100"].value == pytest.approx(0.5)
