"""Search, answers and documents over HTTP."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import httpx
import pytest

from cortex.errors import ChecksUnavailable
from cortex.settings import Settings
from tests.twins.service import BEN, LIBRARY, TwinService
from tests.unit.serve_apps.conftest import MakeClient

TRAVEL, SALARY = LIBRARY[0].document_id, LIBRARY[1].document_id


def events(text: str) -> list[tuple[str, Any]]:
    """Read an event stream as names and data."""
    found = []
    for block in filter(None, text.split("\n\n")):
        if block.startswith("event: "):
            name, data = block.split("\n", 1)
            found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


async def test_a_search_returns_hits_and_evidence(ada: httpx.AsyncClient) -> None:
    """A search answers with hits, numbered evidence, lane scores, timings and a trace id."""
    response = await ada.post("/v1/search", json={"query": "hotels in London", "k": 2})
    found = response.json()
    assert response.status_code == 200
    assert found["hits"][0]["document_id"] == TRAVEL
    assert found["hits"][0]["anchor"]["fragment"] == "L13-L21"
    assert [each["number"] for each in found["evidence"]] == list(range(1, len(found["evidence"]) + 1))
    assert found["hits"][0]["lanes"]["dense_rank"] == 1
    assert found["trace_id"] == response.headers["x-trace-id"]
    assert found["timings_ms"]["search"] == 4.0


async def test_filters_narrow_a_search(ada: httpx.AsyncClient) -> None:
    """A collection that holds nothing relevant gives no hit."""
    body = {"query": "hotels in London", "collections": ["ops"], "updated_after": "2020-01-01T00:00:00"}
    assert (await ada.post("/v1/search", json=body)).json()["hits"] == []


async def test_people_see_only_what_they_may(
    ada: httpx.AsyncClient, make_client: MakeClient, home: Settings
) -> None:
    """The same question gives the document to who may see it and nothing of it to who may not."""
    body = {"query": "salary band of a senior engineer"}
    ben = make_client(home, BEN)
    seen = (await ada.post("/v1/search", json=body)).json()["hits"]
    unseen = (await ben.post("/v1/search", json=body)).json()["hits"]
    assert seen[0]["document_id"] == SALARY
    assert all(hit["document_id"] != SALARY for hit in unseen)


async def test_an_answer_cites_its_evidence(ada: httpx.AsyncClient, service: TwinService) -> None:
    """A whole answer names its citations by evidence number and is recorded for its asker."""
    found = (await ada.post("/v1/answer", json={"query": "when are receipts due"})).json()
    numbers = {each["number"] for each in found["evidence"]}
    assert found["abstained"] is False
    assert {each["number"] for each in found["citations"]} <= numbers
    assert found["answer_id"] in service.answers


async def test_an_abstention_cites_nothing(ada: httpx.AsyncClient) -> None:
    """A question that nothing supports is declined, without citations."""
    found = (await ada.post("/v1/answer", json={"query": "xylophone"})).json()
    assert (found["abstained"], found["mode"], found["citations"]) == (True, "abstained", [])


@pytest.mark.parametrize("how", ["field", "header"])
async def test_a_stream_sends_its_events_in_order(ada: httpx.AsyncClient, how: str) -> None:
    """Evidence comes once and first, then tokens, then citations, then done once; the tokens are the answer."""
    body: dict[str, Any] = {"query": "when are receipts due", "stream": how == "field"}
    headers = {"accept": "text/event-stream"} if how == "header" else {}
    response = await ada.post("/v1/answer", json=body, headers=headers)
    found = events(response.text)
    names = [name for name, _ in found]
    n_tokens, n_citations = names.count("token"), names.count("citation")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert names == ["evidence", *["token"] * n_tokens, *["citation"] * n_citations, "done"]
    assert "".join(data["text"] for name, data in found if name == "token") == found[-1][1]["answer"]
    assert found[-1][1]["trace_id"] == response.headers["x-trace-id"]


async def test_a_failure_on_the_way_is_the_last_event(ada: httpx.AsyncClient, service: TwinService) -> None:
    """When permissions cannot be checked any more, the stream ends with an `error` event, a problem document."""
    service.fail_with = ChecksUnavailable("permissions cannot be checked")
    found = events((await ada.post("/v1/answer", json={"query": "receipts due", "stream": True})).text)
    assert found[-1][0] == "error"
    assert (found[-1][1]["status"], found[-1][1]["code"]) == (503, "permissions.unavailable")


async def test_an_unforeseen_failure_on_the_way_tells_nothing(
    ada: httpx.AsyncClient, service: TwinService
) -> None:
    """An unexpected error in a stream becomes an `error` event without its message."""
    service.fail_with = RuntimeError("secret of ada@example.com")
    text = (await ada.post("/v1/answer", json={"query": "receipts due", "stream": True})).text
    assert events(text)[-1][1]["code"] == "server.unexpected"
    assert "secret" not in text


async def test_a_reader_who_leaves_stops_the_work(
    home: Settings, service: TwinService, ada: httpx.AsyncClient
) -> None:
    """When the client disconnects in the middle of a stream, the generator upstream is cancelled at once."""
    service.token_delay_s = 0.02
    app = ada._transport.app  # type: ignore[attr-defined]
    sent: list[bytes] = []
    gone = asyncio.Event()
    body = json.dumps({"query": "when are receipts due", "stream": True}).encode()
    inbox = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if inbox:
            return inbox.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message.get("body", b""))
        if b"event: token" in sent[-1]:
            gone.set()

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    headers += [
        (name.encode(), value.encode()) for name, value in ada.headers.items() if name == "authorization"
    ]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
    }
    scope |= {
        "path": "/v1/answer",
        "raw_path": b"/v1/answer",
        "query_string": b"",
        "headers": headers,
        "state": {},
    }
    await asyncio.wait_for(app(scope, receive, send), timeout=2)
    assert service.n_cancelled == 1
    assert b"event: done" not in b"".join(sent)


async def test_a_document_opens_in_order(ada: httpx.AsyncClient) -> None:
    """A visible document gives its chunks in order, with anchors."""
    found = (await ada.get(f"/v1/documents/{TRAVEL}")).json()
    assert [each["ordinal"] for each in found["chunks"]] == [0, 1, 2]
    assert datetime.fromisoformat(found["updated_at"]).tzinfo is not None


async def test_unknown_and_forbidden_documents_look_alike(make_client: MakeClient, home: Settings) -> None:
    """A document one may not see and one that does not exist give the same problem, but for the trace id."""
    ben = make_client(home, BEN)
    answers = [
        (await ben.get(f"/v1/documents/{document_id}")).json()
        for document_id in (SALARY, "00000000-0000-5000-8000-000000000000", "no-uuid")
    ]
    for each in answers:
        each.pop("trace_id")
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["status"] == 404


async def test_feedback_is_for_ones_own_answer(
    ada: httpx.AsyncClient, make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """A thumb on one's own answer is stored; on another's it is 404."""
    answer_id = (await ada.post("/v1/answer", json={"query": "receipts due"})).json()["answer_id"]
    thumb = {"answer_id": answer_id, "helpful": False, "comment": "out of date"}
    assert (await ada.post("/v1/feedback", json=thumb)).status_code == 204
    assert (await make_client(home, BEN).post("/v1/feedback", json=thumb)).status_code == 404
    assert service.thumbs == [(answer_id, False, "out of date")]
