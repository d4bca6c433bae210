"""Citation marks read out of streams, whatever way the stream is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.cite import CitationReader, ThoughtFilter, best_quote
from tests.twins.query import fragment


def read(*pieces: str) -> tuple[str, list[int]]:
    reader = CitationReader(range(1, 4))
    found = [each for piece in pieces for each in reader.feed(piece)]
    text = "".join(each for each in found if isinstance(each, str))
    return text, [each for each in found if isinstance(each, int)]


@pytest.mark.parametrize(
    ("said", "text", "numbers"),
    [
        ("A [1].", "A [1].", [1]),
        ("A [1][2].", "A [1][2].", [1, 2]),
        ("A [1, 3].", "A [1][3].", [1, 3]),
        ("A [1-3].", "A [1][2][3].", [1, 2, 3]),
        ("A【2】.", "A[2].", [2]),
        ("A [4].", "A.", []),
        ("A [0].", "A.", []),
        ("A [2, 99].", "A [2].", [2]),
        ("A [1-9999].", "A [1].", [1]),
        ("A [see 1].", "A [see 1].", []),
        ("A [[1]].", "A [[1]].", [1]),
        ("x[i] = y[1, [2]", "x[i] = y[1, [2]", [2]),
        ("A [1", "A", []),
        ("A [12 apples]", "A [12 apples]", []),
        ("A []", "A []", []),
        ("Zeile\n[3] B", "Zeile\n[3] B", [3]),
    ],
)
def test_marks(said: str, text: str, numbers: list[int]) -> None:
    """Valid marks stay and are told; others go with the blanks before them; mere brackets are text."""
    assert read(said) == (text, numbers)


@given(
    said=st.lists(
        st.sampled_from(
            ["[1]", "[9]", " [2, 7]", "[", "]", "1", " ", ",", "-", "word", "【3】", "\n", "[3-1]"]
        ),
        max_size=12,
    ).map("".join),
    cuts=st.lists(st.integers(0, 60), max_size=8),
)
def test_any_split_of_a_stream_reads_the_same(said: str, cuts: list[int]) -> None:
    """Where the stream is cut changes neither the text nor the citations."""
    places = sorted({0, len(said), *(cut for cut in cuts if cut < len(said))})
    pieces = [said[start:end] for start, end in pairwise(places)]
    assert read(*pieces) == read(said)
    assert read(*said) == read(said)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("<think>It says [1] or [2].</think>\n\nNine [1].", "Nine [1]."),
        ("\n<think></think>Nine.", "Nine."),
        ("<think>never ends", ""),
        ("Nine <think> aloud", "Nine <think> aloud"),
        ("<thin air", "<thin air"),
    ],
)
def test_thoughts_are_no_answer(said: str, answer: str) -> None:
    """What a reasoning model thinks aloud first is left out, however the stream is cut."""
    for pieces in ([said], list(said)):
        thoughts = ThoughtFilter()
        assert "".join(map(thoughts.feed, pieces)).lstrip() == answer


def test_the_quote_is_the_sentence_that_bears_the_claim() -> None:
    """Of a fragment's sentences the one that shares most words is quoted, the first of equals."""
    source = fragment(1, "Boats sleep. The office opens at nine. It is red.")
    assert best_quote(source, "it opens at nine") == "The office opens at nine."
    assert best_quote(source, "nothing of this") == "Boats sleep."
