"""Health probes."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from cluster.probe import probe_http, probe_postgres, probe_tcp
from cluster.urls import public_url
from cortex.errors import Unavailable


@asynccontextmanager
async def answering(reply: bytes) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def greeting(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


async def passes(check: Callable[[], Awaitable[None]]) -> bool:
    try:
        await check()
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize(
    ("status", "is_up"), [(b"200 OK", True), (b"401 Unauthorized", False), (b"503 Busy", False), (b"", False)]
)
async def test_http_is_up_below_400(status: bytes, is_up: bool) -> None:
    """A GET that answers with a status below 400 passes; errors and silence do not."""
    async with answering(b"HTTP/1.1 " + status + b"\r\n\r\n" if status else b"") as port:
        assert await passes(lambda: probe_http(f"http://127.0.0.1:{port}/readyz")) is is_up


@pytest.mark.parametrize(
    ("reply", "is_up"),
    [
        (greeting(b"R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0"), True),
        (greeting(b"E", b"SFATAL\0C28000\0Mno pg_hba.conf entry\0\0"), True),
        (greeting(b"E", b"SFATAL\0C57P03\0Mthe database system is starting up\0\0"), False),
        (b"", False),
    ],
)
async def test_postgres_is_up_unless_it_says_that_it_is_starting(reply: bytes, is_up: bool) -> None:
    """A demand for a password, or a refusal, proves a working server; "starting up" and silence do not."""
    async with answering(reply) as port:
        assert await passes(lambda: probe_postgres(f"postgresql://u:p@127.0.0.1:{port}/db")) is is_up


async def test_nobody_listening_is_down() -> None:
    """A closed port is down, with the address in the reason."""
    async with answering(b"") as port:
        pass
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}"):
        await probe_tcp(f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://cortex:secret@127.0.0.1:5/postgres", "postgresql://127.0.0.1:5/postgres"),
        ("127.0.0.1:50051", "127.0.0.1:50051"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
    ],
)
def test_shown_urls_hold_no_password(url: str, shown: str) -> None:
    """User and password are stripped from a URL that people see."""
    assert public_url(url) == shown
