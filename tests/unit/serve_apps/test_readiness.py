"""Readiness over HTTP: a real query through the query path's own parts, with or without the encoder."""

from __future__ import annotations

import httpx
import pytest

from cortex.errors import Unavailable
from cortex.settings import Settings
from serve_apps.fused import FusedQueries
from serve_apps.http import make_app
from serve_apps.service import Backend
from tests.twins.query import TwinWorld
from tests.twins.service import TwinDesk


def world() -> TwinWorld:
    return TwinWorld({"a": ["red kite"]}, {"a": frozenset({"ann"})})


def client(asked: TwinWorld, home: Settings) -> httpx.AsyncClient:
    app = make_app(Backend(FusedQueries(asked.parts()), TwinDesk()), home)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")


@pytest.mark.parametrize(
    ("query", "n_embedded", "n_dense"), [("", 1, 1), ("?words=false", 1, 1), ("?words=true", 0, 0)]
)
async def test_a_probe_by_words_leaves_the_encoder_alone(
    home: Settings, query: str, n_embedded: int, n_dense: int
) -> None:
    """Both run a query through index, catalog and checker; only the whole one embeds, and so wakes a GPU that rests."""
    asked = world()
    async with client(asked, home) as probe:
        assert (await probe.get(f"/readyz{query}")).json() == {"status": "ready"}
    assert (asked.calls["embed"], asked.calls["dense lane"]) == (n_embedded, n_dense)
    assert {name: asked.calls[name] for name in ("bm25 lane", "hydrate", "check")} == {
        "bm25 lane": 1,
        "hydrate": 1,
        "check": 1,
    }


@pytest.mark.parametrize("query", ["", "?words=true"])
async def test_a_part_that_fails_makes_both_probes_fail(home: Settings, query: str) -> None:
    """An index that is away is named by either."""
    asked = world()
    asked.failures["search"] = Unavailable("the index does not answer", code="index.unavailable")
    async with client(asked, home) as probe:
        answer = await probe.get(f"/readyz{query}")
    assert (answer.status_code, answer.json()["code"]) == (503, "index.unavailable")


async def test_the_two_probes_do_not_answer_for_each_other(home: Settings) -> None:
    """What one learned within the last second is not the other's answer."""
    asked = world()
    async with client(asked, home) as probe:
        await probe.get("/readyz?words=true")
        await probe.get("/readyz")
        await probe.get("/readyz")
    assert asked.calls["search"] == 2
