"""Deliveries over HTTP: believed by signature alone, bounded in size and time, and refused alike."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping

import httpx

from clients.slack.ingress import MAX_BODY_BYTES, PATH
from tests.unit.clients.slack.conftest import Bot, mention, signed

JSON = {"content-type": "application/json"}


async def post(bot: Bot, content: bytes, headers: Mapping[str, str]) -> httpx.Response:
    response = await bot.ingress.post(PATH, content=content, headers={**JSON, **headers})
    await asyncio.sleep(0.02)
    await bot.desk.drain(5.0)
    return response


def body() -> bytes:
    return json.dumps(mention()).encode()


def forged(content: bytes) -> list[dict[str, str]]:
    """Headers that do not prove a delivery."""
    good = signed(content)
    sent_at, signature = "x-slack-request-timestamp", "x-slack-signature"
    return [
        {},
        signed(content, secret="another"),
        signed(content + b" "),
        signed(content, age_s=301),
        signed(content, age_s=-310),
        {**good, sent_at: str(int(good[sent_at]) + 1)},
        {sent_at: good[sent_at]},
        {signature: good[signature]},
        {**good, signature: ""},
        {**good, signature: good[signature].removeprefix("v0=")},
        {**good, sent_at: ""},
        {**good, sent_at: "soon"},
        {**good, sent_at: "-5"},
        {**good, sent_at: "9" * 5_000},
    ]


async def test_what_is_not_signed_by_slack_is_refused_alike(bot: Bot) -> None:
    """Unsigned, forged, altered, late and early deliveries get the same answer, and nobody is asked anything."""
    content = body()
    answers = [await post(bot, content, headers) for headers in forged(content)]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, '{"error":"refused"}')}
    non_ascii = {**signed(content), "x-slack-signature": "v0=é".encode()}
    response = await bot.ingress.post(PATH, content=content, headers=list(non_ascii.items()))  # type: ignore[arg-type]
    assert response.status_code == 401
    assert (bot.workspace.posted, bot.service.asked) == ([], [])


async def test_a_signed_delivery_is_taken_and_a_replay_changes_nothing(bot: Bot) -> None:
    """The very same bytes and signature again, within the five minutes, are acknowledged and answered no second time."""
    content = body()
    headers = signed(content, age_s=200)
    assert [(await post(bot, content, headers)).status_code for _ in range(3)] == [200] * 3
    assert len(bot.workspace.posted) == 1


async def test_a_body_over_the_limit_is_refused_unread(bot: Bot) -> None:
    """Signed or not, announced or in pieces, no more than the limit is read."""
    n_read = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal n_read
        for _ in range(100):
            n_read += 100_000
            yield b"a" * 100_000

    large = b"a" * (MAX_BODY_BYTES + 1)
    assert (await post(bot, large, signed(large))).status_code == 413
    response = await bot.ingress.post(PATH, content=pieces(), headers=JSON)
    assert (response.status_code, response.text) == (413, '{"error":"refused"}')
    assert n_read <= MAX_BODY_BYTES + 200_000


async def test_a_body_that_trickles_is_given_up(bot: Bot) -> None:
    """A sender that holds a delivery open is cut off at the time limit."""

    async def slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(2)

    started = time.monotonic()
    response = await bot.ingress.post(PATH, content=slowly(), headers=JSON)
    assert response.status_code == 504
    assert time.monotonic() - started < 3


async def test_other_bytes_than_text_are_refused(bot: Bot) -> None:
    """Bytes that are no UTF-8 are refused before anything looks at them, and what is no JSON object is no delivery."""
    bad = {b"\xff\xfe": 401, b"[" * 9_000: 400, b"[]": 400, b"null": 400, b"{": 400, b"": 400}
    for content, status in bad.items():
        assert (await post(bot, content, signed(content))).status_code == status
    form = {"content-type": "application/x-www-form-urlencoded"}
    for content in (b"payload=%7B", b"payload=" + b"[" * 9_000):
        assert (await post(bot, content, {**signed(content), **form})).status_code == 400
    assert (await post(bot, b'{"type": "x"}', signed(b'{"type": "x"}'))).status_code < 500
    assert bot.workspace.posted == []


async def test_the_address_is_verified_by_its_challenge(bot: Bot) -> None:
    """Slack's test of the address is answered if it is signed, and only then."""
    content = json.dumps({"type": "url_verification", "challenge": "3eZbrw1aB", "token": ""}).encode()
    response = await post(bot, content, signed(content))
    assert (response.status_code, "3eZbrw1aB" in response.text) == (200, True)
    refused = await post(bot, content, {})
    assert (refused.status_code, "3eZbrw1aB" in refused.text) == (401, False)


async def test_other_addresses_and_methods_do_nothing(bot: Bot) -> None:
    """There is one address, for POST, and one that says the process lives."""
    assert (await bot.ingress.get(PATH)).status_code == 405
    assert (await bot.ingress.post("/", content=b"")).status_code == 404
    assert (await bot.ingress.get("/healthz")).json() == {"status": "alive"}
