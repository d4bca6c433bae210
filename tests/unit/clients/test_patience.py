"""Calls that are made again: against a server on a real socket that loses what it held, is full, or breaks off."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from clients import patience
from clients.cli.calls import Caller
from clients.mcp.stdio import Upstream
from clients.patience import ATTEMPTS, Patience
from clients.slack.asking import Cortex
from cortex.errors import Busy, CortexError, TimedOut, Unavailable
from cortex.settings import Settings
from tests.twins.service import ADA

LOST = b""  # the connection ends without a word
BARE = b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nsorry"
EVENT = b'event: token\ndata: {"text": "The "}\n\n'
BROKEN_OFF = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n"
    % (
        len(EVENT),
        EVENT,
    )
)


def reply(status: int, document: dict[str, Any], **headers: str) -> bytes:
    """One whole response; errors are problem documents."""
    body = json.dumps(document).encode()
    kind = "application/problem+json" if status >= 400 else "application/json"
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def refusal(status: int, **headers: str) -> bytes:
    return reply(status, {"status": status, "code": "x.y", "detail": "no"}, **headers)


FOUND = reply(200, {"found": True})


@dataclass(slots=True)
class Scripted:
    """A server that gives one scripted reply per request, and ends the connection after it."""

    url: str
    replies: list[bytes]
    n_asked: int = 0
    _threads: list[threading.Thread] = field(default_factory=list)

    def answer(self, listener: socket.socket) -> None:
        """Answer until the listener is closed; past the script, as its last line says."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                _read_request(connection)
                said = self.replies[min(self.n_asked, len(self.replies) - 1)]
                # Said, so that no client sends its next request into a connection that is about to end.
                said = said.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
                self.n_asked += 1  # before the caller can look
                connection.sendall(said)


def _read_request(connection: socket.socket) -> None:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65_536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.lower().splitlines()
            if line.startswith(b"content-length")
        ),
        0,
    )
    while len(body) < length:
        body += connection.recv(65_536)


@contextmanager
def scripted(*replies: bytes) -> Iterator[Scripted]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Scripted(f"http://127.0.0.1:{listener.getsockname()[1]}", list(replies))
        thread = threading.Thread(target=server.answer, args=(listener,), daemon=True)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=5)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of a hundredth of a second, where no server asks for others."""
    monkeypatch.setattr(patience, "_FIRST_PAUSE_S", 0.01)


def at(home: Path, server: Scripted) -> Settings:
    return Settings(home=home, http_url=server.url, slack_service_token=SecretStr("t"))


async def ask(door: str, given: Settings) -> Any:
    """Ask through one of the doors that share the rule."""
    match door:
        case "cli":
            with Caller(given, ADA) as caller:
                return caller.call("/v1/search", {"query": "a"})
        case "mcp":
            async with Upstream(given, ADA) as upstream:
                return await upstream.call("tools/call", {"name": "search"})
        case _:
            bot = Cortex(given)
            try:
                return await bot.rate(ADA, "a", is_helpful=True)
            finally:
                await bot.close()


@pytest.mark.parametrize("door", ["cli", "mcp", "slack"])
@pytest.mark.parametrize(
    "met", [(LOST,), (BARE,), (refusal(429, retry_after="0"), LOST), (refusal(503, retry_after="0"),)]
)
async def test_what_a_lost_replica_held_is_asked_again(
    door: str, met: tuple[bytes, ...], tmp_path: Path
) -> None:
    """A connection that ends without a word, a bare 500 of the server in front, a full queue: the next call is answered."""
    found = reply(200, {"jsonrpc": "2.0", "id": 1, "result": {"found": True}, "found": True})
    with scripted(*met, found) as server:
        await ask(door, at(tmp_path, server))
        assert server.n_asked == len(met) + 1


@pytest.mark.parametrize("door", ["cli", "mcp", "slack"])
async def test_nobody_waits_for_what_was_never_loaded(door: str, tmp_path: Path) -> None:
    """That nothing is loaded is the last word at once: no pause loads it."""
    missing = reply(503, {"status": 503, "code": "index.missing", "detail": "there is no vector index yet"})
    with scripted(missing) as server:
        with pytest.raises(Unavailable):
            await ask(door, at(tmp_path, server))
        assert server.n_asked == 1


@pytest.mark.parametrize("door", ["cli", "mcp", "slack"])
@pytest.mark.parametrize(("met", "kind"), [(LOST, Unavailable), (refusal(429, retry_after="0"), Busy)])
async def test_asking_again_ends(door: str, met: bytes, kind: type[CortexError], tmp_path: Path) -> None:
    """After so many attempts the last outcome is the error."""
    with scripted(met) as server, pytest.raises(kind):
        await ask(door, at(tmp_path, server))
    assert server.n_asked == ATTEMPTS


@pytest.mark.parametrize("met", [refusal(404), refusal(400), refusal(500), refusal(504), refusal(403)])
async def test_a_last_word_is_taken_as_such(met: bytes, tmp_path: Path) -> None:
    """What Cortex itself says about a request is said once, faults of its own included."""
    with scripted(met, FOUND) as server, pytest.raises(CortexError):
        await ask("cli", at(tmp_path, server))
    assert server.n_asked == 1


async def test_an_hour_is_not_waited(tmp_path: Path) -> None:
    """A server that names a pause beyond the limit is taken at its word, and the caller told at once."""
    with scripted(refusal(503, retry_after="3600"), FOUND) as server, pytest.raises(Unavailable):
        await ask("cli", at(tmp_path, server))
    assert server.n_asked == 1


def test_a_stream_that_broke_off_is_not_begun_again(tmp_path: Path) -> None:
    """Its first words were shown: the reader gets an error, not the same words twice."""
    seen = []
    with (
        scripted(BROKEN_OFF, FOUND) as server,
        pytest.raises(Unavailable) as caught,
        Caller(at(tmp_path, server), ADA) as caller,
    ):
        for each in caller.stream("/v1/answer", {"query": "a"}):
            seen.append(each)
    assert (seen, server.n_asked) == ([("token", {"text": "The "})], 1)
    assert caught.value.error_code == "server.interrupted"


def test_a_stream_that_was_not_begun_is_asked_for_again(tmp_path: Path) -> None:
    """Lost, then refused, then answered: the reader sees one stream."""
    whole = BROKEN_OFF + b"0\r\n\r\n"
    with (
        scripted(LOST, refusal(429, retry_after="0"), whole) as server,
        Caller(at(tmp_path, server), ADA) as caller,
    ):
        assert list(caller.stream("/v1/answer", {"query": "a"})) == [("token", {"text": "The "})]
    assert server.n_asked == 3


def test_pauses_grow_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is twice the one before and up to a quarter more; the server's own counts where it names one."""
    monkeypatch.setattr(patience, "_FIRST_PAUSE_S", 1.0)
    broken = httpx.ReadError("gone")
    waiting = Patience()
    first, second, third, none = (waiting.pause_s(broken) for _ in range(4))
    assert first is not None and second is not None and third is not None and none is None
    assert 1.0 <= first <= 1.25 and 2.0 <= second <= 2.5 and 4.0 <= third <= 5.0
    told = Patience().pause_s(httpx.Response(429, headers={"retry-after": "7"}))
    assert told is not None and 7.0 <= told <= 8.75


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ReadTimeout("silent"), httpx.InvalidURL("x")]
)
def test_nobody_there_and_silence_are_not_waited_out(error: Exception) -> None:
    """Where nothing listens or nothing comes, asking again only makes the answer later."""

    def send() -> httpx.Response:
        calls.append(1)
        raise error

    calls: list[int] = []
    with pytest.raises(type(error)):
        patience.patiently(send)
    assert len(calls) == 1


async def test_a_client_that_gives_up_ends_the_waiting(tmp_path: Path) -> None:
    """A pause is no reason to stay: the caller's own time limit ends it."""
    with scripted(refusal(503, retry_after="9")) as server, pytest.raises((TimeoutError, TimedOut)):
        async with asyncio.timeout(0.5):
            await ask("mcp", at(tmp_path, server))
    assert server.n_asked == 1
