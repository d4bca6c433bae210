"""The outermost ring: headers, hosts, traces, events, health, metrics, the OpenAPI document and the page's files."""

from __future__ import annotations

import json
import logging

import httpx
import pytest
from pydantic import SecretStr

from cortex.errors import Unavailable
from cortex.evidence import Degraded
from cortex.settings import Settings
from cortex.telemetry import setup_logging
from tests.twins.service import ADA, TwinService
from tests.unit.serve_apps.conftest import MakeClient
from tests.unit.serve_apps.test_bad_requests import check
from tests.unit.serve_apps.test_metrics import value

PATHS = {
    "/v1/search": {"post"},
    "/v1/answer": {"post"},
    "/v1/documents/{document_id}": {"get"},
    "/v1/feedback": {"post"},
    "/v1/session": {"get", "post", "delete"},
    "/v1/sources": {"get", "post"},
    "/v1/sources/{source_id}/events": {"post"},
    "/mcp": {"post"},
    "/healthz": {"get"},
    "/readyz": {"get"},
    "/metrics": {"get"},
}


@pytest.mark.parametrize("path", ["/healthz", "/v1/nothing", "/v1/sources", "/openapi.json"])
async def test_every_response_carries_the_security_headers(ada: httpx.AsyncClient, path: str) -> None:
    """Pages load nothing from elsewhere, cannot be framed, sniffed or leak their address; errors included."""
    headers = (await ada.get(path)).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert len(headers["x-trace-id"]) == 32


@pytest.mark.parametrize(
    "host", ["evil.example.com", "127.0.0.1.evil.example.com:8642", "", "[::1", "10.0.0.1"]
)
async def test_on_loopback_other_host_names_are_refused(ada: httpx.AsyncClient, host: str) -> None:
    """A page elsewhere that rebinds its name to this machine reaches nothing."""
    check(await ada.get("/healthz", headers={"host": host}), 400, "host.unknown")


@pytest.mark.parametrize("host", ["localhost", "localhost:8642", "127.0.0.1:1", "[::1]:8642", "LOCALHOST"])
async def test_loopback_names_are_answered(ada: httpx.AsyncClient, host: str) -> None:
    """Every name of this machine works, with any port."""
    assert (await ada.get("/healthz", headers={"host": host})).status_code == 200


async def test_an_incoming_trace_is_continued(ada: httpx.AsyncClient) -> None:
    """A W3C traceparent gives the trace id of the answer; a broken one is replaced."""
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    response = await ada.post("/v1/search", json={"query": "hotels"}, headers=headers)
    assert response.json()["trace_id"] == response.headers["x-trace-id"] == trace_id
    broken = await ada.get("/healthz", headers={"traceparent": "00-zz-1-01"})
    assert int(broken.headers["x-trace-id"], 16) > 0


async def test_one_event_is_logged_per_request(
    ada: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """The event names route, status and time; neither question nor person nor token nor document id is in it."""
    setup_logging("info")
    await ada.post("/v1/search", json={"query": "hotels in London"})
    await ada.get("/v1/documents/6f0d9a54-0000-5000-8000-000000000001")
    logging.getLogger("cortex").handlers.clear()
    text = capsys.readouterr().err
    logged = [json.loads(line) for line in text.splitlines()]
    assert [each["route"] for each in logged] == ["/v1/search", "/v1/documents/{document_id}"]
    assert {each["event"] for each in logged} == {"request.finish"}
    assert {"status", "duration_ms", "trace_id", "n_bytes"} <= set(logged[0])
    assert not any(word in text for word in ("London", "ada@", "eyJ", "6f0d9a54"))


async def test_the_event_of_a_question_says_what_came_of_it(
    make_client: MakeClient, home: Settings, service: TwinService, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps, hits, mode, time to the first word, what was degraded, and the code of an error behind a sent status."""
    client = make_client(home, ADA)
    service.degraded = (Degraded("dense", "lane.failed", "London is down"),)
    setup_logging("info")
    await client.post("/v1/answer", json={"query": "hotels in London"})
    service.fail_with = Unavailable("London", code="generator.broken_off")
    await client.post("/v1/answer", json={"query": "hotels in London", "stream": True})
    await client.get("/v1/nothing")
    await client.request("LONDON", "/v1/search")
    logging.getLogger("cortex").handlers.clear()
    text = capsys.readouterr().err
    whole, broken, unknown, strange = [json.loads(line) for line in text.splitlines()]
    assert whole["steps_ms"] == {"permit": 1.2, "search": 4.0, "recheck": 3.1, "total": 9.0}
    assert (whole["mode"], whole["degraded"]) == ("extractive", ["dense:lane.failed"])
    assert whole["n_hits"] > 0 and whole["first_token_ms"] >= 0 and "code" not in whole
    assert (broken["status"], broken["code"]) == (200, "generator.broken_off")
    assert (unknown["route"], unknown["status"], unknown["code"]) == ("unmatched", 404, "route.unknown")
    assert (strange["method"], strange["code"]) == ("_OTHER", "method.unknown")
    assert "London" not in text and "LONDON" not in text


async def test_readiness_is_a_query_and_names_what_fails(
    ada: httpx.AsyncClient, service: TwinService
) -> None:
    """Ready when the query passes; 503 with the part's own code when it does not; alive in both cases."""
    assert (await ada.get("/readyz")).json() == {"status": "ready"}
    service.not_ready = Unavailable("the index does not answer", code="index.unavailable")
    client = httpx.AsyncClient(transport=ada._transport, base_url=ada.base_url)
    async with client:
        assert (await client.get("/healthz")).status_code == 200


async def test_a_failing_part_makes_it_unready(
    make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """The problem says which part is down and when to try again."""
    service.not_ready = Unavailable("the index does not answer", code="index.unavailable")
    response = await make_client(home).get("/readyz")
    check(response, 503, "index.unavailable")
    assert "retry-after" in response.headers


async def test_metrics_are_for_this_machine_or_a_token(make_client: MakeClient, home: Settings) -> None:
    """Loopback may scrape; others, and whoever a proxy speaks for, need the token."""
    local, remote = make_client(home, ADA), make_client(home, peer="10.1.2.3")
    await local.post("/v1/search", json={"query": "hotels"})
    text = (await local.get("/metrics", headers={"authorization": ""})).text
    assert value(text, "cortex_http_requests_total", route="/v1/search", method="POST", status="200") == 1
    check(await remote.get("/metrics"), 403, "access.forbidden")
    check(await remote.get("/metrics", headers={"x-forwarded-for": "127.0.0.1"}), 403, "access.forbidden")
    check(await local.get("/metrics", headers={"x-forwarded-for": "10.1.2.3"}), 403, "access.forbidden")
    guarded = make_client(home.model_copy(update={"metrics_token": SecretStr("t0ken")}), peer="10.1.2.3")
    check(await guarded.get("/metrics", headers={"authorization": "Bearer wrong"}), 403, "access.forbidden")
    assert (await guarded.get("/metrics", headers={"authorization": "Bearer t0ken"})).status_code == 200


async def test_the_openapi_document_names_every_address(ada: httpx.AsyncClient) -> None:
    """Each address has its methods, says how to authenticate, and describes errors as problem documents."""
    document = (await ada.get("/openapi.json")).json()
    assert {path: set(methods) for path, methods in document["paths"].items()} == PATHS
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert "application/problem+json" in operation["responses"]["default"]["content"]
            assert "422" not in operation["responses"]
            is_signed_itself = path.endswith("/events")  # a push is proved by its source's own signature
            assert ("security" in operation) == (path.startswith(("/v1/", "/mcp")) and not is_signed_itself)
    assert set(document["components"]["securitySchemes"]) == {"token", "session"}
    assert "text/event-stream" in document["paths"]["/v1/answer"]["post"]["responses"]["200"]["content"]


@pytest.mark.parametrize(
    "path", ["/web/../serve_apps/http.py", "/web/%2e%2e/http.py", "/web/nothing.js", "/web/"]
)
async def test_only_the_pages_own_files_are_served(ada: httpx.AsyncClient, path: str) -> None:
    """No path leads out of the page's folder."""
    check(await ada.get(path), 404, "route.unknown")


async def test_operators_add_a_folder_and_watch_it(make_client: MakeClient, home: Settings) -> None:
    """A folder is accepted with its first run; later looks show progress and what failed, with the reason."""
    operator = make_client(home, ADA, "search operate")
    response = await operator.post("/v1/sources", json={"path": "/srv/notes", "collection": "notes"})
    assert (response.status_code, response.json()["run"]["status"]) == (202, "running")
    for _ in range(4):
        (source,) = (await operator.get("/v1/sources")).json()["sources"]
    assert source["run"]["status"] == "succeeded"
    assert source["run"]["failures"][0]["code"] == "document.encrypted"
    check(await operator.post("/v1/sources", json={"path": "notes"}), 400, "folder.relative")
    bad = await operator.post("/v1/sources", json={"path": "/srv", "collection": "a/b"})
    check(bad, 400, "input.invalid")
