"""Server-sent events (the HTML standard's event streams), and work that stops when its reader leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cortex.tasks import ended

# Proxies close silent connections after half a minute or so; a comment line keeps them open.
_KEEP_ALIVE_S = 15.0


def sse(name: str, data: BaseModel) -> bytes:
    """Write one event. JSON never holds a raw line break, so one data line is enough."""
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


class EventStream(Response):
    """Sends each piece as it comes; when the client disconnects, the generator is closed at once.

    The first piece was taken from the generator already: one that never began would close without its clean-up.
    """

    def __init__(self, first: bytes, others: AsyncGenerator[bytes, None]) -> None:
        super().__init__(
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )
        del self.headers["content-length"]
        self._first = first
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(
            self._others
        ):  # for a client who leaves before the pump begins; else it closed them
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            pump = asyncio.create_task(self._pump(send))
            helpers = [asyncio.create_task(_until_gone(receive)), asyncio.create_task(_keep_alive(send))]
            try:
                await asyncio.wait({pump, helpers[0]}, return_when=asyncio.FIRST_COMPLETED)
                is_gone = not pump.done()
            finally:
                await ended(pump, *helpers)
        if not is_gone:
            pump.result()  # raises what the pump raised
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._others):
            await send({"type": "http.response.body", "body": self._first, "more_body": True})
            async for piece in self._others:
                await send({"type": "http.response.body", "body": piece, "more_body": True})


async def while_connected(
    work: Coroutine[Any, Any, None], receive: Receive, is_sent: Callable[[], bool]
) -> None:
    """Do the work; drop it if the client disconnects before everything is sent."""
    task, gone = asyncio.create_task(work), asyncio.create_task(_until_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if is_sent():
            await asyncio.wait({task})
        is_dropped = not task.done()
    finally:
        await ended(task, gone)
    if not is_dropped:
        task.result()  # raises what the work raised


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _keep_alive(send: Send) -> None:
    while True:
        await asyncio.sleep(_KEEP_ALIVE_S)
        await send({"type": "http.response.body", "body": b": \n\n", "more_body": True})
