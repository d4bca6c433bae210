"""The outermost ring of the ingress: trace, host, size and load limits, security headers, one event per request.

A plain ASGI middleware, so that it costs microseconds and never buffers a stream.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    get_current_span,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cortex.errors import Busy, CortexError, InputError, TooLarge
from cortex.settings import Settings
from cortex.telemetry import caller_trace, current, event, new_trace_id, span
from serve_apps.account import Account, account, open_account
from serve_apps.metrics import Metrics
from serve_apps.problems import Unexpected, problem_response

SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_LIMITED = frozenset({"/v1/search", "/v1/answer", "/mcp"})
# Any other word that a caller sends as its method is counted and told as one.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER_METHOD = "_OTHER"
# Asked every second or so by probes and scrapers; they have a trace only if their caller began one.
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})


class Guard:
    """Wraps the app; refuses what it may not see, and lets no error out but as a problem document."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app = app
        self._max_body_bytes = settings.max_body_bytes
        self._max_in_flight = settings.max_concurrent_requests
        self._hosts = allowed_hosts(settings)
        self._metrics = metrics
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        headers = Headers(scope=scope)
        with _traced(scope, headers) as traced:
            reply, told = _Reply(send, new_trace_id()), open_account()
            try:
                self._check(headers)
                with self._seat(scope["path"]):
                    await self._app(scope, _Limited(receive, self._max_body_bytes), reply)
            except CortexError as error:
                await reply.refuse(error, scope, receive)
            except Exception as error:  # noqa: BLE001 - the program's outermost ring: nothing may leak to the caller
                log_unexpected(error)
                await reply.refuse(Unexpected("unexpected"), scope, receive)
            finally:
                self._finish(scope, reply, told, traced, time.perf_counter() - started_s)

    def _check(self, headers: Headers) -> None:
        if self._hosts and _host_name(headers.get("host", "")) not in self._hosts:
            raise InputError(
                "this server does not answer to that host name",
                code="host.unknown",
                hint="set CORTEX_PUBLIC_URL to the address that browsers use",
            )
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise InputError("Content-Length is not a number", code="body.malformed")
        if int(length) > self._max_body_bytes:
            raise _too_large(self._max_body_bytes)

    @contextmanager
    def _seat(self, path: str) -> Iterator[None]:
        if path not in _LIMITED:
            yield
            return
        if self._in_flight >= self._max_in_flight:
            raise Busy("too many questions at once", hint="ask again in a moment", retry_after_s=1)
        self._in_flight += 1
        self._metrics.in_flight.set(self._in_flight)
        try:
            yield
        finally:
            self._in_flight -= 1
            self._metrics.in_flight.set(self._in_flight)

    def _finish(self, scope: Scope, reply: _Reply, told: Account, traced: Span, seconds: float) -> None:
        route, method = getattr(scope.get("route"), "path", "unmatched"), _method(scope)
        self._metrics.request(route, method, reply.status, told.code, seconds)
        _describe(traced, method, route, reply.status, told)
        event(
            "request.finish",
            method=method,
            route=route,
            status=reply.status,
            n_bytes=reply.n_bytes,
            duration_ms=round(seconds * 1000, 1),
            trace_id=reply.trace_id,
            **told.fields(),
        )


class _Reply:
    """The way out: adds the headers that every response carries and remembers what was sent."""

    def __init__(self, send: Send, trace_id: str) -> None:
        self._send = send
        self.trace_id = trace_id
        self.status = 0  # 0 in the log: the client went away before anything was sent
        self.n_bytes = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(raw=message["headers"])
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            headers["x-trace-id"] = self.trace_id
            message = {**message, "headers": headers.raw}
        else:
            self.n_bytes += len(message.get("body", b""))
        await self._send(message)

    async def refuse(self, error: CortexError, scope: Scope, receive: Receive) -> None:
        """Send a problem document, unless a response has already begun."""
        account().fail(error)
        if self.status == 0:
            response = problem_response(error)
            if isinstance(error, TooLarge):
                response.headers["connection"] = "close"  # the rest of the body is never read
            await response(scope, receive, self)


class _Limited:
    """The way in: counts the body as it arrives, so that a chunked one cannot exceed the limit either."""

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._n_bytes = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._n_bytes += len(message.get("body", b""))
        if self._n_bytes > self._max_bytes:
            raise _too_large(self._max_bytes)
        return message


@contextmanager
def _traced(scope: Scope, headers: Headers) -> Iterator[Span]:
    """Continue the caller's trace or begin one; what nobody records still keeps one id per request.

    The path stays out, for people may write anything into it; the route is known at the end.
    """
    parent = caller_trace(headers)
    is_begun = get_current_span(parent).get_span_context().is_valid
    if is_begun or scope["path"] not in _PROBES:
        attributes = {"http.request.method": _method(scope)}
        with span("http.request", attributes, kind=SpanKind.SERVER, parent=parent) as opened:
            if opened.get_span_context().is_valid:
                yield opened
                return
    identity = SpanContext(int(new_trace_id(), 16), 1, is_remote=False, trace_flags=TraceFlags(0))
    bare = NonRecordingSpan(identity)
    with current(bare):
        yield bare


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in _METHODS else _OTHER_METHOD


def _describe(traced: Span, method: str, route: str, status: int, told: Account) -> None:
    """Say on the span of a request what came of it; who is refused is no failure of the server."""
    if not traced.is_recording():
        return
    traced.update_name(f"{method} {route}")
    traced.set_attributes({"http.route": route, "http.response.status_code": status})
    if told.code:
        traced.set_attribute("error.type", told.code)
    if told.mode:
        traced.set_attribute("cortex.answer.mode", told.mode)
    if told.degraded:
        traced.set_attribute("cortex.degraded", ",".join(told.degraded))
    if status >= 500:
        traced.set_status(StatusCode.ERROR)


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """Host names this ingress answers to; empty means any.

    On loopback only loopback names are accepted, so a page elsewhere cannot rebind its own name to 127.0.0.1.
    """
    public = {urlsplit(settings.public_url).hostname or ""} if settings.public_url else set()
    if settings.http_host in _LOOPBACK or public:
        return frozenset(_LOOPBACK | public)
    return frozenset()


def is_loopback(host: str) -> bool:
    """Say whether a peer address or host name is this machine's own."""
    return host in _LOOPBACK


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"the body is larger than {max_bytes} bytes", code="body.too_large")


def log_unexpected(error: Exception) -> None:
    """Log where an unforeseen error arose, and its type; its message may hold content and stays out."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    places = [f"{frame.filename}:{frame.lineno}:{frame.name}" for frame in frames]
    event(
        "request.fail",
        level=logging.ERROR,
        error=type(error).__name__,
        places=places,
        trace_id=new_trace_id(),
    )
