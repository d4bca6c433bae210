"""The query path from question to hits: permissions twice, refill, degradation and non-interference."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.in_threads import ThreadedReranker
from cortex.errors import Busy, ChecksUnavailable, CortexError, Forbidden, InputError, TimedOut, Unavailable
from cortex.evidence import Question, SearchResult
from retrieval.path import search
from retrieval.plan import Plan
from retrieval.understand import LanePlan, understand
from tests.twins.query import TwinWorld, person

ANN = frozenset({"ann"})
BOB = frozenset({"bob"})
BOTH = ANN | BOB


def seen(result: SearchResult) -> list[str]:
    return [hit.document_id for hit in result.hits]


async def test_search_returns_what_the_reader_may_see_and_nothing_else() -> None:
    """Of three matching documents a reader finds the two that name them."""
    world = TwinWorld(
        {"a": ["red kite"], "b": ["red kite flies"], "c": ["red kite lands"]}, {"a": ANN, "b": BOTH, "c": BOB}
    )
    result = await search(world.parts(), person("ann"), Question("red kite"))
    assert set(seen(result)) == {"a", "b"}


async def test_refills_when_nine_tenths_of_the_pool_are_forbidden() -> None:
    """Where index and catalog lag behind SpiceDB, the pool is read deeper until the depth is authorised."""
    documents = {f"d{n:03}": ["red kite " + "x" * (n % 7)] for n in range(80)}
    viewers = {name: ANN if int(name[1:]) % 10 == 7 else BOB for name in documents}
    world = TwinWorld(documents, viewers, shown=dict.fromkeys(documents, BOTH))
    result = await search(
        world.parts(Plan(lane_limit=5, recheck_round=4)), person("ann"), Question("red kite", depth=5)
    )
    assert len(result.hits) == 5
    assert {viewers[name] for name in seen(result)} == {ANN}
    assert world.calls["search"] == 3  # 5, 20 and 80 deep
    assert len(world.checked) == len(set(world.checked))  # no document is checked twice


async def test_refill_ends_with_the_pool() -> None:
    """A reader who may see fewer than were wanted gets those, and the search ends."""
    documents = {f"d{n:02}": ["red kite"] for n in range(50)}
    world = TwinWorld(
        documents,
        {name: ANN if name == "d49" else BOB for name in documents},
        shown=dict.fromkeys(documents, BOTH),
    )
    result = await search(world.parts(Plan(lane_limit=5)), person("ann"), Question("red kite", depth=5))
    assert seen(result) == ["d49"]


async def test_a_pool_without_end_is_given_up_with_a_note() -> None:
    """At the depth limit the search stops and says that more may exist."""
    documents = {f"d{n:03}": ["red kite"] for n in range(70)}
    world = TwinWorld(documents, dict.fromkeys(documents, BOB), shown=dict.fromkeys(documents, BOTH))
    result = await search(world.parts(Plan(lane_limit=1)), person("ann"), Question("red kite", depth=1))
    assert not result.hits
    assert [note.code for note in result.degraded] == ["pool.limited"]


async def test_one_round_is_checked_at_the_newest_token() -> None:
    """An ordinary search loads once, checks once, and never at the permit's older token."""
    world = TwinWorld({"a": ["red kite"], "b": ["blue kite"]}, {"a": ANN, "b": ANN})
    await search(world.parts(), person("ann"), Question("kite"))
    assert (world.calls["hydrate"], world.calls["check"], world.calls["search"]) == (1, 1, 1)


@pytest.mark.parametrize("call", ["token", "check"])
async def test_a_failing_check_closes_the_search(call: str) -> None:
    """When permissions cannot be checked nothing is shown."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={call: ChecksUnavailable("down")})
    with pytest.raises(ChecksUnavailable):
        await search(world.parts(), person("ann"), Question("kite"))


async def test_an_unknown_user_is_refused() -> None:
    """Someone the tenant does not know gets an error, not an empty list."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN})
    with pytest.raises(Forbidden) as caught:
        await search(world.parts(), person("eve"), Question("kite"))
    assert caught.value.error_code == "user.unknown"


async def test_a_broken_embedder_degrades_to_words() -> None:
    """Without a dense vector the lexical lane answers alone, and the dense lane is named."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={"embed": Unavailable("down")})
    result = await search(world.parts(), person("ann"), Question("kite"))
    assert seen(result) == ["a"]
    assert [(note.part, note.code) for note in result.degraded] == [("dense", "lane.failed")]
    assert result.support.top_cosine is None


@pytest.mark.parametrize(("broken", "code"), [("dense lane", "dense"), ("bm25 lane", "bm25")])
async def test_a_broken_lane_does_not_take_the_other(broken: str, code: str) -> None:
    """When the call for both lanes fails, each is asked alone and the broken one is named."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={broken: Unavailable("no such vector")})
    result = await search(world.parts(), person("ann"), Question("kite"))
    assert seen(result) == ["a"]
    assert [(note.part, note.code) for note in result.degraded] == [(code, "lane.failed")]


async def test_an_index_that_is_down_is_no_empty_success() -> None:
    """When no lane answers the search fails."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={"search": Unavailable("down")})
    with pytest.raises(Unavailable):
        await search(world.parts(), person("ann"), Question("kite"))
    assert world.calls["search"] == 3


async def test_before_anything_was_loaded_the_search_says_so() -> None:
    """An index that is not there yet is no broken lane: the asker learns what to do, and each lane is not asked alone."""
    missing = Unavailable("there is no vector index yet", code="index.missing", hint="load documents")
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={"search": missing})
    with pytest.raises(Unavailable) as caught:
        await search(world.parts(), person("ann"), Question("kite"))
    assert (caught.value.error_code, caught.value.hint) == ("index.missing", "load documents")
    assert world.calls["search"] == 1


async def test_a_time_out_is_not_tried_again() -> None:
    """An index that was too slow for both lanes is not asked for each."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={"search": TimedOut("slow")})
    with pytest.raises(TimedOut):
        await search(world.parts(), person("ann"), Question("kite"))
    assert world.calls["search"] == 1


@pytest.mark.parametrize("call", ["embed", "search"])
async def test_a_busy_part_makes_the_asker_wait_rather_than_get_less(call: str) -> None:
    """A queue that is full is neither a broken lane nor asked again at once: the question comes back in a moment."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={call: Busy("full")})
    with pytest.raises(Busy):
        await search(world.parts(), person("ann"), Question("kite"))
    assert world.calls[call] == 1


async def test_no_lane_at_all_is_unavailable() -> None:
    """A broken embedder and a question without terms leave no lane, and that is a failure."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={"embed": Unavailable("down")})
    with pytest.raises(Unavailable):
        await search(world.parts(), person("ann"), Question("???"))


async def test_a_question_without_terms_for_the_only_lane_is_the_askers_to_mend() -> None:
    """Asked for words alone, a question of marks is an input error rather than an empty success."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN})
    with pytest.raises(InputError) as caught:
        await search(world.parts(), person("ann"), Question("???", lanes=("bm25",)))
    assert caught.value.error_code == "question.unsearchable"


async def test_a_script_the_model_does_not_know_is_searched_by_words() -> None:
    """An English-only dense model neither drowns nor answers a Japanese question, and the result says so."""
    world = TwinWorld({"ja": ["経費精算の期限は月末です"], "en": ["red kite"]}, {"ja": ANN, "en": ANN})
    result = await search(world.parts(), person("ann"), Question("経費精算の期限"))
    assert seen(result) == ["ja"]
    assert [(note.part, note.code) for note in result.degraded] == [("dense", "lane.unknown_script")]
    assert world.calls["embed"] == 0


class _Slow:
    """An Understanding that answers once the question was embedded."""

    def __init__(self, world: TwinWorld) -> None:
        self._world = world

    async def understand(self, question: Question) -> LanePlan:
        async with asyncio.timeout(5):
            while not self._world.calls["embed"]:
                await asyncio.sleep(0.001)
        return understand(question, Plan())


async def test_a_question_is_embedded_while_a_stage_understands_it() -> None:
    """Asking one after the other would cost a call's time; the result is the one of rules that answer at once."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN})
    parts, question = world.parts(), Question("red kite", trace_id="f" * 32)
    there = await search(replace(parts, understanding=_Slow(world)), person("ann"), question)
    here = await search(parts, person("ann"), question)
    assert there.hits == here.hits and seen(there) == ["a"]


@pytest.mark.parametrize("failure", [Busy("full"), Unavailable("down")])
async def test_a_model_whose_vector_nobody_wants_may_fail(failure: CortexError) -> None:
    """By the time a stage says that the model does not know the script, its failure is nobody's."""
    world = TwinWorld({"ja": ["経費精算の期限"]}, {"ja": ANN}, failures={"embed": failure})
    parts = replace(world.parts(), understanding=_Slow(world))
    result = await search(parts, person("ann"), Question("経費精算の期限"))
    assert seen(result) == ["ja"]
    assert [(note.part, note.code) for note in result.degraded] == [("dense", "lane.unknown_script")]


async def test_a_question_that_cannot_be_understood_is_refused_as_such() -> None:
    """The error of the stage arrives as itself, whatever else was asked for meanwhile."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN})
    broken = _Broken()
    with pytest.raises(TimedOut) as caught:
        await search(replace(world.parts(), understanding=broken), person("ann"), Question("kite"))
    assert caught.value.error_code == "stage.timed_out"


class _Broken:
    """An Understanding that does not answer in time."""

    async def understand(self, question: Question) -> LanePlan:
        await asyncio.sleep(0.01)
        raise TimedOut("the stage understanding did not answer", code="stage.timed_out")


async def test_every_step_has_a_timing_and_the_trace_id_is_kept() -> None:
    """A result says how long each step took, under the trace id that came in."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN})
    result = await search(world.parts(), person("ann"), Question("kite", trace_id="f" * 32))
    assert set(result.timings_ms) == {
        "understand", "permit", "embed", "search", "recheck", "assemble", "support", "total",
    }  # fmt: skip
    assert result.trace_id == "f" * 32


class _Reversing:
    """A reranker that likes late letters."""

    name = "reversing"
    passages: tuple[str, ...] = ()

    def score(self, question: str, passages: list[str]) -> np.ndarray:
        type(self).passages = tuple(passages)
        return np.array([ord(passage[0]) for passage in passages], dtype=np.float32)


async def test_a_reranker_reads_only_what_may_be_seen() -> None:
    """The cross-encoder orders authorised hits; forbidden text never reaches it."""
    world = TwinWorld(
        {"a": ["red kite"], "b": ["red kite too"], "c": ["red kite hidden"]},
        {"a": ANN, "b": ANN, "c": BOB},
        shown={"c": BOTH},
    )
    result = await search(
        world.parts(reranker=ThreadedReranker(_Reversing())), person("ann"), Question("red kite")
    )
    assert seen(result) == ["b", "a"]
    assert not any("hidden" in passage for passage in _Reversing.passages)


WORDS = ("kite", "red", "blue", "flies", "lands", "over", "the", "harbour")


@st.composite
def worlds(draw: st.DrawFn) -> TwinWorld:
    """A few documents of up to three chunks, shown to ann, bob, both or nobody."""
    texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
    documents = draw(
        st.dictionaries(st.sampled_from("abcdefgh"), st.lists(texts, min_size=1, max_size=3), min_size=1)
    )
    audience = st.sampled_from([ANN, BOB, BOTH, frozenset[str]()])
    viewers = {name: draw(audience) for name in documents} | {"z": ANN}
    return TwinWorld(documents | {"z": ["kite"]}, viewers)


def plain(result: SearchResult) -> SearchResult:
    """A result without what depends on the clock or on how a world numbers its profiles."""
    return replace(
        result,
        hits=tuple(replace(hit, profile_id=0) for hit in result.hits),
        fragments=tuple(replace(each, hit=replace(each.hit, profile_id=0)) for each in result.fragments),
        timings_ms={},
        trace_id="",
    )


@settings(max_examples=60)
@given(world=worlds(), words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_non_interference(world: TwinWorld, words: list[str]) -> None:
    """A search equals, to the last score, that over a world that physically lacks what the reader may not see."""
    plan = Plan(lane_limit=3, recheck_round=2)
    question = Question(" ".join(words), depth=3)
    here = asyncio.run(search(world.parts(plan), person("ann"), question))
    there = asyncio.run(search(world.only("ann").parts(plan), person("ann"), question))
    assert plain(here) == plain(there)


@settings(max_examples=60)
@given(world=worlds(), stale=st.sets(st.sampled_from("abcdefgh")))
def test_non_interference_while_the_filter_lags(world: TwinWorld, stale: set[str]) -> None:
    """Documents that only the late checks hold back take no rank from those that may be seen (dense lane)."""
    plan = Plan(lane_limit=3, recheck_round=2)
    question = Question("red kite flies", depth=3, lanes=("dense",))
    lagging = replace(world, shown={name: BOTH for name in stale if name in world.documents})
    here = asyncio.run(search(lagging.parts(plan), person("ann"), question))
    there = asyncio.run(search(world.only("ann").parts(plan), person("ann"), question))
    assert plain(here) == plain(there)


async def test_what_decides_on_scores_is_checked_even_beyond_the_depth() -> None:
    """The best match by words scales the others' scores, so SpiceDB is asked about it though it would not be shown."""
    texts = {"a": ["red kite"], "h": ["red kite red kite red kite over the harbour lands flies blue sky"]}
    world = TwinWorld(texts, {"a": ANN, "h": BOB}, shown={"h": BOTH})
    question = Question("red kite", depth=1)
    here = await search(world.parts(), person("ann"), question)
    there = await search(world.only("ann").parts(), person("ann"), question)
    assert set(world.checked) == {"a", "h"}
    assert [(hit.document_id, hit.score) for hit in here.hits] == [
        (hit.document_id, hit.score) for hit in there.hits
    ]


@settings(max_examples=30)
@given(world=worlds(), words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
def test_non_interference_for_an_audience(world: TwinWorld, words: list[str]) -> None:
    """With a reader beside the asker, a search equals that over a world which lacks what one of the two may not see."""
    shared = replace(
        world, documents={**world.documents, "y": ["kite"]}, viewers={**world.viewers, "y": BOTH}
    )
    plan = Plan(lane_limit=3, recheck_round=2)
    question = Question(" ".join(words), depth=3)
    reading = replace(person("ann"), readers=("bob",))
    here = asyncio.run(search(shared.parts(plan), reading, question))
    there = asyncio.run(search(shared.only("ann", "bob").parts(plan), person("ann"), question))
    assert plain(here) == plain(there)


@pytest.mark.parametrize("side", ["shown", "viewers"])
async def test_each_enforcement_alone_keeps_a_document_from_an_audience(side: str) -> None:
    """What a reader beside the asker may not see stays out, though the catalog or SpiceDB alone would let it pass."""
    access = {"viewers": {"a": BOTH, "b": BOTH}, "shown": {"a": BOTH, "b": BOTH}}
    access[side] = {"a": BOTH, "b": ANN}
    world = TwinWorld({"a": ["red kite"], "b": ["red kite flies"]}, **access)
    assert set(seen(await search(world.parts(), person("ann"), Question("kite")))) == {"a", "b"}
    reading = replace(person("ann"), readers=("bob",))
    assert seen(await search(world.parts(), reading, Question("kite"))) == ["a"]


async def test_a_reader_whom_nobody_knows_closes_the_search() -> None:
    """An audience with somebody unregistered in it gets an error, not what the others may see; the asker's own comes first."""
    world = TwinWorld({"a": ["red kite"]}, {"a": BOTH})
    for asker, readers, code in (
        ("ann", ("bob", "eve"), "audience.unknown"),
        ("eve", ("bob",), "user.unknown"),
    ):
        with pytest.raises(Forbidden) as caught:
            await search(world.parts(), replace(person(asker), readers=readers), Question("kite"))
        assert caught.value.error_code == code
