"""A model server that is none: `python -m eval.upstream` speaks the OpenAI chat API and streams words at a set pace.

Every stream has a serial number, and each of its words names stream and place, so that a reader sees what was lost or
mixed up. Prints its address on stdout, and ends when stdin does.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import uvicorn

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_OPENING = "See [1] "
_END_S = 10.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How a stream goes: seconds to its first word, seconds between words, and how many words there are."""

    first_s: float = 0.05
    pause_s: float = 0.005
    n_words: int = 8


@dataclass(slots=True)
class Counts:
    """Streams since the start: begun, open now, open at most at once since the pace was set, whole, and left by their reader."""

    n_begun: int = 0
    n_open: int = 0
    most_open: int = 0
    n_whole: int = 0
    n_left: int = 0


def words(serial: int, n_words: int) -> list[str]:
    """Return what a stream says, piece by piece."""
    return [_OPENING, *(f"s{serial}w{number} " for number in range(1, n_words))]


@dataclass(slots=True)
class Upstream:
    """The ASGI application."""

    pace: Pace = Pace()
    counts: Counts = field(default_factory=Counts)
    _serials: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = await _read(receive)
        match scope["method"], scope["path"]:
            case "POST", "/v1/chat/completions":
                await self._stream(receive, send)
            case "PUT", "/pace":
                self.pace = Pace(**json.loads(body))
                self.counts.most_open = self.counts.n_open
                await _reply(send, {})
            case "GET", "/counts":
                await _reply(send, asdict(self.counts))
            case _:
                await _reply(send, {}, 404)

    async def _stream(self, receive: Receive, send: Send) -> None:
        counts = self.counts
        counts.n_begun += 1
        counts.n_open += 1
        counts.most_open = max(counts.most_open, counts.n_open)
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for piece in self._pieces(gone):
                await send({"type": "http.response.body", "body": _event(piece), "more_body": True})
            if gone.done():
                counts.n_left += 1
                return
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
            counts.n_whole += 1
        finally:
            gone.cancel()
            counts.n_open -= 1

    async def _pieces(self, gone: asyncio.Future[None]) -> AsyncIterator[str]:
        """Give one word after another at the pace of this moment, for as long as somebody reads."""
        pace = self.pace
        for number, piece in enumerate(words(next(self._serials), pace.n_words)):
            await asyncio.wait({gone}, timeout=pace.pause_s if number else pace.first_s)
            if gone.done():
                return
            yield piece


async def _read(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reply(send: Send, document: dict[str, Any], status: int = 200) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(document).encode()})


def _event(piece: str) -> bytes:
    delta = {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
    return b"data: " + json.dumps(delta).encode() + b"\n\n"


class Control:
    """A running upstream, as the bench holds it."""

    def __init__(self, url: str) -> None:
        self._root = url
        self.url = f"{url}/v1"

    def set_pace(self, pace: Pace) -> None:
        """Set how streams that begin from now on go."""
        httpx.put(f"{self._root}/pace", json=asdict(pace), trust_env=False).raise_for_status()

    def counts(self) -> Counts:
        """Read the counts."""
        return Counts(**httpx.get(f"{self._root}/counts", trust_env=False).raise_for_status().json())


@contextmanager
def running_upstream() -> Iterator[Control]:
    """Run one in a process of its own until the block ends."""
    command = [sys.executable, "-m", "eval.upstream"]
    # In a session of its own, so that Ctrl-C reaches this process alone; it ends with its stdin, whatever ends us.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None  # pipes were asked for
        try:
            yield Control(json.loads(process.stdout.readline())["url"])
        finally:
            process.stdin.close()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def main() -> None:
    """Serve on a free port until stdin ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        config = uvicorn.Config(
            Upstream(),
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=1,
            timeout_keep_alive=60,
        )
        server = uvicorn.Server(config)

        def end() -> None:
            sys.stdin.read()
            server.should_exit = True

        threading.Thread(target=end, daemon=True).start()
        print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
        server.run(sockets=[listener])


if __name__ == "__main__":
    main()
