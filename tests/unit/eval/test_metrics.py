"""Metrics against values worked out by hand."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.intervals import Estimate, mean_with_interval
from eval.metrics import average_precision, ndcg, recall, reciprocal_rank

RUN = ["a", "b", "c", "d"]


def test_ndcg_is_the_gain_of_the_run_over_the_ideal_gain() -> None:
    """Grades 2 at rank 2 and 1 at rank 4: (2/log2 3 + 1/log2 5) / (2/log2 2 + 1/log2 3)."""
    actual = ndcg(RUN, {"b": 2, "d": 1, "z": 0}, 10)
    expected = (2 / log2(3) + 1 / log2(5)) / (2 + 1 / log2(3))
    assert actual == pytest.approx(expected)


def test_ndcg_cuts_run_and_ideal_at_k() -> None:
    """At k = 1 only the first rank counts, on both sides."""
    assert ndcg(RUN, {"a": 1, "b": 3}, 1) == pytest.approx(1 / 3)


def test_recall_counts_relevant_documents_within_k() -> None:
    """Two of three relevant documents are in the first two."""
    assert recall(RUN, {"a": 1, "b": 1, "z": 1, "c": 0}, 2) == pytest.approx(2 / 3)


def test_reciprocal_rank_is_of_the_first_relevant_document() -> None:
    """The first relevant document is third."""
    assert reciprocal_rank(RUN, {"c": 1, "d": 1}, 10) == pytest.approx(1 / 3)


def test_average_precision_sums_precision_at_relevant_ranks() -> None:
    """Relevant at ranks 1 and 3 of three relevant: (1/1 + 2/3) / 3."""
    assert average_precision(RUN, {"a": 1, "c": 2, "z": 1}, 10) == pytest.approx((1 + 2 / 3) / 3)


@pytest.mark.parametrize("metric", [ndcg, recall, reciprocal_rank, average_precision])
def test_nothing_relevant_or_nothing_found_scores_zero(metric) -> None:
    """Empty judgements and an empty run are both 0, never a division by zero."""
    assert metric(RUN, {}, 10) == 0.0
    assert metric([], {"a": 1}, 10) == 0.0


@given(
    st.permutations(RUN), st.dictionaries(st.sampled_from("abcdxyz"), st.integers(0, 3)), st.integers(1, 6)
)
def test_every_metric_stays_between_zero_and_one(run, relevant, k) -> None:
    """Whatever the order and the grades."""
    for metric in (ndcg, recall, reciprocal_rank, average_precision):
        assert 0.0 <= metric(run, relevant, k) <= 1.0 + 1e-12


@given(st.dictionaries(st.sampled_from(RUN), st.integers(1, 3), min_size=1))
def test_the_ideal_order_scores_one(relevant) -> None:
    """Documents sorted by grade have nDCG 1."""
    ideal = sorted(relevant, key=lambda document: -relevant[document])
    assert ndcg(ideal, relevant, 10) == pytest.approx(1.0)


def test_the_interval_holds_the_mean_and_repeats() -> None:
    """A seeded bootstrap gives the same interval twice, around the mean."""
    first = mean_with_interval([0.0, 0.2, 0.4, 1.0])
    assert first == mean_with_interval([0.0, 0.2, 0.4, 1.0])
    assert first.value == pytest.approx(0.4)
    assert first.low < first.value < first.high
    assert mean_with_interval([]) == Estimate(0.0, 0.0, 0.0)
