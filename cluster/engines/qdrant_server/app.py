"""The HTTP side: one ASGI application with the checks that come before any route."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import orjson

from cluster.engines.qdrant_server.problems import BadRequest, Problem
from cluster.engines.qdrant_server.routes import answer
from cluster.engines.qdrant_server.store import Store

# The release of Qdrant whose API this follows; clients compare it with their own.
API_VERSION = "1.20.0"
MAX_BODY_BYTES = 32 * 1024 * 1024  # Qdrant's own limit
_THREADS = 8
_PROBES = {
    "/healthz": "healthz check passed",
    "/livez": "livez check passed",
    "/readyz": "all shards are ready",
}
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Refused(Problem):
    """A request that is turned away before it is read."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class App:
    """The ASGI application over a store; blocking engine calls run in a small thread pool."""

    def __init__(self, store: Store, api_key: str) -> None:
        self._store = store
        self._api_key = api_key
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="engine")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event."""
        if scope["type"] != "http":
            raise RuntimeError(f"no {scope['type']} here")
        started_s = time.perf_counter()
        try:
            self._check(scope)
            if scope["path"] in _PROBES:
                await _send(send, 200, _PROBES[scope["path"]].encode(), b"text/plain; charset=utf-8")
                return
            body = await _read_body(scope, receive)
            loop = asyncio.get_running_loop()
            status, content = await loop.run_in_executor(self._pool, self._respond, scope, body, started_s)
        except Refused as refusal:
            status, content = _problem(refusal.status, str(refusal), started_s)
        await _send(send, status, content, b"application/json")

    def _check(self, scope: Scope) -> None:
        """Let nobody in who came through a browser or without the key; probes need no key."""
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if host.rpartition(":")[0] not in _LOOPBACK_NAMES and host not in _LOOPBACK_NAMES:
            raise Refused(403, "only loopback names are served here")
        if b"origin" in headers:
            raise Refused(403, "browsers have no business here")
        if not self._api_key or scope["path"] in _PROBES:
            return
        given = headers.get(b"api-key") or headers.get(b"authorization", b"").removeprefix(b"Bearer ")
        if not secrets.compare_digest(given, self._api_key.encode()):
            raise Refused(401, "Must provide an API key or an Authorization bearer token")

    def _respond(self, scope: Scope, body: bytes, started_s: float) -> tuple[int, bytes]:
        path = unquote(scope["path"]).rstrip("/") or "/"
        if path == "/":
            return 200, _dump({"title": "Cortex vector index on qdrant-edge", "version": API_VERSION})
        try:
            result = answer(self._store, scope["method"], path, _load(body))
        except Problem as problem:
            return _problem(problem.status, str(problem), started_s)
        except (ValueError, TypeError, OverflowError) as error:
            return _problem(400, f"Wrong input: {error}", started_s)
        except Exception as error:
            # The engine raises bare Exceptions for bad requests and for bad luck.
            if type(error) is not Exception:
                raise
            status = 500 if str(error).startswith("Service") else 400
            return _problem(status, str(error), started_s)
        return 200, _dump({"result": result, "status": "ok", "time": time.perf_counter() - started_s})


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > MAX_BODY_BYTES:
        raise Refused(413, f"Payload error: more than {MAX_BODY_BYTES} bytes")
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refused(400, "the client went away")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise Refused(413, f"Payload error: more than {MAX_BODY_BYTES} bytes")
        if not message.get("more_body", False):
            return b"".join(parts)


def _load(body: bytes) -> Any:
    if not body:
        return None
    try:
        return orjson.loads(body)
    except ValueError as error:
        raise BadRequest(f"Format error in JSON body: {str(error)[:100]}") from error


def _dump(value: Any) -> bytes:
    return orjson.dumps(value)


def _problem(status: int, message: str, started_s: float) -> tuple[int, bytes]:
    return status, _dump({"status": {"error": message}, "time": time.perf_counter() - started_s})


async def _send(send: Send, status: int, content: bytes, media_type: bytes) -> None:
    headers = [(b"content-type", media_type), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
