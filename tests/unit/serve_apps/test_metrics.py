"""Metrics: what is counted, and under which few labels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from ray.exceptions import ActorDiedError

from cortex.errors import ChecksUnavailable, Unavailable
from cortex.evidence import Answer, Degraded, SearchResult, Support
from cortex.settings import Settings
from serve_apps.http import make_app
from serve_apps.metrics import Metrics, StageMetrics
from serve_apps.service import Backend
from tests.twins.service import ADA, TwinDesk, TwinService
from tests.twins.stages import TwinHandle, client
from tests.unit.serve_apps.conftest import BASE, MakeClient


def value(text: str, name: str, **labels: str) -> float:
    """The one value of a series, whichever replica it is of."""
    (found,) = (
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and {**sample.labels, "replica": ""} == {**labels, "replica": ""}
    )
    return found


async def metrics_of(asker: httpx.AsyncClient) -> str:
    return (await asker.get("/metrics")).text


async def test_an_answer_is_counted_with_its_steps_and_its_first_word(
    make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """Each step once, the mode, the time to the first word, and what was degraded by part and code."""
    service.degraded = (Degraded("dense", "lane.failed", "down"),)
    asker = make_client(home, ADA)
    await asker.post("/v1/answer", json={"query": "hotels in London", "stream": True})
    await asker.post("/v1/answer", json={"query": "xylophone"})
    text = await metrics_of(asker)
    assert value(text, "cortex_step_duration_seconds_count", step="search") == 2
    assert value(text, "cortex_step_duration_seconds_sum", step="search") == pytest.approx(0.008)
    assert value(text, "cortex_time_to_first_token_seconds_count") == 2
    assert value(text, "cortex_answers_total", mode="extractive") == 1
    assert value(text, "cortex_answers_total", mode="abstained") == 1
    assert value(text, "cortex_degraded_total", part="dense", code="lane.failed") == 2
    assert value(text, "cortex_queries_in_flight") == 0


def test_writing_an_answer_adds_its_own_steps_alone() -> None:
    """The search's steps were counted with the search; what the answer degraded is counted as well."""
    metrics = Metrics()
    result = SearchResult((), (), Support(None, 0.0, 0.9, True), (), {"search": 4.0, "total": 5.0}, "t")
    notes = (Degraded("generate", "generator.timed_out", "silent"),)
    answer = Answer("", (), False, "extractive", degraded=notes, timings_ms={"search": 4.0, "extract": 2.0})
    metrics.search(result)
    metrics.answer(answer, result)
    text = metrics.text().decode()
    assert value(text, "cortex_step_duration_seconds_count", step="search") == 1
    assert value(text, "cortex_step_duration_seconds_count", step="extract") == 1
    assert value(text, "cortex_degraded_total", part="generate", code="generator.timed_out") == 1


async def test_errors_are_counted_by_their_codes(
    make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """A refusal, a failed check, a failure behind a sent status and a strange method each under route and code."""
    asker, stranger = make_client(home, ADA), make_client(home)
    await stranger.post("/v1/search", json={"query": "hotels"})
    await asker.request("BREW", "/v1/search")
    service.fail_with = ChecksUnavailable("slow", code="permissions.slow")
    await asker.post("/v1/answer", json={"query": "hotels", "stream": True})
    texts = await metrics_of(asker), await metrics_of(stranger)
    assert value(texts[1], "cortex_errors_total", route="/v1/search", code="token.missing") == 1
    assert value(texts[0], "cortex_errors_total", route="/v1/answer", code="permissions.slow") == 1
    assert value(texts[0], "cortex_http_requests_total", route="/v1/answer", method="POST", status="200") == 1
    assert 'method="_OTHER"' in texts[0] and "BREW" not in texts[0]


async def test_calls_of_stages_are_counted_where_they_are_made(home: Settings) -> None:
    """Time, failures by code and calls sent again stand in the ingress's own metrics, though replicas have no port."""

    async def search(_: str) -> list[str]:
        return []

    async def fail() -> None:
        raise Unavailable("down", code="index.unavailable")

    async def stream() -> AsyncGenerator[str, None]:
        yield "word"

    metrics = StageMetrics()
    handle = TwinHandle(
        {"search": search, "fail": fail, "stream": stream}, failures=[ActorDiedError()], name="search"
    )
    stage = client(handle, metrics=metrics)
    await stage.ask("search", "kites")
    with pytest.raises(Unavailable):
        await stage.ask("fail")
    assert [piece async for piece in stage.stream("stream")] == ["word"]
    given_up = asyncio.create_task(stage.ask("search", "kites"))
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)

    app = make_app(Backend(TwinService(), TwinDesk(), stages=metrics), home)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE) as scraper:
        text = await metrics_of(scraper)
    duration = "cortex_stage_call_duration_seconds_count"
    assert [value(text, duration, stage="search", call=call) for call in ("search", "fail", "stream")] == [
        2,
        1,
        1,
    ]
    assert value(text, "cortex_stage_call_errors_total", stage="search", code="index.unavailable") == 1
    assert text.count("cortex_stage_call_errors_total{") == 1
    assert value(text, "cortex_stage_calls_resent_total", stage="search") == 1


def test_every_series_says_which_replica_it_is_of() -> None:
    """A scrape through Serve's proxy reaches any replica, so none may be taken for another."""
    families = [*text_string_to_metric_families(full_text())]
    assert families
    assert len({sample.labels["replica"] for family in families for sample in family.samples}) == 1


def test_names_follow_the_conventions() -> None:
    """Every name of ours begins with cortex_ and ends with its unit, or with what it counts."""
    endings = (
        "_seconds",
        "_seconds_bucket",
        "_seconds_count",
        "_seconds_sum",
        "_total",
        "_info",
        "_in_flight",
    )
    ours = [name for name in exported() if name.startswith("cortex_") and not name.endswith("_created")]
    assert len(ours) > 15
    assert [name for name in ours if not name.endswith(endings)] == []


def full_text() -> str:
    """Metrics in which every series was used once."""
    stages = StageMetrics()
    metrics = Metrics(stages)
    result = SearchResult(
        (), (), Support(None, 0.0, 0.9, True), (Degraded("dense", "x.y", ""),), {"total": 5.0}, "t"
    )
    metrics.request("/v1/search", "POST", 503, "index.unavailable", 0.1)
    metrics.search(result)
    metrics.answer(Answer("", (), False, "extractive"), result)
    metrics.first_token(0.1)
    metrics.tool("search", "ok")
    stages.sent_again("search")
    with pytest.raises(Unavailable), stages.watching("search", "search"):
        raise Unavailable("down")
    return metrics.text().decode()


def exported() -> dict[str, set[str]]:
    """Every exported name with its labels."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(full_text()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found
