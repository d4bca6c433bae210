"""Tasks that are cancelled once and end whole, however often whoever waits for them is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from cortex.errors import Unavailable
from cortex.tasks import apart, ended

N_TURNS = 5


class Work:
    """Work whose clean-up takes a few turns of the event loop, and can be cut short by a cancellation."""

    def __init__(self) -> None:
        self.n_begun = self.n_cleaned = 0

    async def pieces(self) -> AsyncGenerator[int, None]:
        self.n_begun += 1
        try:
            for number in range(3):
                yield number
            await asyncio.Event().wait()
        finally:
            for _ in range(N_TURNS):
                await asyncio.sleep(0)
            self.n_cleaned += 1

    async def run(self) -> None:
        async with aclosing(self.pieces()) as pieces:
            async for _ in pieces:
                pass


async def turns(n: int) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


@pytest.mark.parametrize("n_turns", range(1, N_TURNS + 3))
async def test_a_second_cancellation_cuts_no_clean_up_short(n_turns: int) -> None:
    """Whoever ends a task and is cancelled meanwhile waits for its clean-up, and is cancelled then."""
    work = Work()
    working = asyncio.create_task(work.run())
    await turns(1)
    ending = asyncio.create_task(ended(working))
    await turns(n_turns)
    was_over = ending.done()
    ending.cancel()
    await asyncio.wait({ending})
    assert ending.cancelled() != was_over
    assert work.n_cleaned == 1


async def test_what_ended_tasks_raised_counts_as_seen() -> None:
    """A failure in a task that nobody waits for any more is no warning and is not raised."""

    async def fail() -> None:
        raise Unavailable("no")

    failing, done = asyncio.create_task(fail()), asyncio.create_task(asyncio.sleep(0))
    await turns(2)
    await ended(failing, done)
    assert isinstance(failing.exception(), Unavailable)


async def test_a_generator_apart_yields_the_same() -> None:
    """Pieces come in order to the end, and what the generator raises comes after them."""

    async def failing() -> AsyncGenerator[str, None]:
        yield "one"
        yield "two"
        raise Unavailable("no")

    said = []
    with pytest.raises(Unavailable):
        async for piece in apart(failing()):
            said.append(piece)
    assert said == ["one", "two"]


@pytest.mark.parametrize("n_turns", range(N_TURNS + 3))
async def test_a_reader_cancelled_twice_leaves_nothing_behind(n_turns: int) -> None:
    """The generator's clean-up has run whole when its reader has ended, whenever the second cancellation came."""
    work = Work()

    async def read() -> None:
        async with aclosing(apart(work.pieces())) as pieces:
            async for _ in pieces:
                pass

    reading = asyncio.create_task(read())
    while not work.n_begun:
        await turns(1)
    await turns(4)
    reading.cancel()
    await turns(n_turns)
    reading.cancel()
    await asyncio.wait({reading})
    assert (reading.cancelled(), work.n_cleaned) == (True, 1)


async def test_a_reader_who_stops_ends_the_generator() -> None:
    """Closing what is read closes what is behind it."""
    work = Work()
    async with aclosing(apart(work.pieces())) as pieces:
        assert await anext(pieces) == 0
    assert work.n_cleaned == 1
