"""Telemetry names and the one structured event per request or batch; never bodies, tokens or e-mail addresses."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractContextManager, aclosing, contextmanager
from types import TracebackType
from typing import Any, TextIO, TypeVar

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cortex.errors import CortexError

A = TypeVar("A")

_log = logging.getLogger("cortex")
_propagator = TraceContextTextMapPropagator()
_tracer: Tracer = trace.get_tracer("cortex")


def setup_logging(level: str = "info", stream: TextIO | None = None) -> None:
    """Send Cortex's events to a stream, by default stderr, one JSON object a line."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log.handlers[:] = [handler]
    _log.setLevel(level.upper())
    _log.propagate = False


def event(name: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event, named `noun.verb`, with fields."""
    if _log.isEnabledFor(level):
        record = {"at": round(time.time(), 3), "event": name, **fields}
        _log.log(level, json.dumps(record, default=str, ensure_ascii=False))


# ------------------------------------------------------------------------------------------------------------- traces


def trace_with(provider: TracerProvider | None) -> None:
    """Make this process's spans with a provider; None makes none.

    It is not made the global one: libraries would add spans of their own, with addresses and messages in them.
    """
    global _tracer
    _tracer = (provider or trace.NoOpTracerProvider()).get_tracer("cortex")


def new_trace_id() -> str:
    """Return the current span's trace id, or a new random one: 32 hex digits (W3C Trace Context)."""
    found = trace.get_current_span().get_span_context()
    return f"{found.trace_id:032x}" if found.is_valid else secrets.token_hex(16)


def trace_headers() -> dict[str, str]:
    """Write down the current trace, for a call to take along (W3C Trace Context)."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier


def caller_trace(headers: Mapping[str, str]) -> Context:
    """Read the trace that a call came along with; what is malformed counts as none."""
    return _propagator.extract(headers)


@contextmanager
def attached(to: Context) -> Iterator[None]:
    """Make a context the current one."""
    token = context.attach(to)
    try:
        yield
    finally:
        context.detach(token)


class _Current(AbstractContextManager[Span]):
    """Makes a span the current one, marks it with what fails inside, and ends it if it was opened for that.

    No generator, which would cost more than the span: this runs some thirty times a question.
    """

    __slots__ = ("_is_own", "_opened", "_token")

    def __init__(self, opened: Span, *, is_own: bool) -> None:
        self._opened = opened
        self._is_own = is_own

    def __enter__(self) -> Span:
        self._token = context.attach(trace.set_span_in_context(self._opened))
        return self._opened

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        context.detach(self._token)
        if error is not None:
            mark_failed(self._opened, error)
        if self._is_own:
            self._opened.end()


def span(
    name: str,
    attributes: Mapping[str, str | int | float | bool] | None = None,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: Context | None = None,
) -> AbstractContextManager[Span]:
    """Open a span and make it the current one. What fails inside marks it by its code or its type, never by its text."""
    return _Current(start_span(name, attributes, kind=kind, parent=parent), is_own=True)


def start_span(
    name: str,
    attributes: Mapping[str, str | int | float | bool] | None = None,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: Context | None = None,
) -> Span:
    """Open a span without making it the current one, for what yields on its way; its opener ends it."""
    return _tracer.start_span(name, parent, kind, attributes)


def current(opened: Span) -> AbstractContextManager[Span]:
    """Make a span the current one until the block ends, and mark it with what fails inside; its opener ends it."""
    return _Current(opened, is_own=False)


def mark_failed(opened: Span, error: BaseException) -> None:
    """Mark a span as failed: by the code of a CortexError, by the type of any other."""
    if opened.is_recording() and not isinstance(error, GeneratorExit):
        code = error.error_code if isinstance(error, CortexError) else type(error).__name__
        opened.set_attribute("error.type", code)
        opened.set_status(StatusCode.ERROR)


async def under(opened: Span, pieces: AsyncGenerator[A, None]) -> AsyncGenerator[A, None]:
    """Step through a generator, and close it, with a span current in each step.

    It is current in no yield: a generator may be closed from another task than the one that started it.
    """
    async with aclosing(pieces):
        while True:
            with current(opened):
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
            yield piece


@contextmanager
def timed(timings_ms: dict[str, float], name: str) -> Iterator[None]:
    """Open a span named `name` and add its wall time in milliseconds to `timings_ms[name]`."""
    started = time.perf_counter()
    with span(name):
        try:
            yield
        finally:
            timings_ms[name] = timings_ms.get(name, 0.0) + (time.perf_counter() - started) * 1000
