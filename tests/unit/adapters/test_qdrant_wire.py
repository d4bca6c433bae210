"""The wire to the vector index: connections that the server ended, answers that are none, and time limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from adapters.qdrant_clients import AsyncWire
from adapters.qdrant_errors import translated
from cortex.errors import CortexError, Misconfigured, TimedOut, Unavailable

OK = b'{"result": {"count": 3}, "status": "ok"}'


class Server:
    """Answers requests in turn: with a status and a body, or with the connection's end (None); silent, it only listens."""

    def __init__(self, answers: Sequence[tuple[int, bytes] | None], *, is_silent: bool = False) -> None:
        self.answers = list(answers)
        self.is_silent = is_silent
        self.requests: list[bytes] = []
        self.connections: list[asyncio.Task[None]] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = asyncio.current_task()
        assert served is not None
        self.connections.append(served)
        try:
            await (reader.read() if self.is_silent else self._answer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
            self.requests.append(head + body)
            answer = self.answers.pop(0)
            if answer is None:
                return
            status, content = answer
            writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(content), content))
            await writer.drain()


@asynccontextmanager
async def wired(server: Server, timeout_s: int = 5) -> AsyncIterator[AsyncWire]:
    async with await asyncio.start_server(server.serve, "127.0.0.1") as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        wire = AsyncWire(server.url, "key", timeout_s)
        try:
            yield wire
        finally:
            await wire.close()
            async with asyncio.timeout(5):  # closing the wire ends every connection
                await asyncio.gather(*server.connections)


async def test_a_request_is_json_with_the_key_and_its_result_comes_back() -> None:
    """One connection serves many requests; the answer comes unpacked."""
    server = Server([(200, OK), (200, OK)])
    async with wired(server) as wire:
        assert await wire.post("/collections/a%2Fb/points/count", {"exact": False}) == {"count": 3}
        assert await wire.get("/collections") == {"count": 3}
    first = server.requests[0]
    assert first.startswith(b"POST /collections/a%2Fb/points/count HTTP/1.1\r\n")
    assert first.endswith(b'\r\n\r\n{"exact":false}')
    assert b"api-key: key" in first.lower() and b"accept-encoding: identity" in first.lower()
    assert len(server.connections) == 1


async def test_a_connection_that_the_server_ended_is_not_an_index_that_is_down() -> None:
    """A server may end a connection that stands open in the moment a request goes out; that request is sent again, once."""
    server = Server([(200, OK), None, (200, OK)])
    async with wired(server) as wire:
        await wire.post("/x", {})
        assert await wire.post("/x", {}) == {"count": 3}
    assert (len(server.requests), len(server.connections)) == (3, 2)


async def test_an_index_that_ends_every_connection_is_down() -> None:
    server = Server([None, None, None])
    async with wired(server) as wire:
        with pytest.raises(Unavailable) as caught, translated():
            await wire.post("/x", {})
    assert caught.value.error_code == "index.unavailable"
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("answer", "error", "code"),
    [
        ((401, b"no"), Misconfigured, "index.refused"),
        ((404, b"{}"), Unavailable, "index.missing"),
        ((400, b"Wrong input: Vector dimension error"), Misconfigured, "index.mismatch"),
        ((503, b""), Unavailable, "index.unavailable"),
        ((200, b"<html>"), Unavailable, "index.unavailable"),
        ((200, b"[]"), Unavailable, "index.unavailable"),
        ((200, b"{}"), Unavailable, "index.unavailable"),
    ],
)
async def test_what_is_no_answer_has_a_code(
    answer: tuple[int, bytes], error: type[CortexError], code: str
) -> None:
    async with wired(Server([answer])) as wire:
        with pytest.raises(error) as caught, translated():
            await wire.post("/x", {})
    assert caught.value.error_code == code


async def test_nobody_listening_is_an_index_that_is_down() -> None:
    wire = AsyncWire("http://127.0.0.1:9", "", 5)
    with pytest.raises(Unavailable) as caught, translated():
        await wire.get("/collections")
    assert caught.value.error_code == "index.unavailable"
    await wire.close()


async def test_an_index_that_says_nothing_is_too_slow() -> None:
    """The time limit of the wire holds, and a question that gives up earlier is cancelled as such."""
    server = Server([], is_silent=True)
    async with wired(server, timeout_s=1) as wire:
        with pytest.raises(TimedOut) as caught, translated():
            await wire.get("/collections")
        assert caught.value.error_code == "index.timed_out"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                with translated():
                    await wire.get("/collections")
