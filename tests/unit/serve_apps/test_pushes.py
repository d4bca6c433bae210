"""Pushes over HTTP: only a source's own fresh signature is believed, each push counts once, and refusals are alike."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings, settings
from serve_apps import pushes
from serve_apps.http import make_app
from serve_apps.pushes import CatalogPushDesk
from serve_apps.service import Backend
from tests.twins.pushes import TwinPushes
from tests.twins.service import TwinDesk, TwinService
from tests.unit.connectors.test_slack_events import MESSAGE, SECRET, signed

CHAT = SourceConfig("acme", "chat-1", "slack", "acme", options={"url": "https://slack.com/api/"})
FOLDER = SourceConfig("acme", "folder-1", "files", "docs", options={"root": "/srv/docs"})
BROKEN = SourceConfig("acme", "gone-1", "uninstalled", "gone")


@dataclass(slots=True)
class World:
    """The app, its queue, and the sources that were read again; `codes` are the exit codes of the next readings."""

    queue: TwinPushes
    client: httpx.AsyncClient
    read: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)

    async def push(self, body: bytes, headers: dict[str, str], source_id: str = "chat-1") -> httpx.Response:
        return await self.client.post(f"/v1/sources/{source_id}/events", content=body, headers=headers)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setenv("CORTEX_SLACK_SIGNING_SECRET", SECRET)
    monkeypatch.setattr(pushes, "_FIRST_PAUSE_S", 0.0)
    settings.cache_clear()
    queue = TwinPushes(CHAT, FOLDER, BROKEN)

    async def read(source_id: str) -> int:
        made.read.append(source_id)
        code = made.codes.pop(0) if made.codes else 0
        if code == 0:
            queue.settle(source_id, [push.push_id for push in queue.waiting(source_id)])
        return code

    desk = CatalogPushDesk(queue, read)
    app = make_app(
        Backend(TwinService(), TwinDesk(), pushes=desk), Settings(home=tmp_path, max_body_bytes=10_000)
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8642"
    ) as client:
        made = World(queue, client)
        yield made
    await desk.close()
    settings.cache_clear()


def event(event_id: str = "Ev1", **more: Any) -> bytes:
    return json.dumps({"type": "event_callback", "event_id": event_id, "event": {**MESSAGE, **more}}).encode()


async def settled(world: World) -> None:
    """Wait until nothing waits any more."""
    for _ in range(200):
        if not world.queue.waiting_sources():
            return
        await asyncio.sleep(0.01)
    pytest.fail("pushes still wait")


async def test_a_signed_push_is_recorded_and_read_again(world: World) -> None:
    """The items that a push names are recorded, the sender gets its answer at once, and the source is read."""
    body = event(thread_ts="1772444000.000100")
    answer = await world.push(body, signed(body))
    assert (answer.status_code, answer.text) == (200, "")
    await settled(world)
    [push] = world.queue.recorded.values()
    assert (push.push_id, set(push.changed_ids)) == ("Ev1", {"C0GEN/1772444000.000100", "C0GEN/2026-03-02"})
    assert world.read == ["chat-1"]


async def test_the_check_of_the_address_is_answered(world: World) -> None:
    """Slack's url_verification gets its challenge back, as text, and is no push."""
    body = json.dumps({"type": "url_verification", "challenge": "3eZbrw1aB<script>"}).encode()
    answer = await world.push(body, signed(body))
    assert (answer.status_code, answer.text) == (200, "3eZbrw1aB<script>")
    assert answer.headers["content-type"].startswith("text/plain")
    assert (world.queue.recorded, world.read) == ({}, [])


async def test_a_push_sent_again_changes_nothing(world: World) -> None:
    """Slack's retries and replays bear the same event id: all are answered, one is acted on."""
    body = event()
    for n in range(4):
        answer = await world.push(body, {**signed(body), "X-Slack-Retry-Num": str(n)})
        assert answer.status_code == 200
        await settled(world)
    assert (len(world.queue.recorded), world.read) == (1, ["chat-1"])


def refusals() -> dict[str, tuple[str, bytes, dict[str, str]]]:
    body = event()
    challenge = json.dumps({"type": "url_verification", "challenge": "x"}).encode()
    return {
        "unsigned": ("chat-1", body, {}),
        "unsigned-challenge": ("chat-1", challenge, {}),
        "forged": ("chat-1", body, signed(body, secret="guessed")),
        "late": ("chat-1", body, signed(body, at=1_000_000_000)),
        "other-body": ("chat-1", event("Ev2"), signed(body)),
        "no-json": ("chat-1", b"{", signed(b"{")),
        "unknown-source": ("chat-9", body, signed(body)),
        "folder": ("folder-1", body, signed(body)),
        "uninstalled": ("gone-1", body, signed(body)),
        "nul": ("chat-1%00", body, signed(body)),
        "long": ("c" * 5_000, body, signed(body)),
    }


async def test_every_refusal_is_alike_and_yields_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever cannot sign learns nothing: not the reason, not whether there is such a source; the log has the reason."""
    said = set()
    with caplog.at_level(logging.INFO):
        for source_id, body, headers in refusals().values():
            answer = await world.push(body, headers, source_id)
            problem = {name: value for name, value in answer.json().items() if name != "trace_id"}
            said.add((answer.status_code, answer.headers["content-type"], json.dumps(problem)))
    [(status, media_type, problem)] = said
    assert (status, media_type) == (401, "application/problem+json")
    assert json.loads(problem)["code"] == "webhook.refused"
    assert (world.queue.recorded, world.read) == ({}, [])
    logged = "\n".join(str(record.__dict__) for record in caplog.records)
    for code in (
        "webhook.unsigned",
        "webhook.forged",
        "webhook.expired",
        "webhook.unknown",
        "source.unknown",
    ):
        assert code in logged


async def test_a_large_push_is_refused_before_it_is_read(world: World) -> None:
    """The limit on bodies holds for pushes too."""
    body = event(text="x" * 20_000)
    answer = await world.push(body, signed(body))
    assert (answer.status_code, answer.json()["code"]) == (413, "body.too_large")
    assert world.queue.recorded == {}


async def test_a_reading_that_fails_is_tried_again(world: World) -> None:
    """A push stays until a reading has ended well."""
    world.codes = [7, 1]
    body = event()
    await world.push(body, signed(body))
    await settled(world)
    assert world.read == ["chat-1"] * 3


async def test_what_waits_at_the_start_is_read(world: World) -> None:
    """A restart loses no push: the desk goes on with what it finds."""
    world.queue.record("chat-1", "Ev0", ["C0GEN/2026-03-02"])
    read = []

    async def note(source_id: str) -> int:
        read.append(source_id)
        world.queue.settle(source_id, ["Ev0"])
        return 0

    desk = CatalogPushDesk(world.queue, note)
    await desk.open()
    await settled(world)
    await desk.close()
    assert read == ["chat-1"]


async def test_without_a_desk_every_push_is_refused(tmp_path: Path) -> None:
    """A placement that receives no pushes says so as for any push that is not believed."""
    app = make_app(Backend(TwinService(), TwinDesk()), Settings(home=tmp_path))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8642"
    ) as client:
        answer = await client.post("/v1/sources/chat-1/events", content=event())
    assert (answer.status_code, answer.json()["code"]) == (401, "webhook.refused")
