"""A model on a real socket that goes on answering until its reader leaves, and counts who is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

_PAUSE_S = 0.005
_WORD = {"choices": [{"delta": {"content": "See [1] "}}]}


@dataclass
class EndlessModel:
    """Speaks the OpenAI chat API: after a pause the head of its answer, then a word after each."""

    url: str = ""
    n_begun: int = 0
    n_open: int = 0
    _here: dict[asyncio.StreamWriter, asyncio.Task[None]] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._here[writer] = task
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            del self._here[writer]

    async def end(self) -> None:
        """Close every connection, and wait until nothing of them is left."""
        for writer in self._here:
            writer.transport.abort()
        if self._here:
            await asyncio.wait(self._here.values(), timeout=5)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
        except (asyncio.IncompleteReadError, ConnectionError):  # left before the question was asked
            return
        self.n_begun += 1
        self.n_open += 1
        gone = asyncio.ensure_future(_end(reader))
        answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        while not (await asyncio.wait({gone}, timeout=_PAUSE_S))[0]:
            writer.write(answer)
            answer = b"data: " + json.dumps(_WORD).encode() + b"\n\n"
        self.n_open -= 1

    async def open_after(self, seconds: float = 1.0) -> int:
        """Count the answers that nobody ended so long after the last reader left."""
        give_up_at_s = asyncio.get_running_loop().time() + seconds
        while self.n_open and asyncio.get_running_loop().time() < give_up_at_s:
            await asyncio.sleep(0.01)
        return self.n_open


async def _end(reader: asyncio.StreamReader) -> None:
    try:
        await reader.read()
    except ConnectionError:
        return


@asynccontextmanager
async def endless_model() -> AsyncIterator[EndlessModel]:
    """Run one until the block ends."""
    made = EndlessModel()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    try:
        yield made
    finally:
        listening.close()
        await made.end()
        await listening.wait_closed()
