"""Support for an answer, from the lanes and never from the fused score."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cortex.evidence import Hit, LaneScores, Support
from retrieval.support import weigh_support
from retrieval.wording import Wording, rarities, term_share
from tests.twins.query import LEXICAL, hit

WORDS = st.lists(st.sampled_from(["kite", "red", "blue", "harbour"]), max_size=5)


def found(text: str, cosine: float | None, score: float = 0.1) -> Hit:
    return hit(text, text, score=score, lanes=LaneScores(dense_score=cosine))


def weigh(question: str, hits: list[Hit], abstain_below: float) -> Support:
    return weigh_support(Wording(LEXICAL, question), hits, abstain_below)


def test_nothing_found_supports_nothing() -> None:
    """Without hits there is no cosine, no share and no support."""
    support = weigh("red kite", [], 0.0)
    assert (support.top_cosine, support.probability, support.is_sufficient) == (None, 0.0, False)


def test_the_fused_score_does_not_count() -> None:
    """However high a rank a passage took, its support is that of its cosine and terms."""
    low = weigh("what is pi", [found("ticket queue", 0.1, score=0.01)], 0.5)
    high = weigh("what is pi", [found("ticket queue", 0.1, score=9.0)], 0.5)
    assert low == high
    assert not low.is_sufficient


def test_support_grows_with_the_cosine_and_with_the_terms() -> None:
    """More similar and more of the words: more probable."""
    plain = weigh("red kite", [found("red boat", 0.3)], 0.5).probability
    closer = weigh("red kite", [found("red boat", 0.6)], 0.5).probability
    fuller = weigh("red kite", [found("red kite", 0.3)], 0.5).probability
    assert plain < closer
    assert plain < fuller


def test_without_the_dense_lane_terms_decide() -> None:
    """A question that only words could search is judged by its words."""
    every = weigh("経費精算の期限", [found("経費精算の期限は月末", None)], 0.5)
    none = weigh("経費精算の期限", [found("議事録", None)], 0.5)
    assert every.top_cosine is None
    assert every.is_sufficient
    assert not none.is_sufficient


@pytest.mark.parametrize(("passage", "share"), [({"red", "kite"}, 1.0), (set(), 0.0), ({"boat"}, 0.0)])
def test_the_share_of_terms(passage: set[str], share: float) -> None:
    """All terms are a share of one, none are zero."""
    rarity = rarities(["red", "kite", "red"], [frozenset(passage)])
    assert term_share(rarity, frozenset(passage)) == pytest.approx(share)


def test_a_rare_term_weighs_more() -> None:
    """To hold the one term that few passages hold is worth more than to hold the common one."""
    passages = [frozenset({"red"}), frozenset({"red"}), frozenset({"kite"})]
    rarity = rarities(["red", "kite"], passages)
    assert term_share(rarity, passages[2]) > 0.5 > term_share(rarity, passages[0])


@given(wanted=WORDS, passages=st.lists(WORDS.map(frozenset), min_size=1, max_size=4))
def test_a_share_is_between_nothing_and_all(wanted: list[str], passages: list[frozenset[str]]) -> None:
    """Whatever the terms, a share lies in [0, 1] and grows with what a passage holds."""
    rarity = rarities(wanted, passages)
    shares = [term_share(rarity, passage) for passage in passages]
    assert all(0 <= share <= 1 + 1e-9 for share in shares)
    assert term_share(rarity, frozenset().union(*passages)) >= max(shares) - 1e-9


def test_support_is_a_function_of_the_hits_alone() -> None:
    """The order of equal facts and ids does not matter."""
    hits = [found("red kite", 0.5), found("blue kite", 0.4)]
    renamed = [replace(each, chunk_id=f"other-{each.chunk_id}") for each in hits]
    assert weigh("kite", hits, 0.5) == weigh("kite", renamed, 0.5)
