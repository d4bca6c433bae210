"""Health probes that need no client library: a TCP connection, an HTTP status, Postgres' own greeting."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import SplitResult, urlsplit

from cortex.errors import Unavailable

_TIMEOUT_S = 3.0
_CANNOT_CONNECT_NOW = b"57P03"  # Postgres is starting, stopping or recovering


@asynccontextmanager
async def _connected(
    host: str, port: int, tls: bool = False
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=tls or None)
            try:
                yield reader, writer
            finally:
                writer.close()
    except TimeoutError as error:
        raise Unavailable(f"{host}:{port} did not answer within {_TIMEOUT_S:.0f} s") from error
    except (OSError, asyncio.IncompleteReadError) as error:
        raise Unavailable(f"{host}:{port} does not answer: {error}") from error


async def probe_tcp(address: str) -> None:
    """Raise Unavailable unless `host:port` accepts a connection."""
    host, _, port = address.rpartition(":")
    async with _connected(host or "127.0.0.1", int(port)):
        pass


async def probe_http(url: str, headers: dict[str, str] | None = None) -> None:
    """Raise Unavailable unless a GET answers with a status below 400."""
    parts = urlsplit(url)
    lines = [f"GET {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    async with _connected(_host(parts), _port(parts), parts.scheme == "https") as (reader, writer):
        writer.write("\r\n".join([*lines, "", ""]).encode())
        status = (await reader.readline()).split()
        if len(status) < 2 or not status[1].isdigit() or int(status[1]) >= 400:
            said = status[1].decode() if len(status) > 1 else "nothing"
            raise Unavailable(f"{parts.netloc}{parts.path} answered {said}")


async def probe_postgres(url: str) -> None:
    """Raise Unavailable unless Postgres greets: any reply but "cannot connect now" to a startup message (protocol 3.0)."""
    parts = urlsplit(url)
    body = struct.pack("!i", 196_608)
    body += f"user\0{parts.username or 'postgres'}\0database\0{parts.path.strip('/')}\0\0".encode()
    async with _connected(_host(parts), _port(parts, 5432)) as (reader, writer):
        writer.write(struct.pack("!i", len(body) + 4) + body)
        kind, length = struct.unpack("!ci", await reader.readexactly(5))
        said = await reader.readexactly(min(length - 4, 2_000))
        if kind == b"E" and _CANNOT_CONNECT_NOW in said:
            raise Unavailable(f"{parts.hostname}:{parts.port} is starting or stopping")


def _host(parts: SplitResult) -> str:
    return parts.hostname or "127.0.0.1"


def _port(parts: SplitResult, default: int = 0) -> int:
    return parts.port or default or (443 if parts.scheme == "https" else 80)
