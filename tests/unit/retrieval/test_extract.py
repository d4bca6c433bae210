"""Extractive answers: the best sentences of the evidence, never none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.in_threads import ThreadedEmbedder
from cortex.errors import Unavailable
from retrieval.extract import extract
from retrieval.follow_up import follow_ups
from retrieval.run import Run
from tests.twins.embedder import HashingEmbedder
from tests.twins.query import LEXICAL, fragment


async def pick(question: str, *texts: str, embedder: HashingEmbedder | None = None) -> list[tuple[int, str]]:
    fragments = [fragment(number, text) for number, text in enumerate(texts, start=1)]
    model = ThreadedEmbedder(embedder) if embedder else None
    extracts = await extract(Run(), model, LEXICAL, question, fragments)
    return [(each.fragment.number, each.sentence) for each in extracts]


async def test_the_sentence_that_answers_comes_first() -> None:
    """Of all sentences of the evidence, the one that shares most with the question is quoted first."""
    picked = await pick(
        "when does the harbour office open",
        "Boats are red. Bring papers.",
        "Fees are low. The harbour office does open at nine.",
        embedder=HashingEmbedder(),
    )
    assert picked[0] == (2, "The harbour office does open at nine.")


async def test_a_question_in_the_evidence_does_not_answer() -> None:
    """The heading of a FAQ repeats the question; the sentence below it answers."""
    picked = await pick(
        "when does the office open", "When does the office open?\n\nThe office does open at nine."
    )
    assert picked[0] == (1, "The office does open at nine.")


async def test_the_same_sentence_is_said_once() -> None:
    """Two documents that say the same give one sentence, from the better ranked."""
    picked = await pick(
        "office hours today",
        "The office hours are nine to five today.",
        "The office hours are nine to five today!",
    )
    assert [number for number, _ in picked] == [1]


async def test_japanese_is_answered_by_its_words() -> None:
    """Without an embedder that knows the script, shared bigrams pick the sentence."""
    picked = await pick("経費精算の期限", "会議は月曜です。経費精算の期限は月末です。担当は佐藤です。")
    assert picked[0] == (1, "経費精算の期限は月末です。")


async def test_at_most_four_sentences_of_bounded_length() -> None:
    """A long passage gives four sentences, and an endless line is clipped."""
    many = " ".join(f"The office number {n} is {'abcdefghij'[n] * 5} office." for n in range(10))
    assert len(await pick("office number", many)) == 4
    ((_, clipped),) = await pick("word", "word " * 500)
    assert len(clipped) < 410
    assert clipped.endswith(" …")


async def test_a_failing_embedder_leaves_words() -> None:
    """When sentences cannot be embedded they are picked by terms, and the run says so."""

    class Broken(HashingEmbedder):
        def embed_queries(self, texts: object) -> np.ndarray:
            raise Unavailable("down")

    run = Run()
    extracts = await extract(
        run, ThreadedEmbedder(Broken()), LEXICAL, "kite", [fragment(1, "A red kite. A boat.")]
    )
    assert extracts[0].sentence == "A red kite."
    assert [note.code for note in run.degraded] == ["embedder.failed"]


@given(
    texts=st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=4), question=st.text(max_size=30)
)
@pytest.mark.parametrize("embedder", [None, HashingEmbedder()])
def test_evidence_with_words_always_gives_a_sentence(
    embedder: HashingEmbedder | None, texts: list[str], question: str
) -> None:
    """An answer that does not abstain is never empty."""
    import asyncio

    picked = asyncio.run(pick(question, *texts, embedder=embedder))
    has_words = any(letter.isalnum() for text in texts for letter in text)
    assert bool(picked) == has_words
    assert all(sentence.strip() for _, sentence in picked)


def test_follow_ups_name_headings_and_leave_out_what_was_asked() -> None:
    """At most three, from headings and titles, none that the question already holds."""
    fragments = [
        fragment(1, "x", title="Handbook", heading_path=("Leave",)),
        fragment(2, "x", title="Leave"),
        fragment(3, "x", title="Benefits"),
    ]
    assert follow_ups("what about leave", fragments, frozenset({3})) == (
        "What else is in “Handbook”?",
        "What else is in “Benefits”?",
    )
