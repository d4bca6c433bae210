"""The OpenAI client against a real HTTP server that streams well, badly, or not at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest

from adapters.openai_chat import OpenAIGenerator
from cortex.errors import Misconfigured, TimedOut, Unavailable
from cortex.ports.models import Message
from cortex.settings import Settings
from tests.twins.model import endless_model
from tests.twins.spans import kept_spans

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


def event(content: str | None = None, finish: str | None = None) -> bytes:
    delta = {} if content is None else {"content": content}
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


@dataclass
class ModelServer:
    """A server that answers every request with one scripted stream and keeps what it was asked."""

    script: bytes | Script = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    request: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    is_cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.path = head.split()[1]
            lines = [line.partition(": ") for line in head.split("\r\n")[1:]]
            self.headers = {name.lower(): value for name, _, value in lines}
            self.request = json.loads(await reader.readexactly(int(self.headers["content-length"])))
            writer.write(f"HTTP/1.1 {self.status} X\r\nconnection: close\r\n\r\n".encode())
            if isinstance(self.script, bytes):
                writer.write(self.script)
            else:
                await self.script(writer)
            await writer.drain()
        except ConnectionError:
            self.is_cancelled.set()
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    made = ModelServer()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    yield made
    listening.close()
    await listening.wait_closed()


async def ask(url: str, timeout_s: float = 5.0, max_tokens: int = 100) -> list[str]:
    generator = OpenAIGenerator(url, "tiny", api_key="secret", max_tokens=max_tokens, timeout_s=timeout_s)
    try:
        return [piece async for piece in generator.stream([Message("user", "why?")])]
    finally:
        await generator.close()


async def test_pieces_arrive_in_order(server: ModelServer) -> None:
    """Text is what the deltas hold; roles, empty deltas, usage, comments and blank lines are none."""
    role = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\r\n\r\n'
    usage = b'data: {"choices":[],"usage":{"total_tokens":9}}\n\n'
    server.script = (
        b": hello\n\n" + role + event("A") + event("\nb ") + event("é") + event(None, "stop") + usage + DONE
    )
    assert await ask(server.url) == ["A", "\nb ", "é"]


async def test_the_request_is_a_streamed_chat_completion(server: ModelServer) -> None:
    """Model, messages, budget and key are sent to /v1/chat/completions."""
    server.script = event("x", "stop") + DONE
    await ask(server.url + "/")
    assert server.path == "/v1/chat/completions"
    assert server.headers["authorization"] == "Bearer secret"
    assert server.request == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "why?"}],
        "max_tokens": 100,
        "temperature": 0,
        "stream": True,
    }


async def test_a_stream_may_end_without_done(server: ModelServer) -> None:
    """A finish reason is an end too."""
    server.script = event("x") + event(None, "length")
    assert await ask(server.url) == ["x"]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (event("half"), "generator.broken_off"),
        (b"", "generator.broken_off"),
        (event("x") + b"data: {not json\n\n" + DONE, "generator.malformed"),
        (b"data: [1, 2]\n\n" + DONE, "generator.malformed"),
        (b'data: {"choices":[{"delta":{"content":7}}]}\n\n' + DONE, "generator.malformed"),
        (b'data: {"error":{"message":"out of memory"}}\n\n', "generator.failed"),
        (event("x") + event(None, "content_filter") + DONE, "generator.withheld"),
        (event("x" * 5_000) + DONE, "generator.runaway"),
    ],
)
async def test_a_bad_stream_is_an_error_not_an_answer(server: ModelServer, script: bytes, code: str) -> None:
    """What breaks off, is no chat stream, reports an error or never ends raises Unavailable with its own code."""
    server.script = script
    with pytest.raises(Unavailable) as caught:
        await ask(server.url)
    assert caught.value.error_code == code


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "generator.refused"),
        (401, "generator.refused"),
        (404, "generator.refused"),
        (429, "generator.refused"),
        (302, "generator.refused"),
        (500, "generator.failed"),
        (503, "generator.failed"),
    ],
)
async def test_a_refusal_names_no_secret(server: ModelServer, status: int, code: str) -> None:
    """Any status but 200 is Unavailable; the key and the server's words stay out of the message."""
    server.status, server.script = status, b'{"error": "key secret is wrong"}'
    with pytest.raises(Unavailable) as caught:
        await ask(server.url)
    assert caught.value.error_code == code
    assert "secret" not in caught.value.message + caught.value.hint


async def test_silence_times_out(server: ModelServer) -> None:
    """A model that stops in the middle of its answer is given up after the time allowed for silence."""

    async def stall(writer: asyncio.StreamWriter) -> None:
        writer.write(event("so far"))
        await writer.drain()
        await asyncio.sleep(3)

    server.script = stall
    with pytest.raises(TimedOut) as caught:
        await ask(server.url, timeout_s=0.3)
    assert caught.value.error_code == "generator.timed_out"


async def test_nobody_listening_is_unavailable() -> None:
    """A refused connection and a URL that is none raise Unavailable."""
    for url in ("http://127.0.0.1:1/v1", "http://[bad/v1", "ftp://127.0.0.1/v1"):
        with pytest.raises(Unavailable) as caught:
            await ask(url)
        assert caught.value.error_code == "generator.unavailable"


async def test_closing_the_stream_cancels_the_request(server: ModelServer) -> None:
    """When the reader goes away, the server sees its connection close."""

    async def endless(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(event("more "))
            await writer.drain()
            await asyncio.sleep(0.01)

    server.script = endless
    generator = OpenAIGenerator(server.url, "tiny", max_tokens=10_000, timeout_s=5)
    async with aclosing(generator.stream([Message("user", "why?")])) as stream:
        assert await anext(stream) == "more "
    async with asyncio.timeout(5):
        await server.is_cancelled.wait()
    await generator.close()


async def test_a_reader_cancelled_twice_leaves_no_request_behind() -> None:
    """Whether it waits for the head or for a word, and however soon the second cancellation follows the first."""
    async with endless_model() as model:
        generator = OpenAIGenerator(model.url, "endless", max_tokens=10_000, timeout_s=5)

        async def read() -> None:
            async for _ in generator.stream([Message("user", "why?")]):
                pass

        async def leave(is_asked: bool, n_turns: int) -> None:
            n_begun, reading = model.n_begun, asyncio.create_task(read())
            await asyncio.sleep(0.003)
            async with asyncio.timeout(5):
                while is_asked and model.n_begun == n_begun:
                    await asyncio.sleep(0.001)
            for _ in range(2):
                reading.cancel()
                for _ in range(n_turns):
                    await asyncio.sleep(0)
            await asyncio.wait({reading}, timeout=5)
            assert reading.cancelled()

        for is_asked, n_turns in product((False, True), range(8)):
            await leave(is_asked, n_turns)
        assert (await model.open_after(), model.n_begun >= 8) == (0, True)
        await generator.close()


def test_a_url_without_a_model_is_misconfigured() -> None:
    """The settings must name the model to ask."""
    with pytest.raises(Misconfigured):
        OpenAIGenerator.from_settings(Settings(llm_url="http://127.0.0.1:1/v1"))


async def test_a_call_has_a_span_that_says_nothing_of_what_was_said(server: ModelServer) -> None:
    """OpenTelemetry's names for generative AI, the time to the first piece, and the code when the model fails."""
    server.script = event("Kestrels sing.", "stop") + DONE
    with kept_spans() as kept:
        await ask(server.url)
        chat = kept.attributes("chat tiny")
        assert (chat["gen_ai.operation.name"], chat["gen_ai.request.model"]) == ("chat", "tiny")
        assert (chat["gen_ai.request.max_tokens"], chat["gen_ai.request.stream"]) == (100, True)
        assert chat["gen_ai.response.time_to_first_chunk"] > 0 and "error.type" not in chat
        assert not any(secret in kept.said() for secret in ("Kestrel", "why?", "secret"))
    server.script = event("x")
    with kept_spans() as kept:
        with pytest.raises(Unavailable):
            await ask(server.url)
        assert kept.attributes("chat tiny")["error.type"] == "generator.broken_off"
