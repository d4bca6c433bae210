"""One trace per request in both placements: who begins it, what hangs below what, and that no content is in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.trace import SpanKind, StatusCode

from cortex.errors import Unavailable
from cortex.settings import Settings
from cortex.telemetry import caller_trace, new_trace_id, span, start_span, timed, trace_headers, under
from retrieval.path import Parts
from retrieval.plan import Plan
from serve_apps.fused import FusedQueries
from serve_apps.http import make_app
from serve_apps.service import Backend
from tests.twins.query import TENANT, TwinWorld
from tests.twins.service import ADA, TwinDesk, TwinService
from tests.twins.spans import KeptSpans, kept_spans
from tests.twins.stages import TwinHandle, client, staged
from tests.unit.retrieval.test_answer import TwinGenerator
from tests.unit.serve_apps.conftest import BASE, token
from tests.unit.serve_apps.test_mcp import send

ANN = frozenset({"ann@example.com"})
TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{PARENT_ID}-01"
STEPS = {"permit", "understand", "embed", "search", "recheck", "assemble", "support"}
SECRETS = ("kestrel", "nightingale", "ann@example.com", "xylophone")
# What each step asks of a stage; rounds and lanes may ask more than once.
CALLS = {
    ("permit", "permissions.fresh_permit"),
    ("understand", "understanding.understand"),
    ("embed", "embedding.embed_queries"),
    ("search", "search.search"),
    ("recheck", "recheck.rank"),
}


@pytest.fixture
def kept() -> Iterator[KeptSpans]:
    with kept_spans() as spans:
        yield spans


def world(**failures: Any) -> TwinWorld:
    documents = {"birds": ["The kestrel sings with the nightingale."], "boats": ["A boat."]}
    return TwinWorld(documents, dict.fromkeys(documents, ANN), failures=failures)


async def post(parts: Parts, path: str, home: Path, **headers: str) -> httpx.Response:
    """Ask over HTTP as Ann."""
    settings = Settings(home=home, tenant_id=TENANT)
    app = make_app(Backend(FusedQueries(parts), TwinDesk()), settings)
    key = token(settings, next(iter(ANN)), tenant_id=TENANT)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=BASE, headers={"authorization": f"Bearer {key}"}
    ) as asker:
        return await asker.post(path, json={"query": "kestrel nightingale"}, headers=headers)


async def test_a_search_is_one_trace_of_its_steps(kept: KeptSpans, tmp_path: Path) -> None:
    """The request continues its caller's trace; every step hangs below the search, and models below their steps."""
    response = await post(world().parts(), "/v1/search", tmp_path, traceparent=TRACEPARENT)
    request = kept.named("POST /v1/search")
    assert request.parent is not None and f"{request.parent.span_id:016x}" == PARENT_ID
    assert request.kind is SpanKind.SERVER
    assert {f"{each.context.trace_id:032x}" for each in kept.all() if each.context} == {TRACE_ID}
    assert response.json()["trace_id"] == TRACE_ID
    assert kept.edges() == {
        ("", "POST /v1/search"),
        ("POST /v1/search", "total"),
        *(("total", step) for step in STEPS),
        ("embed", "embeddings hashing-64.1"),
    }


async def test_a_staged_search_is_the_same_trace_with_its_calls(kept: KeptSpans, tmp_path: Path) -> None:
    """Below each step stands the call of its stage, and below the call the replica's own span."""
    await post(staged(world().parts()), "/v1/search", tmp_path, traceparent=TRACEPARENT)
    by_id = {each.context.span_id: each for each in kept.all() if each.context}
    calls = [each for each in kept.all() if each.kind is SpanKind.CLIENT]
    answers = [
        each
        for each in kept.all()
        if each.kind is SpanKind.SERVER and "rpc.method" in (each.attributes or {})
    ]
    assert {(by_id[each.parent.span_id].name, each.name) for each in calls if each.parent} == CALLS
    assert len(answers) == len(calls)
    for each in answers:
        assert each.parent is not None
        call = by_id[each.parent.span_id]
        assert (call.kind, call.name) == (SpanKind.CLIENT, each.name)
        assert call.start_time <= each.start_time <= each.end_time <= call.end_time
    assert {each.context.trace_id for each in kept.all() if each.context} == {int(TRACE_ID, 16)}


@pytest.mark.parametrize("is_staged", [False, True])
async def test_what_a_model_says_hangs_below_the_answer(
    kept: KeptSpans, tmp_path: Path, is_staged: bool
) -> None:
    """A streamed answer has its step, and the call of the generation stage below it, in the same trace."""
    parts = world().parts(Plan(abstain_below=0.0), generator=TwinGenerator("It sings [1]", "."))
    response = await post(
        staged(parts) if is_staged else parts, "/v1/answer", tmp_path, traceparent=TRACEPARENT
    )
    assert response.json()["mode"] == "generated"
    assert ("POST /v1/answer", "generate") in kept.edges()
    called = {("generate", "generation.stream"), ("generation.stream", "generation.stream")}
    assert called & kept.edges() == (called if is_staged else set())
    assert kept.attributes("POST /v1/answer")["cortex.answer.mode"] == "generated"


@pytest.mark.parametrize(
    "broken",
    [
        f"00-{TRACE_ID}-{PARENT_ID}",
        f"00-{'0' * 32}-{PARENT_ID}-01",
        f"00-{TRACE_ID}-{'0' * 16}-01",
        f"ff-{TRACE_ID}-{PARENT_ID}-01",
        f"00-{TRACE_ID.upper()}-{PARENT_ID}-01",
        f"00-{TRACE_ID}-{PARENT_ID}-01-more",
        "x" * 5_000,
    ],
)
async def test_a_malformed_traceparent_counts_as_none(kept: KeptSpans, tmp_path: Path, broken: str) -> None:
    """The request is answered under a trace of its own."""
    response = await post(world().parts(), "/v1/search", tmp_path, traceparent=broken)
    assert response.status_code == 200
    assert response.json()["trace_id"] == f"{kept.named('POST /v1/search').context.trace_id:032x}" != TRACE_ID
    assert kept.named("POST /v1/search").parent is None


async def test_a_caller_who_does_not_record_decides_for_all(kept: KeptSpans, tmp_path: Path) -> None:
    """With the sampled flag off no span is made, in stages neither; the trace id is the caller's all the same."""
    response = await post(staged(world().parts()), "/v1/search", tmp_path, traceparent=f"{TRACEPARENT[:-1]}0")
    assert response.json()["trace_id"] == TRACE_ID
    assert kept.all() == ()


def test_a_share_of_the_traces_is_whole_and_the_rest_absent() -> None:
    """With a ratio of a half, each trace has all of its spans or none, and an id in both cases."""
    with kept_spans(ratio=0.5) as spans:
        trace_ids = []
        for _ in range(24):
            with span("outer"), span("inner"):
                trace_ids.append(new_trace_id())
        n_spans = Counter(f"{each.context.trace_id:032x}" for each in spans.all() if each.context)
    assert len(set(trace_ids)) == 24
    assert {n_spans[trace_id] for trace_id in trace_ids} == {0, 2}  # all alike: once in eight million runs


def test_of_many_requests_some_are_recorded_each_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three a second: as many at once, then one for each third of a second that passes; whose caller asks is beside that."""
    now_s = 100.0
    monkeypatch.setattr("serve_apps.tracing.time.monotonic", lambda: now_s)
    with kept_spans(rate=3) as spans:

        def n_recorded(n_asked: int) -> int:
            n_before = len(spans.all())
            for _ in range(n_asked):
                with span("request"):
                    pass
            return len(spans.all()) - n_before

        assert n_recorded(10) == 3
        now_s += 0.7
        assert n_recorded(10) == 2
        now_s += 3600
        assert n_recorded(10) == 3
        with span("called", parent=caller_trace({"traceparent": TRACEPARENT})):
            pass
        assert spans.named("called").context.trace_id == int(TRACE_ID, 16)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_probes_have_no_trace_unless_they_bring_one(kept: KeptSpans, path: str, tmp_path: Path) -> None:
    """What is asked every second leaves nothing; who debugs a probe sends a traceparent."""
    app = make_app(Backend(FusedQueries(world().parts()), TwinDesk()), Settings(home=tmp_path))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as probe:
        assert len((await probe.get(path)).headers["x-trace-id"]) == 32
        assert kept.all() == ()
        await probe.get(path, headers={"traceparent": TRACEPARENT})
    assert kept.named(f"GET {path}").attributes["http.response.status_code"] == 200


@pytest.mark.parametrize("is_staged", [False, True])
@pytest.mark.parametrize("call", ["search", "embed", "hydrate"])
async def test_no_content_is_in_a_trace(kept: KeptSpans, tmp_path: Path, is_staged: bool, call: str) -> None:
    """Neither question nor passage nor person is in names, attributes, statuses or events, in failures neither."""
    parts = world(**{call: RuntimeError("kestrel xylophone")}).parts()
    await post(staged(parts) if is_staged else parts, "/v1/answer", tmp_path)
    await post(world().parts(), "/v1/documents/xylophone", tmp_path)
    said = kept.said()
    assert "permit" in said
    assert [secret for secret in SECRETS if secret in said] == []


async def test_a_failure_is_marked_by_its_code(kept: KeptSpans, tmp_path: Path) -> None:
    """From the stage up to the request each span that failed says with which code; what was worked around is sound."""
    broken = Unavailable("kestrel", code="index.unavailable")
    response = await post(staged(world(search=broken).parts()), "/v1/search", tmp_path)
    assert response.status_code == 503
    failed = {
        each.name: (each.attributes or {}).get("error.type") for each in kept.all() if not each.status.is_ok
    }
    assert failed["search.search"] == "index.unavailable"
    assert {failed["search"], failed["total"]} == {response.json()["code"]}
    assert kept.named("POST /v1/search").status.status_code is StatusCode.ERROR
    assert kept.named("permit").status.status_code is StatusCode.UNSET


async def test_who_is_refused_is_no_failure_of_the_server(kept: KeptSpans, tmp_path: Path) -> None:
    """A 404 is told with its code, and its span is no error."""
    await post(world().parts(), "/v1/nothing", tmp_path)
    request = kept.named("POST unmatched")
    assert request.attributes["error.type"] == "route.unknown"
    assert request.status.status_code is StatusCode.UNSET


async def test_a_tool_call_stays_in_the_trace_of_its_request(kept: KeptSpans, home: Settings) -> None:
    """A trace that the message names besides changes nothing: one request has one trace."""
    app = make_app(Backend(TwinService(), TwinDesk()), home)
    headers = {"authorization": f"Bearer {token(home, ADA)}"}
    other = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    call = {"name": "search", "arguments": {"query": "hotels"}, "_meta": other}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=BASE, headers=headers
    ) as client_:
        response = await send(client_, "tools/call", call, traceparent=TRACEPARENT)
    assert response.json()["result"]["structuredContent"]["trace_id"] == TRACE_ID
    assert kept.edges() == {("", "POST /mcp"), ("POST /mcp", "execute_tool search")}
    assert kept.attributes("execute_tool search")["gen_ai.tool.name"] == "search"


async def test_a_stream_that_is_left_ends_its_spans(kept: KeptSpans) -> None:
    """Closing what a stage streams ends the spans on both sides, without a failure."""

    async def endless() -> AsyncGenerator[str, None]:
        while True:
            yield "word"

    async with aclosing(client(TwinHandle({"stream": endless})).stream("stream")) as pieces:
        assert await anext(pieces) == "word"
    assert [each.name for each in kept.all()] == ["twin.stream"] * len(kept.all()) != []
    assert [each for each in kept.all() if not each.status.is_ok] == []


async def test_pieces_are_made_under_a_span_and_taken_outside_of_it(kept: KeptSpans) -> None:
    """Whoever makes a piece sees the span, whoever takes it does not, in whatever task."""
    seen = []

    async def pieces() -> AsyncGenerator[str, None]:
        for _ in range(2):
            yield new_trace_id()

    opened = start_span("stream")
    expected = f"{opened.get_span_context().trace_id:032x}"
    async with aclosing(under(opened, pieces())) as stream:
        seen.append(await asyncio.create_task(anext(stream)))
        assert trace_headers() == {}
        seen.append(await asyncio.create_task(anext(stream)))
    opened.end()
    assert seen == [expected, expected]


def test_a_step_that_is_cancelled_says_so(kept: KeptSpans) -> None:
    """The waterfall of a request that ran out of time shows where it was."""

    async def step() -> None:
        with timed({}, "slow"):
            await asyncio.sleep(5)

    async def give_up() -> None:
        with span("outer"):
            async with asyncio.timeout(0.01):
                await step()

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    assert kept.attributes("slow")["error.type"] == "CancelledError"
    assert kept.attributes("outer")["error.type"] == "TimeoutError"
