"""Stages behind handles: the same results in both placements, errors that stay ours, and calls that end with their caller."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RequestCancelledError

from adapters.in_threads import ThreadedReranker
from cortex.errors import Busy, ChecksUnavailable, CortexError, Forbidden, Remedy, TimedOut, Unavailable
from cortex.evidence import AnswerEventKind, Question
from cortex.settings import Settings
from cortex.telemetry import new_trace_id, setup_logging
from retrieval.path import answer, search
from retrieval.plan import Plan
from serve_apps.guard import Guard
from serve_apps.placements import STAGES
from serve_apps.problems import Unexpected, problem_response
from serve_apps.stages import OPENERS
from tests.twins.query import TwinWorld, person
from tests.twins.stages import TwinHandle, calls_of, client, staged
from tests.unit.retrieval.test_answer import TwinGenerator
from tests.unit.retrieval.test_query_path import ANN, WORDS, plain, worlds

KITES = TwinWorld({"a": ["red kite"], "b": ["red kite too"]}, {"a": ANN, "b": ANN})
LOST = [ActorUnavailableError("gone", b"\x00" * 16), ActorDiedError(), RequestCancelledError("r")]


class ByLength:
    """A reranker that likes short passages."""

    name = "by-length"

    def score(self, question: str, passages: list[str]) -> np.ndarray:
        return np.array([-len(passage) for passage in passages], dtype=np.float32)


# ------------------------------------------------------------------------------------------------- the same results


@settings(max_examples=40)
@given(world=worlds(), words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), reranks=st.booleans())
def test_hits_order_and_scores_are_those_of_one_process(
    world: TwinWorld, words: list[str], reranks: bool
) -> None:
    """With a handle in front of every part, a search gives the same to the last score, refills included."""
    parts = world.parts(
        Plan(lane_limit=3, recheck_round=2), reranker=ThreadedReranker(ByLength()) if reranks else None
    )
    question = Question(" ".join(words), depth=3)
    here = asyncio.run(search(parts, person("ann"), question))
    there = asyncio.run(search(staged(parts), person("ann"), question))
    assert plain(there) == plain(here)


async def test_an_answer_streams_through_the_generation_stage() -> None:
    """Pieces and citations come one by one, in order, and the whole answer is that of one process."""
    generator = TwinGenerator("A kite ", "is red [1]", ".")
    parts = KITES.parts(Plan(abstain_below=0.0), generator=generator)
    here = [event async for event in answer(parts, person("ann"), Question("red kite"))]
    there = [event async for event in answer(staged(parts), person("ann"), Question("red kite"))]
    assert [(event.token, event.citation) for event in there] == [
        (event.token, event.citation) for event in here
    ]
    assert sum(event.kind is AnswerEventKind.TOKEN for event in there) == 4
    assert there[-1].answer is not None
    assert there[-1].answer.mode == "generated"


async def test_every_stage_opens_and_answers_what_the_ports_ask(tmp_path: Path) -> None:
    """Each stage's replicas offer exactly the calls that its ports send; a stage without a model offers none."""
    home = Settings(
        home=tmp_path,
        postgres_url="postgresql://nobody@127.0.0.1:1/none",
        qdrant_url="http://127.0.0.1:1",
        spicedb_url="127.0.0.1:1",
        llm_url="http://127.0.0.1:1/v1",
        llm_model="tiny",
    )
    asked = calls_of(KITES.parts(generator=TwinGenerator(), reranker=ThreadedReranker(ByLength())))
    assert tuple(OPENERS) == tuple(asked) == STAGES
    for name, opener in OPENERS.items():
        async with opener(home, False) as offered:
            assert set(offered) == (set() if name == "rerank" else set(asked[name])), name


# ------------------------------------------------------------------------------------------------------ our own errors


async def test_errors_of_a_stage_keep_code_remedy_hint_and_fields() -> None:
    """What a stage raises is what its caller catches, class included."""

    async def refuse() -> None:
        raise Forbidden("no access here", code="user.unknown", hint="ask the operator", retry_after_s=7)

    with pytest.raises(Forbidden) as caught:
        await client(TwinHandle({"permit": refuse})).ask("permit")
    error = caught.value
    assert type(error) is Forbidden
    assert (error.error_code, error.hint, error.remedy) == (
        "user.unknown",
        "ask the operator",
        Remedy.TELL_USER,
    )
    assert (error.message, error.fields) == ("no access here", {"retry_after_s": 7})


async def test_a_failing_check_closes_the_search_through_handles_too() -> None:
    """The recheck stage's ChecksUnavailable arrives as itself."""
    world = TwinWorld({"a": ["red kite"]}, {"a": ANN}, failures={"check": ChecksUnavailable("down")})
    with pytest.raises(ChecksUnavailable):
        await search(staged(world.parts()), person("ann"), Question("kite"))


async def test_an_unforeseen_error_keeps_its_text_in_the_replica(capsys: pytest.CaptureFixture[str]) -> None:
    """The caller learns that something unexpected happened; the event names the place and never the text."""

    async def stumble() -> None:
        raise KeyError("the salary of Ada")

    setup_logging("info")
    with pytest.raises(Unexpected):
        await client(TwinHandle({"search": stumble})).ask("search")
    logged = capsys.readouterr().err
    assert json.loads(logged.splitlines()[0])["error"] == "KeyError"
    assert "salary" not in logged


async def test_a_full_queue_is_busy_with_a_pause_and_not_asked_again() -> None:
    """Serve's refusal becomes 429 with Retry-After."""
    handle = TwinHandle({"search": _ten}, failures=[BackPressureError(128, 128)])
    with pytest.raises(Busy) as caught:
        await client(handle).ask("search")
    response = problem_response(caught.value)
    assert (response.status_code, response.headers["retry-after"]) == (429, "1")
    assert caught.value.error_code == "stage.busy"
    assert handle.asked == ["search"]


# --------------------------------------------------------------------------------------------------- lost, late, left


async def _ten() -> int:
    return 10


@pytest.mark.parametrize("error", [*LOST, asyncio.CancelledError()], ids=lambda error: type(error).__name__)
async def test_a_call_that_a_lost_replica_had_is_sent_again(error: BaseException) -> None:
    """Another replica answers; the caller notices nothing but time."""
    handle = TwinHandle({"search": _ten}, failures=[error, error])
    assert await client(handle).ask("search") == 10
    assert len(handle.asked) == 3


async def test_a_stage_that_stays_lost_is_unavailable() -> None:
    """After so many attempts as the config says the stage is named."""
    handle = TwinHandle({"search": _ten}, failures=[ActorDiedError() for _ in range(9)])
    with pytest.raises(Unavailable) as caught:
        await client(handle, attempts=2).ask("search")
    assert (caught.value.error_code, len(handle.asked)) == ("stage.unavailable", 2)


@pytest.mark.parametrize(
    "error",
    [
        DeploymentUnavailableError("search"),
        RayTaskError("call", "trace", ValueError("x"), pid=1, ip="127.0.0.1"),
    ],
    ids=["deployment", "around the replica"],
)
async def test_what_another_attempt_would_not_mend_is_not_sent_again(error: Exception) -> None:
    """A deployment that failed to deploy, or Serve's own failure, is unavailable at once."""
    handle = TwinHandle({"search": _ten}, failures=[error])
    with pytest.raises(Unavailable):
        await client(handle).ask("search")
    assert len(handle.asked) == 1


async def test_a_late_answer_times_out_and_its_work_is_cancelled() -> None:
    """Past its limit a call is given up, named, and taken along."""
    handle = TwinHandle({"search": _ten}, delay_s=5)
    with pytest.raises(TimedOut) as caught:
        await client(handle, timeout_s=0.02).ask("search")
    assert (caught.value.error_code, handle.n_cancelled) == ("stage.timed_out", 1)


async def test_a_caller_who_leaves_cancels_the_stages_work() -> None:
    """A cancelled question cancels the call that it waits for, and is not sent again."""
    handle = TwinHandle({"search": _ten}, delay_s=5)
    asking = asyncio.create_task(client(handle).ask("search"))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (handle.n_cancelled, len(handle.asked)) == (1, 1)


async def _pieces() -> AsyncGenerator[str, None]:
    for piece in ("one", "two", "three"):
        yield piece


async def test_closing_a_stream_ends_the_stages_work() -> None:
    """Whoever stops reading stops the writing."""
    handle = TwinHandle({"stream": _pieces})
    async with aclosing(client(handle).stream("stream")) as pieces:
        assert await anext(pieces) == "one"
    assert handle.n_cancelled == 1


async def test_who_leaves_while_a_stream_is_handed_over_cancels_it_once_it_has_begun() -> None:
    """Serve may lose a cancellation in that moment, so it comes after the replica's first word."""
    handle = TwinHandle({"stream": _pieces}, delay_s=0.05)
    said: list[str] = []

    async def read() -> None:
        async with aclosing(client(handle).stream("stream")) as pieces:
            async for piece in pieces:
                said.append(piece)

    reading = asyncio.create_task(read())
    await asyncio.sleep(0.01)
    reading.cancel()
    await asyncio.sleep(0.01)
    assert (handle.n_begun, handle.n_cancelled) == (0, 0)
    await asyncio.wait({reading}, timeout=5)
    assert reading.cancelled()
    assert (handle.n_begun, handle.n_cancelled, said) == (1, 1, [])


async def test_a_stream_is_never_sent_twice() -> None:
    """A replica lost in the middle ends the stream as unavailable: half an answer is not begun again."""
    handle = TwinHandle({"stream": _pieces}, lost_after=(2, ActorDiedError()))
    said = []
    with pytest.raises(Unavailable):
        async for piece in client(handle).stream("stream"):
            said.append(piece)
    assert (said, len(handle.asked)) == (["one"], 1)


async def test_a_stage_works_under_the_callers_trace() -> None:
    """The trace id that the ingress gave a question is that of its stages."""

    async def say() -> str:
        return new_trace_id()

    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Callable[..., Any]) -> None:
        seen.append(await client(TwinHandle({"search": say})).ask("search"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    await _through_guard(app, f"00-{trace_id}-00f067aa0ba902b7-01")
    assert seen == [trace_id]


async def _through_guard(app: Any, traceparent: str) -> None:
    from serve_apps.metrics import Metrics

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        assert message.get("status", 200) == 200

    headers = [(b"host", b"127.0.0.1"), (b"traceparent", traceparent.encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
    await Guard(app, Settings(), Metrics())(scope, receive, send)  # type: ignore[arg-type]


async def test_the_error_of_a_stream_comes_as_itself() -> None:
    """A model that fails in the middle fails the stream with its own error."""

    async def break_off() -> AsyncGenerator[str, None]:
        yield "half"
        raise Unavailable("broke off", code="generator.broken_off")

    said: list[str] = []
    with pytest.raises(CortexError) as caught:
        async for piece in client(TwinHandle({"stream": break_off})).stream("stream"):
            said.append(piece)
    assert (said, caught.value.error_code) == (["half"], "generator.broken_off")
