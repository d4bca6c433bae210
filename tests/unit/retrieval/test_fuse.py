"""Fusion of the lanes' scores among what may be seen."""

from __future__ import annotations

import pytest

from cortex.evidence import Hit, LaneScores
from retrieval.fuse import Fusion, fuse
from retrieval.wording import Wording
from tests.twins.query import LEXICAL, hit

EVEN = Fusion(weight_dense=1, weight_bm25=1, k=10, lane_limit=10)


def found(
    name: str, text: str, dense: tuple[float, int] | None = None, bm25: tuple[float, int] | None = None
) -> Hit:
    return hit(name, text, lanes=LaneScores(*(dense or (None, None)), *(bm25 or (None, None))))


def fused(question: str, *hits: Hit, fusion: Fusion = EVEN) -> list[tuple[str, float]]:
    ranked = fuse(hits, fusion, Wording(LEXICAL, question))
    return [(each.hit.chunk_id, pytest.approx(each.score)) for each in ranked]


def test_a_passage_with_every_word_and_the_best_cosine_scores_their_mean() -> None:
    """BM25 counts fully where the first hit holds every word; the cosine counts as it is."""
    assert fused("red kite", found("a", "red kite", (0.6, 1), (7.0, 1))) == [("a", (0.6 + 1.0) / 2)]


def test_words_count_as_little_as_the_best_passage_has_of_them() -> None:
    """For a paraphrase, of which the lexical lane finds few words, the dense lane decides."""
    words = found("words", "red", None, (7.0, 1))
    meaning = found("meaning", "scarlet bird", (0.5, 1))
    assert [name for name, _ in fused("red kite over harbour town", words, meaning)] == ["meaning", "words"]
    assert [name for name, _ in fused("red", words, meaning)] == ["words", "meaning"]


def test_ranks_are_counted_again_among_these_hits() -> None:
    """A gap that something unseen left in a lane closes."""
    hits = [found("a", "kite", (0.9, 3)), found("b", "kite", (0.8, 17))]
    assert [each.dense_rank for each in fuse(hits, EVEN, Wording(LEXICAL, "kite"))] == [1, 2]


def test_what_lies_beyond_the_lane_limit_is_left_out() -> None:
    """A lane counts as deep as it would without what was lost, however deep it was read."""
    hits = [found(str(n), "kite", (0.9 - n / 100, n + 1)) for n in range(4)]
    short = Fusion(weight_dense=1, weight_bm25=1, k=10, lane_limit=2)
    assert [name for name, _ in fused("kite", *hits, fusion=short)] == ["0", "1"]


def test_equal_scores_go_by_chunk_id() -> None:
    """A tie has one order."""
    assert [name for name, _ in fused("kite", found("b", "x", (0.5, 1)), found("a", "x", (0.5, 2)))] == [
        "a",
        "b",
    ]


def test_the_cosine_of_unrelated_texts_counts_as_nothing() -> None:
    """A model whose cosines start at 0.7 is read from there."""
    e5 = Fusion(weight_dense=1, weight_bm25=0, k=10, lane_limit=10, cosine_floor=0.7)
    hits = [found("a", "x", (0.85, 1)), found("b", "x", (0.6, 2))]
    assert fused("kite", *hits, fusion=e5) == [("a", 0.5), ("b", 0.0)]
