"""Every bad request gets a problem document with a code and a remedy, and nothing else leaks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cortex.errors import ChecksUnavailable, Corrupt
from cortex.settings import Settings
from tests.twins.service import ADA, TwinService
from tests.unit.serve_apps.conftest import MakeClient, token

SEARCH = "/v1/search"


def check(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Assert that a response is a whole problem document."""
    found: dict[str, Any] = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.status_code, found["status"], found["code"]) == (status, status, code)
    assert found["type"] == f"/docs#{code}"
    assert found["trace_id"] == response.headers["x-trace-id"]
    assert all(found[name] for name in ("title", "detail", "remedy"))
    return found


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "body.malformed"),
        (b"\xff\xfe", 400, "body.malformed"),
        (b"[" * 9_000, 400, "body.malformed"),
        (b"", 400, "input.invalid"),
        (b"[]", 400, "input.invalid"),
        (b"{}", 400, "input.invalid"),
        (b'{"query": ""}', 400, "input.invalid"),
        (b'{"query": "   "}', 400, "input.invalid"),
        (b'{"query": 7}', 400, "input.invalid"),
        (b'{"query": "a\\u0000b"}', 400, "input.invalid"),
        (b'{"query": "\\ud800"}', 400, "input.invalid"),
        (b'{"query": "a", "k": 0}', 400, "input.invalid"),
        (b'{"query": "a", "k": NaN}', 400, "input.invalid"),
        (b'{"query": "a", "k": 1e999}', 400, "input.invalid"),
        (b'{"query": "a", "lanes": []}', 400, "input.invalid"),
        (b'{"query": "a", "lanes": ["visual"]}', 400, "input.invalid"),
        (b'{"query": "a", "surprise": 1}', 400, "input.invalid"),
        (b'{"query": "a", "updated_after": "yesterday"}', 400, "input.invalid"),
        (json.dumps({"query": "a" * 501}).encode(), 413, "query.too_large"),
        (json.dumps({"query": "a" * 20_000}).encode(), 413, "body.too_large"),
    ],
)
async def test_an_unusable_body_is_a_problem(
    ada: httpx.AsyncClient, body: bytes, status: int, code: str
) -> None:
    """Malformed, mistyped, unknown and oversized bodies are 400 or 413 with a code."""
    response = await ada.post(SEARCH, content=body, headers={"content-type": "application/json"})
    check(response, status, code)


async def test_a_question_beyond_the_contract_is_too_large(make_client: MakeClient, home: Settings) -> None:
    """A question above the contract's own bound is 413, too, not a validation error."""
    client = make_client(home.model_copy(update={"max_body_bytes": 1_000_000}), ADA)
    check(await client.post(SEARCH, json={"query": "a" * 200_000}), 413, "query.too_large")


async def test_a_problem_never_repeats_what_was_sent(ada: httpx.AsyncClient) -> None:
    """The value that broke a rule is not echoed."""
    response = await ada.post(SEARCH, json={"query": "a", "k": "confidential-words"})
    assert "confidential-words" not in response.text


async def test_a_body_of_another_type_is_a_problem(ada: httpx.AsyncClient) -> None:
    """A form is not taken for JSON, so a plain HTML form of another site cannot ask."""
    response = await ada.post(SEARCH, content=b'{"query": "a"}', headers={"content-type": "text/plain"})
    check(response, 400, "input.invalid")


async def test_a_chunked_body_cannot_pass_the_limit(ada: httpx.AsyncClient) -> None:
    """A body without Content-Length is counted as it comes and refused before it is read to its end."""
    n_sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal n_sent
        for _ in range(1_000):
            n_sent += 1
            yield b" " * 4_000

    response = await ada.post(SEARCH, content=endless(), headers={"content-type": "application/json"})
    check(response, 413, "body.too_large")
    assert n_sent < 10


@pytest.mark.parametrize("length", ["-1", "ten", "1e9", "٣"])
async def test_a_senseless_length_is_a_problem(ada: httpx.AsyncClient, length: str) -> None:
    """A Content-Length that is no number is refused."""
    headers = {"content-type": "application/json", "content-length": length.encode()}
    check(await ada.post(SEARCH, content=b"{}", headers=headers), 400, "body.malformed")  # type: ignore[arg-type]


async def test_unknown_addresses_and_methods_are_problems(ada: httpx.AsyncClient) -> None:
    """404 and 405 are problem documents like the rest; 405 says what is allowed."""
    check(await ada.get("/v1/nothing"), 404, "route.unknown")
    response = await ada.get(SEARCH)
    check(response, 405, "method.unknown")
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("", "token.missing"),
        ("Basic YTpi", "token.invalid"),
        ("Bearer", "token.invalid"),
        ("Bearer not.a.token", "token.invalid"),
        ("Bearer " + "a" * 5_000, "token.invalid"),
    ],
)
async def test_without_a_valid_token_nothing_is_shown(
    make_client: MakeClient, home: Settings, authorization: str, code: str
) -> None:
    """No token and senseless tokens are 401 with a challenge."""
    headers = {"authorization": authorization} if authorization else {}
    response = await make_client(home).post(SEARCH, json={"query": "a"}, headers=headers)
    check(response, 401, code)
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_forged_tokens_are_refused(make_client: MakeClient, home: Settings) -> None:
    """A token signed by another key, by no key, for another audience or past its time is 401."""
    good = token(home, ADA)
    claims = jwt.decode(good, options={"verify_signature": False})
    kid = {"kid": "cortex-local"}
    foreign = jwt.encode(claims, Ed25519PrivateKey.generate(), algorithm="EdDSA", headers=kid)
    unsigned = jwt.encode(claims, None, algorithm="none", headers=kid)  # type: ignore[arg-type]
    confused = jwt.encode(claims, "a-secret-of-thirty-two-bytes-....", algorithm="HS256", headers=kid)
    tampered = good[:-6] + "AAAAAA"
    client = make_client(home)
    for forged in (foreign, unsigned, confused, tampered):
        response = await client.post(
            SEARCH, json={"query": "a"}, headers={"authorization": f"Bearer {forged}"}
        )
        check(response, 401, "token.invalid")
    late = token(home, ADA, ttl_s=-60)
    response = await client.post(SEARCH, json={"query": "a"}, headers={"authorization": f"Bearer {late}"})
    check(response, 401, "token.expired")


async def test_unknown_users_and_missing_scopes_are_forbidden(
    make_client: MakeClient, home: Settings
) -> None:
    """A signed token of a person who is not registered, or without the scope, is 403."""
    stranger = make_client(home, "mallory@example.com")
    check(await stranger.post(SEARCH, json={"query": "a"}), 403, "user.unknown")
    check(await make_client(home, ADA, "operate").post(SEARCH, json={"query": "a"}), 403, "scope.missing")
    check(await make_client(home, ADA).get("/v1/sources"), 403, "scope.missing")


async def test_checks_that_fail_close_the_door(ada: httpx.AsyncClient, service: TwinService) -> None:
    """Without permission checks there is no answer: 503 with Retry-After, as JSON and before a stream begins."""

    async def closed(*_: object) -> None:
        raise ChecksUnavailable("permissions cannot be checked", hint="try again shortly")

    service.admit = closed  # type: ignore[method-assign]
    for path, body in ((SEARCH, {"query": "a"}), ("/v1/answer", {"query": "a", "stream": True})):
        response = await ada.post(path, json=body)
        assert check(response, 503, "permissions.unavailable")["remedy"] == "retry-after"
        assert int(response.headers["retry-after"]) > 0


async def test_a_slow_search_is_given_up(ada: httpx.AsyncClient, service: TwinService) -> None:
    """A search past its time limit is cancelled and answered with 504."""
    service.search_delay_s = 5
    check(await ada.post(SEARCH, json={"query": "a"}), 504, "step.timed_out")
    check(await ada.post("/v1/answer", json={"query": "a", "stream": True}), 504, "step.timed_out")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RuntimeError("select * from secrets"), "server.unexpected"),
        (Corrupt("row of ada@example.com"), "data.corrupt"),
    ],
)
async def test_faults_of_the_server_keep_their_details(
    ada: httpx.AsyncClient,
    service: TwinService,
    error: Exception,
    code: str,
) -> None:
    """An unforeseen error is 500 without message, trace or names."""

    async def broken(*_: object) -> None:
        raise error

    service.admit = broken  # type: ignore[method-assign]
    response = await ada.post(SEARCH, json={"query": "a"})
    check(response, 500, code)
    assert not any(word in response.text for word in ("select", "ada@", "Traceback", ".py"))


async def test_too_many_questions_at_once_are_told_to_wait(
    make_client: MakeClient, home: Settings, service: TwinService
) -> None:
    """Beyond the limit of concurrent questions the next one is 429 with Retry-After; the others are answered."""
    service.search_delay_s = 0.05
    client = make_client(home.model_copy(update={"max_concurrent_requests": 2}), ADA)
    responses = await asyncio.gather(*(client.post(SEARCH, json={"query": "hotels"}) for _ in range(3)))
    assert sorted(each.status_code for each in responses) == [200, 200, 429]
    busy = next(each for each in responses if each.status_code == 429)
    check(busy, 429, "service.busy")
    assert busy.headers["retry-after"] == "1"
    assert (await client.post(SEARCH, json={"query": "hotels"})).status_code == 200
