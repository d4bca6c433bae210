"""People who leave while they are answered: whatever the moment, nothing stays open at the model.

Serve says it twice: it hands the app a disconnect, and it cancels the request. Which comes first, and how many turns of
the event loop the other comes later, is chance; so every order and distance is tried.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import Message, Receive, Scope

from adapters.openai_chat import OpenAIGenerator
from cortex.ports.models import Message as ChatMessage
from cortex.principals import Principal
from cortex.settings import Settings
from cortex.tokens import local_private_key, sign
from retrieval.path import Parts
from retrieval.plan import Plan
from serve_apps.fused import FusedQueries
from serve_apps.http import make_app
from serve_apps.service import Backend
from serve_apps.stream import EventStream, while_connected
from tests.twins.model import EndlessModel, endless_model
from tests.twins.query import TENANT, TwinWorld
from tests.twins.service import TwinDesk
from tests.twins.stages import staged

ANN = frozenset({"ann"})
WORLD = TwinWorld({"hours": ["The harbour office opens at nine. Bring your papers."]}, {"hours": ANN})
ASKED = ("stream", "whole", "ask")
ORDERS = (("disconnect", "cancel"), ("cancel", "disconnect", "cancel"))
TURNS = range(8)
DELAYS_S = (0.0, 0.006)
_AT_ONCE = 8


def request(asked: str, number: int) -> tuple[str, dict[str, Any]]:
    """Where one asks how, and what one sends."""
    question = {"query": f"when does the harbour office open, number {number}"}
    if asked == "ask":
        params = {"name": "ask", "arguments": question}
        return "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return "/v1/answer", question | {"stream": asked == "stream"}


class Noticing:
    """A Generator that notices which questions reach the model: odd ones when it is asked, even ones at its first word."""

    model = "endless"

    def __init__(self, generator: OpenAIGenerator) -> None:
        self._generator = generator
        self.reached: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)

    async def stream(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[str, None]:
        number = int(re.findall(r"number (\d+)", messages[-1].content)[-1])
        if number % 2:
            self.reached[number].set()
        async with aclosing(self._generator.stream(messages)) as pieces:
            async for piece in pieces:
                self.reached[number].set()
                yield piece


async def take(message: Message) -> None:
    """Take what comes, and read none of it."""


@dataclass
class Client:
    """Somebody who leaves `delay_s` after the question reached the model, as Serve tells it."""

    scope: Scope
    body: dict[str, Any]
    reached: asyncio.Event
    steps: Sequence[str]
    n_turns: int
    delay_s: float
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    is_taken: bool = False

    async def ask(self, app: FastAPI) -> None:
        asking = asyncio.create_task(app(self.scope, self.receive, take))  # type: ignore[arg-type]
        await asyncio.wait_for(self.reached.wait(), timeout=5)
        await asyncio.sleep(self.delay_s)
        for step in self.steps:
            self.gone.set() if step == "disconnect" else asking.cancel()
            for _ in range(self.n_turns):
                await asyncio.sleep(0)
        await asyncio.wait({asking}, timeout=2)
        assert asking.done()

    async def receive(self) -> Message:
        if not self.is_taken:
            self.is_taken = True
            return {"type": "http.request", "body": json.dumps(self.body).encode(), "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """A home whose limits no slow machine meets."""
    return Settings(home=tmp_path)


@pytest.fixture
async def model() -> AsyncIterator[EndlessModel]:
    async with endless_model() as made:
        yield made


@pytest.fixture
async def generator(model: EndlessModel) -> AsyncIterator[Noticing]:
    made = OpenAIGenerator(model.url, "endless", max_tokens=100_000, timeout_s=30)
    yield Noticing(made)
    await made.close()


def scope(settings: Settings, path: str) -> Scope:
    token = sign(Principal(TENANT, "ann", frozenset({"search"})), local_private_key(settings), 60)
    headers = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "accept": "application/json",
        "authorization": f"Bearer {token}",
    }
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "state": {},
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip


async def ask_and_leave(app: FastAPI, clients: Sequence[Client]) -> None:
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def one(client: Client) -> None:
        async with at_once:
            await client.ask(app)

    await asyncio.gather(*map(one, clients))


@pytest.mark.parametrize("placement", [lambda parts: parts, staged], ids=["fused", "staged"])
@pytest.mark.parametrize("asked", ASKED)
async def test_nothing_stays_open_at_the_model(
    home: Settings,
    model: EndlessModel,
    generator: Noticing,
    asked: str,
    placement: Callable[[Parts], Parts],
) -> None:
    """Dozens leave a stream, a whole answer or a tool's; whoever reached the model has left it, too."""
    parts = placement(WORLD.parts(Plan(abstain_below=0.0), generator=generator))
    app = make_app(Backend(FusedQueries(parts), TwinDesk()), home)
    clients = []
    for number, (steps, n_turns, delay_s, _) in enumerate(
        product(ORDERS, TURNS, DELAYS_S, ("asked", "word"))
    ):
        path, body = request(asked, number)
        clients.append(Client(scope(home, path), body, generator.reached[number], steps, n_turns, delay_s))
    await ask_and_leave(app, clients)
    assert await model.open_after() == 0
    assert model.n_begun >= len(clients) // 2


async def slowly_cleaned(cleaned: list[str]) -> AsyncGenerator[bytes, None]:
    try:
        yield b"first"
        await asyncio.Event().wait()
    finally:
        for _ in range(5):
            await asyncio.sleep(0)
        cleaned.append("whole")


async def stream_it(cleaned: list[str], receive: Receive) -> None:
    pieces = slowly_cleaned(cleaned)
    await EventStream(await anext(pieces), pieces)({}, receive, take)


async def do_it(cleaned: list[str], receive: Receive) -> None:
    async def work() -> None:
        async with aclosing(slowly_cleaned(cleaned)) as pieces:
            async for _ in pieces:
                pass

    await while_connected(work(), receive, lambda: False)


@pytest.mark.parametrize("does", [stream_it, do_it])
@pytest.mark.parametrize("n_turns", TURNS)
async def test_a_cancellation_on_top_cuts_no_clean_up_short(
    does: Callable[[list[str], Receive], Coroutine[Any, Any, None]], n_turns: int
) -> None:
    """Who disconnects and whose request is cancelled right after gets the whole clean-up all the same."""
    gone, cleaned = asyncio.Event(), list[str]()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    asking = asyncio.create_task(does(cleaned, receive))
    await asyncio.sleep(0.01)
    gone.set()
    for _ in range(n_turns):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait({asking})
    assert cleaned == ["whole"]


async def test_who_leaves_before_the_first_byte_ends_the_answer() -> None:
    """The evidence was found, but not even the head could be sent: what would go on is closed."""
    cleaned = list[str]()
    pieces = slowly_cleaned(cleaned)

    async def refuse(message: Message) -> None:
        raise OSError("nobody is there")

    with pytest.raises(OSError, match="nobody"):
        await EventStream(await anext(pieces), pieces)({}, asyncio.Event().wait, refuse)  # type: ignore[arg-type]
    assert cleaned == ["whole"]
