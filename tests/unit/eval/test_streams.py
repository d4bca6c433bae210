"""Streams under the bench: a real model process, the HTTP app over twins, and the ways in which a stream can be wrong."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from adapters.openai_chat import OpenAIGenerator
from cortex.evidence import Filters
from cortex.ports.models import Generator, Message
from cortex.ports.query import IndexQuery
from cortex.principals import Permit
from cortex.settings import Settings
from eval import drops, streams
from eval.company import Asked
from eval.drops import drop_all, growth, read_in_flight
from eval.first_token import first_token_round
from eval.raw_parts import Prepared, authorization
from eval.streams import Heard, heard_document, stream_all
from eval.upstream import Control, Pace, running_upstream, words
from retrieval.plan import Plan
from serve_apps.fused import FusedQueries
from serve_apps.service import Backend
from tests.twins.query import TwinWorld, person
from tests.twins.running_app import serving
from tests.twins.service import TwinDesk

ANA = "ana"
QUESTION = "when are receipts due"


@pytest.fixture(scope="module")
def upstream() -> Iterator[Control]:
    with running_upstream() as control:
        yield control


class Forgetful:
    """A Generator that loses the fourth piece of every stream."""

    def __init__(self, model: Generator) -> None:
        self._model = model
        self.model = model.model

    async def stream(self, messages: Sequence[Message]) -> AsyncGenerator[str, None]:
        number = 0
        async for piece in self._model.stream(messages):
            number += 1
            if number != 4:
                yield piece


@contextmanager
def cortex(home: Path, upstream: Control, *, is_forgetful: bool = False) -> Iterator[Settings]:
    """The HTTP app over twins that know one document, with the model behind it."""
    world = TwinWorld({"travel": ["Receipts are due within 30 days."]}, {"travel": frozenset({ANA})})
    model = OpenAIGenerator(upstream.url, "synthetic", max_tokens=512, timeout_s=10)
    parts = world.parts(Plan(abstain_below=0.0), generator=Forgetful(model) if is_forgetful else model)
    settings = Settings(home=home)
    with serving(Backend(FusedQueries(parts), TwinDesk(), model.close), settings) as url:
        yield settings.model_copy(update={"http_url": url})


def asked(settings: Settings) -> list[Prepared]:
    """One question with what streams need of it."""
    permit = Permit(person(ANA), (1,), 1, "")
    query = IndexQuery(permit, None, None, Filters(), 10)
    headers = authorization(settings, permit.principal)
    return [Prepared(Asked(ANA, QUESTION, "travel"), permit, headers, query, (), (), (), True)]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of some seconds."""
    monkeypatch.setattr(streams, "_PAUSE_S", 0.02)
    monkeypatch.setattr(streams, "_SPARE_S", 0.5)


def test_the_model_says_each_word_once_and_counts_who_leaves(upstream: Control) -> None:
    """Serial and place in every word; a reader who leaves is noticed, and nothing stays open."""
    upstream.set_pace(Pace(first_s=0.0, pause_s=0.001, n_words=5))
    before = upstream.counts()
    whole = httpx.post(f"{upstream.url}/chat/completions", json={}, trust_env=False).text
    assert whole.count("data: {") == 5 and whole.endswith("data: [DONE]\n\n")
    upstream.set_pace(Pace(first_s=0.0, pause_s=30.0, n_words=5))
    with httpx.stream("POST", f"{upstream.url}/chat/completions", json={}, trust_env=False) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("data: {")
        assert upstream.counts().n_open == before.n_open + 1
    for _ in range(100):
        if (counts := upstream.counts()).n_open == before.n_open:
            break
    assert (counts.n_whole, counts.n_left) == (before.n_whole + 1, before.n_left + 1)


def test_streams_at_once_are_whole(tmp_path: Path, upstream: Control, hurried: None) -> None:
    """Twelve answers open together, every word of each in its place, none in another's."""
    with cortex(tmp_path, upstream) as settings:
        document = stream_all(settings, upstream, asked(settings), 12)
    assert {name: document[name] for name in ("n", "n_whole", "n_tokens_lost", "n_mixed_up", "failures")} == {
        "n": 12, "n_whole": 12, "n_tokens_lost": 0, "n_mixed_up": 0, "failures": {},
    }  # fmt: skip
    assert (document["most_at_once"], document["n_begun_at_model"]) == (12, 12)


def test_a_lost_word_is_counted(tmp_path: Path, upstream: Control, hurried: None) -> None:
    """A Cortex that loses a word of each stream is found out."""
    with cortex(tmp_path, upstream, is_forgetful=True) as settings:
        document = stream_all(settings, upstream, asked(settings), 3)
    assert (document["n_whole"], document["n_tokens_lost"]) == (0, 3)


def test_what_can_be_wrong_with_a_stream() -> None:
    """Lost, doubled, out of order, of another stream, unlike the answer at its end, or broken off."""
    said = "".join(words(7, 5)).strip()
    swapped = said.replace("s7w2 s7w3", "s7w3 s7w2")
    whole = Heard(said, said)
    assert (whole.is_whole(5), whole.n_lost(5)) == (True, 0)
    assert (Heard(said[:-5], said[:-5]).n_lost(5), Heard(said[:-5], said[:-5]).is_whole(5)) == (1, False)
    assert not Heard(swapped, swapped).is_whole(5)
    assert not Heard(said + " s7w4", said + " s7w4").is_whole(5)
    assert not Heard(said.replace("s7w3", "s8w3"), said).is_whole(5)
    assert not Heard(said, said[:-5]).is_whole(5)
    assert not Heard(said, said, "ReadError").is_whole(5)
    document = heard_document([whole, whole, Heard(failure="ReadError")], 5)
    assert (document["n_whole"], document["n_mixed_up"], document["failures"]) == (2, 1, {"ReadError": 1})
    assert document["n_tokens_lost"] == 6  # all that the third would have been told


def test_the_first_token_comes_after_retrieval_and_model(tmp_path: Path, upstream: Control) -> None:
    """Each stream is timed to its first token beside the model's own."""
    with cortex(tmp_path, upstream) as settings:
        (one,) = first_token_round(settings, upstream, asked(settings))
    assert one.model >= 50 and one.retrieval > 0
    assert one.streamed > one.retrieval + 50


def test_nothing_stays_of_clients_who_left(
    tmp_path: Path, upstream: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half leave at the first bytes, half at the first token; the model's work ends, and no question stays in flight."""
    held = iter([{"replica query": size} for size in (100, *[104] * 9, 102)])
    monkeypatch.setattr(drops, "_pss", lambda _: next(held))
    told = []
    with cortex(tmp_path, upstream) as settings:
        document = drop_all(settings, upstream, asked(settings), 20, lambda *step: told.append(step))
    assert document["outcomes"] == {"left at the first bytes": 10, "left at the first token": 10}
    assert (document["n_open_after"], document["n_in_flight_after"]) == (0, 0)
    assert 10 <= document["n_left_at_model"] == document["n_begun_at_model"] <= 20
    assert (document["growth"], told[-1]) == (1.04, ("fused: clients who left", 10, 10))


def test_growth_is_of_what_was_held_before() -> None:
    """The larger of the last two readings counts: the allocator's luck at the end is no proof."""
    laps = [{"replica query": size} for size in (100, 130, 120, 110)]
    assert growth(laps, "replica query") == 1.2


def test_the_gauge_must_be_there() -> None:
    """A metric that was renamed is an error, not a zero."""
    said = '# TYPE x gauge\ncortex_queries_in_flight{replica="a1"} 3.0\n'
    assert read_in_flight(said) == 3
    with pytest.raises(ValueError, match="in_flight"):
        read_in_flight("cortex_queries 0.0\n")
