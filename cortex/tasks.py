"""Tasks that are cancelled once and end whole.

A server may cancel a request in the very moment in which we cancel its parts because the reader left. Clean-ups are made
for one cancellation: a second on top cuts them short, and httpcore then keeps the connection and its place in the pool
for ever. So what cleans up gets a task of its own, and whoever ends that task waits for it, cancelled or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, TypeVar

A = TypeVar("A")


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, each once, and wait until all have ended; a cancellation that comes meanwhile is raised after that.

    What the tasks raised counts as seen.
    """
    cancelled: asyncio.CancelledError | None = None
    for task in tasks:
        task.cancel()
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = error
    for task in tasks:
        task.cancelled() or task.exception()
    if cancelled is not None:
        raise cancelled


async def apart(pieces: AsyncGenerator[A, None]) -> AsyncGenerator[A, None]:
    """Run a generator in a task of its own, ahead of its reader, and yield what it yields.

    A reader who closes this or is cancelled, however often, cancels that task once and waits for its end.
    """
    ready: asyncio.Queue[tuple[A, ...]] = asyncio.Queue()

    async def run() -> None:
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    ready.put_nowait((piece,))
        finally:
            ready.put_nowait(())

    running = asyncio.create_task(run())
    try:
        while piece := await ready.get():
            yield piece[0]
    finally:
        await ended(running)
    running.result()  # raises what the generator raised
