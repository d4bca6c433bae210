"""MCP over the real engines: each person's agent finds and opens exactly what that person does over /v1."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from serve_apps.backend import open_backend
from serve_apps.http import make_app
from tests.services.asking import token
from tests.services.loaded_home import PEOPLE, LoadedHome
from tests.twins.agents import BASE, agent, said

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),  # loopback
]
QUESTION = "the plan is to move the queue, page number of wing"


@dataclass(frozen=True, slots=True)
class Seen:
    """What one person finds over both ways, what an agent of theirs opens, and what fetching each document says."""

    over_http: list[tuple[str, str]]
    by_agent: list[tuple[str, str]]
    opened: list[str]
    fetched: dict[str, dict[str, Any]]


async def _look(app: Any, key: str, document_ids: list[str]) -> Seen:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url=BASE, headers=headers
    ) as client:
        response = await client.post("/v1/search", json={"query": QUESTION, "k": 20})
    evidence = response.json()["evidence"]
    async with agent(app, key) as connected:
        found = said(await connected.call_tool("search", {"query": QUESTION, "limit": 20}))["results"]
        opened = [said(await connected.call_tool("fetch", {"id": each["id"]}))["text"] for each in found[:3]]
        fetched = {each: said(await connected.call_tool("fetch", {"id": each})) for each in document_ids}
    return Seen(
        [(each["title"], each["text"]) for each in evidence],
        [(each["title"], each["text"]) for each in found],
        opened,
        fetched,
    )


def test_agents_see_what_their_people_see(home: LoadedHome) -> None:
    """Three people, one question: equal over both ways, different between them; what fetch may not open does not exist."""
    shut = home.document("shut/plan.md")[0]
    missing = "00000000-0000-0000-0000-00000000dead"

    async def look_at_all() -> dict[str, Seen]:
        backend = await open_backend(home.settings)
        try:
            app = make_app(backend, home.settings)
            return {name: await _look(app, token(home.settings, name), [shut, missing]) for name in PEOPLE}
        finally:
            await backend.close()

    seen = asyncio.run(look_at_all())
    for person in seen.values():
        assert person.by_agent and person.by_agent == person.over_http
        assert all(text in opened for (_, text), opened in zip(person.by_agent, person.opened, strict=False))
    plans = {name: {text for _, text in seen[name].by_agent if "plan of" in text} for name in PEOPLE}
    assert {name: len(found) for name, found in plans.items()} == {"ana": 1, "bo": 2, "eve": 2}
    assert "plan of shut" in seen["eve"].fetched[shut]["text"]
    for name in ("ana", "bo"):
        refused, unknown = seen[name].fetched[shut], seen[name].fetched[missing]
        assert refused["code"] == "document.not_found"
        assert {**refused, "trace_id": ""} == {**unknown, "trace_id": ""}
