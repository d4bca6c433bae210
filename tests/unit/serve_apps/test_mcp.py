"""MCP over HTTP: the tools as the SDK's own client sees them, permissions as over /v1, and every kind of bad message."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from mcp import MCPError

from cortex.errors import ChecksUnavailable, Corrupt
from cortex.evidence import Degraded
from cortex.settings import Settings
from serve_apps.http import make_app
from serve_apps.service import Backend
from tests.twins.agents import agent, said
from tests.twins.service import ADA, BEN, CLEO, LIBRARY, TwinDesk, TwinService
from tests.unit.serve_apps.conftest import MakeClient, token
from tests.unit.serve_apps.test_bad_requests import check
from tests.unit.serve_apps.test_metrics import value

TRAVEL, SALARY = LIBRARY[0], LIBRARY[1]
QUESTIONS = (
    "hotels in London",
    "salary band of a senior engineer",
    "why was the checkout slow",
    "領収書は三十日以内に提出してください",
    "xylophone",
)
LATEST = "2025-11-25"


@pytest.fixture
def app(home: Settings, service: TwinService) -> FastAPI:
    return make_app(Backend(service, TwinDesk()), home)


async def send(client: httpx.AsyncClient, method: str, params: Any = None, **headers: str) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    return await client.post("/mcp", json=body, headers={"mcp-protocol-version": LATEST, **headers})


async def call(client: httpx.AsyncClient, tool: str, arguments: Any) -> tuple[bool, Any]:
    """Call a tool; returns whether it failed, and what its text says."""
    response = await send(client, "tools/call", {"name": tool, "arguments": arguments})
    result = response.json()["result"]
    return result["isError"], json.loads(result["content"][0]["text"])


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_sdk_s_client_finds_three_tools(app: FastAPI, home: Settings, mode: str) -> None:
    """Whatever version of the protocol it speaks, a client lists the tools, described, and calls them."""
    async with agent(app, token(home, ADA), mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {name: tool.input_schema["required"] for name, tool in tools.items()} == {
            "search": ["query"],
            "fetch": ["id"],
            "ask": ["query"],
        }
        assert all(tool.description and tool.annotations.read_only_hint for tool in tools.values())
        taken = tools["search"].input_schema["properties"]
        assert set(taken) >= {"query", "limit", "collections"} and "pattern" not in str(taken)
        found = await client.call_tool("search", {"query": "hotels in London"})
        assert found.structured_content["results"][0]["title"] == TRAVEL.title


async def test_a_search_has_the_shape_that_hosts_expect(app: FastAPI, home: Settings) -> None:
    """Results have id, title, url and text; the same object is in the text and in the structured content; each is cited."""
    async with agent(app, token(home, ADA)) as client:
        found = await client.call_tool("search", {"query": "hotels in London", "limit": 1})
    (first,) = found.structured_content["results"]
    assert said(found) == found.structured_content
    assert (first["title"], first["text"]) == (TRAVEL.title, TRAVEL.chunks[1])
    assert first["url"] == "https://wiki.example.com/1#L13-L21"
    assert first["citation"] == {
        "source_type": "files",
        "collection": "handbook",
        "permalink": "https://wiki.example.com/1",
        "anchor": {"kind": "line", "start": 13, "end": 21, "label": "", "fragment": "L13-L21"},
        "byte_start": 0,
        "byte_end": len(TRAVEL.chunks[1].encode()),
        "author": "Noor",
        "updated_at": datetime(2026, 3, 4, 9, 30, tzinfo=UTC).isoformat().replace("+00:00", "Z"),
    }


@pytest.mark.parametrize("user", [ADA, BEN, CLEO])
@pytest.mark.parametrize("question", QUESTIONS)
async def test_everyone_finds_what_v1_search_shows_them(
    make_client: MakeClient, home: Settings, user: str, question: str
) -> None:
    """The same passages in the same order with the same support, for who may see a document and for who may not."""
    client = make_client(home, user)
    over_http = (await client.post("/v1/search", json={"query": question, "k": 4})).json()
    failed, found = await call(client, "search", {"query": question, "limit": 4})
    passages = [(each["number"], each["title"], each["text"]) for each in over_http["evidence"]]
    assert not failed
    assert [(each["number"], each["title"], each["text"]) for each in found["results"]] == passages
    assert (found["support"], found["degraded"]) == (over_http["support"], over_http["degraded"])
    assert (SALARY.title in str(found)) == (user == ADA and question == QUESTIONS[1])


async def test_filters_narrow_a_search(ada: httpx.AsyncClient) -> None:
    """Collections, kinds of source and dates narrow as they do over /v1; nothing found is said in words."""
    narrowed = {"query": "hotels", "collections": ["ops"], "updated_after": "2020-01-01T00:00:00"}
    failed, found = await call(ada, "search", narrowed)
    assert (failed, found["results"]) == (False, [])
    assert "Nothing was found" in found["notes"][0]


async def test_an_id_opens_its_document(app: FastAPI, home: Settings) -> None:
    """fetch takes the id of a result, or of a document, and gives the whole text with its place and metadata."""
    async with agent(app, token(home, ADA)) as client:
        found = await client.call_tool("search", {"query": "hotels in London"})
        passage_id = found.structured_content["results"][0]["id"]
        opened = said(await client.call_tool("fetch", {"id": passage_id}))
        whole = said(await client.call_tool("fetch", {"id": TRAVEL.document_id}))
    assert opened["id"] == passage_id
    assert opened["text"] == whole["text"] == "\n\n".join(TRAVEL.chunks)
    assert opened["url"] == "https://wiki.example.com/1#L13-L21"
    assert whole["url"] == "https://wiki.example.com/1"
    assert opened["metadata"]["collection"] == "handbook"
    assert opened["citation"]["anchor"]["fragment"] == "L1-L33"
    assert (opened["page"], opened["n_pages"], opened["next_id"]) == (1, 1, None)


async def test_a_long_document_comes_in_pages(make_client: MakeClient, home: Settings) -> None:
    """The page with the passage comes first; the others follow by their ids, whole, in order, and end on both sides."""
    client = make_client(home.model_copy(update={"fetch_page_chars": 100}), ADA)
    _, opened = await call(client, "fetch", {"id": f"{TRAVEL.document_id}:1"})
    assert (opened["text"], opened["page"], opened["n_pages"]) == (TRAVEL.chunks[1], 2, 3)
    _, before = await call(client, "fetch", {"id": opened["previous_id"]})
    _, after = await call(client, "fetch", {"id": opened["next_id"]})
    assert (before["text"], before["previous_id"]) == (TRAVEL.chunks[0], None)
    assert (after["text"], after["next_id"]) == (TRAVEL.chunks[2], None)
    _, shorter_now = await call(client, "fetch", {"id": f"{TRAVEL.document_id}:99"})
    assert shorter_now["text"] == TRAVEL.chunks[2]


async def test_forbidden_and_unknown_documents_are_alike(make_client: MakeClient, home: Settings) -> None:
    """Who may not see a document is told what anybody is told of one that does not exist, byte for byte."""
    ben = make_client(home, BEN)
    missing = [
        SALARY.document_id,
        f"{SALARY.document_id}:0",
        "6f0d9a54-0000-5000-8000-00000000dead",
        "nothing:x",
    ]
    answers = []
    for each in missing:
        failed, problem = await call(ben, "fetch", {"id": each})
        assert failed and problem.pop("trace_id")
        answers.append(problem)
    assert answers[0]["code"] == "document.not_found"
    assert answers == [answers[0]] * len(missing)


async def test_an_answer_is_cited_or_declined(app: FastAPI, home: Settings, service: TwinService) -> None:
    """ask cites passages that fetch opens and is recorded for its asker; an abstention is a result that says so."""
    async with agent(app, token(home, ADA)) as client:
        answered = said(await client.call_tool("ask", {"query": "when are receipts due"}))
        declined = await client.call_tool("ask", {"query": "xylophone"})
    assert "within 30 days" in answered["answer"] and answered["abstained"] is False
    assert answered["citations"][0]["url"] == "https://wiki.example.com/1#L25-L33"
    assert answered["citations"][0]["id"].startswith(TRAVEL.document_id)
    assert service.answers[answered["answer_id"]] == ADA
    assert not declined.is_error
    assert (said(declined)["abstained"], said(declined)["citations"]) == (True, [])
    assert "does not support an answer" in said(declined)["notes"][0]


async def test_degraded_parts_are_named(ada: httpx.AsyncClient, service: TwinService) -> None:
    """A part that did not work is named, as a value and in words."""
    service.degraded = (Degraded("dense", "lane.failed", "The meaning lane did not answer."),)
    for tool in ("search", "ask"):
        _, found = await call(ada, tool, {"query": "receipts due"})
        assert found["degraded"][0]["part"] == "dense"
        assert found["notes"] == ["Degraded, dense: The meaning lane did not answer."]


async def test_without_a_person_there_is_no_tool(
    make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """No token and senseless ones are 401 with a challenge, strangers and other scopes 403, removed people 401; from
    the first message on.
    """
    for method in ("initialize", "tools/list", "tools/call"):
        response = await send(make_client(home), method)
        check(response, 401, "token.missing")
        assert response.headers["www-authenticate"].startswith("Bearer")
        check(await send(make_client(home), method, authorization="Bearer x"), 401, "token.invalid")
        check(await send(make_client(home, "mallory@example.com"), method), 403, "user.unknown")
        check(await send(make_client(home, ADA, "operate"), method), 403, "scope.missing")
    service.removed = {ADA}
    check(await send(make_client(home, ADA), "tools/list"), 401, "user.removed")


async def test_another_site_s_page_is_refused(ada: httpx.AsyncClient) -> None:
    """A request that a page elsewhere caused is 403, with a token too."""
    check(await send(ada, "tools/list", origin="https://evil.example.com"), 403, "origin.foreign")
    assert (await send(ada, "tools/list", origin="http://127.0.0.1:8642")).status_code == 200


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("search", {}, "input.invalid"),
        ("search", {"query": "  "}, "input.invalid"),
        ("search", {"query": 7}, "input.invalid"),
        ("search", {"query": "a\x00b"}, "input.invalid"),
        ("search", {"query": "a", "limit": 0}, "input.invalid"),
        ("search", {"query": "a", "limit": 51}, "input.invalid"),
        ("search", {"query": "a", "limit": "confidential-words"}, "input.invalid"),
        ("search", {"query": "a", "collections": "confidential-words"}, "input.invalid"),
        ("search", {"query": "a", "updated_after": "confidential-words"}, "input.invalid"),
        ("search", {"query": "a", "surprise": "confidential-words"}, "input.invalid"),
        ("search", {"query": "a" * 501}, "query.too_large"),
        ("ask", {"query": "a", "limit": 3}, "input.invalid"),
        ("ask", {"query": "a" * 501}, "query.too_large"),
        ("fetch", {}, "input.invalid"),
        ("fetch", {"id": ["confidential-words"]}, "input.invalid"),
        ("fetch", {"id": "a" * 201}, "input.invalid"),
    ],
)
async def test_arguments_that_do_not_fit_are_a_result_to_learn_from(
    ada: httpx.AsyncClient, tool: str, arguments: Any, code: str
) -> None:
    """The model reads which argument breaks which rule, with a stable code; what it sent is not repeated."""
    failed, problem = await call(ada, tool, arguments)
    assert (failed, problem["code"]) == (True, code)
    assert problem["detail"] and problem["hint"] and problem["trace_id"]
    assert "confidential-words" not in json.dumps(problem)


async def test_an_unknown_tool_is_an_error_of_the_protocol(app: FastAPI, home: Settings) -> None:
    """Its code is JSON-RPC's for wrong parameters; its data is a problem with a code of ours."""
    async with agent(app, token(home, ADA)) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("delete_everything", {})
    assert caught.value.code == -32602
    assert (caught.value.data["code"], "search" in caught.value.data["hint"]) == ("tool.unknown", True)


@pytest.mark.parametrize(
    ("body", "rpc_code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"", -32700),
        (b"[" * 9_000, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":"\\ud800"}}', -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'"confidential-words"', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"confidential-words"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["confidential-words"]}', -32600),
    ],
)
async def test_what_is_no_message_is_refused(ada: httpx.AsyncClient, body: bytes, rpc_code: int) -> None:
    """Broken JSON, batches and malformed messages are 400 with a JSON-RPC error that repeats nothing."""
    response = await ada.post("/mcp", content=body, headers={"content-type": "application/json"})
    answer = response.json()
    assert (response.status_code, answer["id"], answer["error"]["code"]) == (400, None, rpc_code)
    assert answer["error"]["data"]["code"] == "body.malformed"
    assert "confidential-words" not in response.text


@pytest.mark.parametrize(
    ("method", "params", "rpc_code"),
    [
        ("tools/destroy", {}, -32601),
        ("resources/list", {}, -32601),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": 7}, -32602),
        ("tools/call", {"name": "search", "arguments": ["confidential-words"]}, -32602),
        ("initialize", {"protocolVersion": 7}, -32602),
    ],
)
async def test_requests_that_cannot_be_served_are_errors(
    ada: httpx.AsyncClient, method: str, params: Any, rpc_code: int
) -> None:
    """Unknown methods and malformed parameters have JSON-RPC's codes and repeat nothing."""
    response = await send(ada, method, params)
    assert response.json()["error"]["code"] == rpc_code
    assert "confidential-words" not in response.text


@pytest.mark.parametrize("version", ["1999-01-01", "latest", "2026-07-28", "9" * 2_000])
async def test_a_wrong_protocol_version_is_refused(ada: httpx.AsyncClient, version: str) -> None:
    """A version that is unknown, or that asks for more than the message has, is 400 with a JSON-RPC error."""
    response = await send(ada, "tools/list", **{"mcp-protocol-version": version})
    assert response.status_code == 400
    assert response.json()["error"]["code"] in (-32602, -32020, -32022)


async def test_there_is_nothing_to_subscribe_to(ada: httpx.AsyncClient) -> None:
    """A client that would listen is told so at once, and does not hang."""
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {}}
    response = await asyncio.wait_for(
        send(
            ada,
            "subscriptions/listen",
            {"_meta": meta, "notifications": {}},
            **{"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"},
        ),
        timeout=5,
    )
    assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


async def test_initialize_offers_a_version_that_is_known(ada: httpx.AsyncClient) -> None:
    """A client that asks for a version of its own is offered the newest one of the handshake."""
    asked = {"protocolVersion": "1999-01-01", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    response = await ada.post(
        "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
    )
    result = response.json()["result"]
    assert (result["protocolVersion"], result["serverInfo"]["name"]) == (LATEST, "cortex")
    assert "mcp-session-id" not in response.headers


async def test_bodies_are_limited_and_must_be_json(ada: httpx.AsyncClient) -> None:
    """A body beyond the limit is 413; one that a plain form could send is refused."""
    check(await send(ada, "tools/list", {"cursor": "a" * 20_000}), 413, "body.too_large")
    check(
        await ada.post("/mcp", content=b"{}", headers={"content-type": "text/plain"}), 400, "body.malformed"
    )


async def test_there_are_no_sessions_to_take_over(make_client: MakeClient, home: Settings) -> None:
    """Somebody else's session id opens nothing: each message is its own token's, and there is nothing to listen to or end."""
    ada, ben = make_client(home, ADA), make_client(home, BEN)
    question = {"name": "search", "arguments": {"query": QUESTIONS[1]}}
    for client, sees in ((ada, True), (ben, False), (ada, True)):
        response = await send(client, "tools/call", question, **{"mcp-session-id": "of-ada"})
        assert (SALARY.title in response.text) == sees
    for method in ("GET", "DELETE"):
        response = await ada.request(method, "/mcp", headers={"accept": "text/event-stream"})
        check(response, 405, "method.unknown")
        assert response.headers["allow"] == "POST"


async def test_notifications_are_taken(ada: httpx.AsyncClient) -> None:
    """A message that wants no answer is 202 and changes nothing."""
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    response = await ada.post("/mcp", json=body)
    assert (response.status_code, response.content) == (202, b"")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("select * from secrets"), "server.unexpected"),
        (Corrupt("row of ada@example.com"), "data.corrupt"),
        (ChecksUnavailable("permissions cannot be checked"), "permissions.unavailable"),
    ],
)
async def test_faults_of_the_server_keep_their_details(
    ada: httpx.AsyncClient, service: TwinService, error: Exception, code: str
) -> None:
    """A tool that fails says so with a code and a remedy, and nothing of what only the log may know."""

    async def broken(*_: object) -> None:
        raise error

    service.search = service.document = broken  # type: ignore[method-assign, assignment]
    for tool, arguments in (("search", {"query": "a"}), ("fetch", {"id": "a"})):
        failed, problem = await call(ada, tool, arguments)
        assert (failed, problem["code"]) == (True, code)
        assert not any(word in json.dumps(problem) for word in ("select", "ada@", "Traceback", ".py"))


async def test_a_slow_search_is_given_up(ada: httpx.AsyncClient, service: TwinService) -> None:
    """A search past its time limit ends with the code of a time-out."""
    service.search_delay_s = 5
    for tool in ("search", "ask"):
        failed, problem = await call(ada, tool, {"query": "a"})
        assert (failed, problem["code"]) == (True, "step.timed_out")


async def test_too_many_messages_at_once_are_told_to_wait(
    make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """Agents share the limit of concurrent questions: beyond it, 429 with Retry-After."""
    service.search_delay_s = 0.05
    client = make_client(home.model_copy(update={"max_concurrent_requests": 2}), ADA)
    question = {"name": "search", "arguments": {"query": "hotels"}}
    responses = await asyncio.gather(*(send(client, "tools/call", question) for _ in range(3)))
    assert sorted(each.status_code for each in responses) == [200, 200, 429]
    busy = next(each for each in responses if each.status_code == 429)
    check(busy, 429, "service.busy")
    assert busy.headers["retry-after"] == "1"


async def test_a_client_that_leaves_stops_the_work(
    app: FastAPI, home: Settings, service: TwinService
) -> None:
    """When the client disconnects, the answer that was being made for it is cancelled."""
    service.token_delay_s = 0.02
    gone, started, search = asyncio.Event(), asyncio.Event(), service.search

    async def noticed(*asked: Any) -> Any:
        started.set()
        return await search(*asked)

    service.search = noticed  # type: ignore[method-assign]
    body = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ask", "arguments": {"query": "receipts due"}}}
    ).encode()  # fmt: skip
    inbox = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if inbox:
            return inbox.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def nothing(message: dict[str, Any]) -> None:
        raise AssertionError(f"nobody is there for {message['type']}")

    headers = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "accept": "application/json",
        "authorization": f"Bearer {token(home, ADA)}",
    }
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/mcp", "raw_path": b"/mcp", "query_string": b"", "state": {},
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    asking = asyncio.create_task(app(scope, receive, nothing))  # type: ignore[arg-type]
    await asyncio.wait_for(started.wait(), timeout=5)
    await asyncio.sleep(0.03)
    gone.set()
    await asyncio.wait_for(asking, timeout=2)
    assert service.n_cancelled == 1


async def test_tool_calls_are_counted_and_traced(ada: httpx.AsyncClient) -> None:
    """Metrics know each tool and how it ended; the trace id of a result is that of its response."""
    response = await send(ada, "tools/call", {"name": "search", "arguments": {"query": "hotels"}})
    assert response.json()["result"]["structuredContent"]["trace_id"] == response.headers["x-trace-id"]
    await call(ada, "fetch", {"id": "nothing"})
    text = (await ada.get("/metrics")).text
    assert value(text, "cortex_tool_calls_total", code="ok", tool="search") == 1
    assert value(text, "cortex_tool_calls_total", code="document.not_found", tool="fetch") == 1
    assert value(text, "cortex_errors_total", route="/mcp", code="document.not_found") == 1
    assert value(text, "cortex_step_duration_seconds_count", step="search") == 1
