"""Telemetry names and the one structured event per request or batch; never bodies, tokens or e-mail addresses."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace

tracer = trace.get_tracer("cortex")

_log = logging.getLogger("cortex")


def setup_logging(level: str = "info") -> None:
    """Send Cortex's events to stderr, one JSON object a line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    _log.handlers[:] = [handler]
    _log.setLevel(level.upper())
    _log.propagate = False


def event(name: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event, named `noun.verb`, with fields."""
    if _log.isEnabledFor(level):
        record = {"at": round(time.time(), 3), "event": name, **fields}
        _log.log(level, json.dumps(record, default=str, ensure_ascii=False))


def new_trace_id() -> str:
    """Return the current span's trace id, or a new random one: 32 hex digits (W3C Trace Context)."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else secrets.token_hex(16)


@contextmanager
def timed(timings_ms: dict[str, float], name: str) -> Iterator[None]:
    """Open a span named `name` and add its wall time in milliseconds to `timings_ms[name]`."""
    started = time.perf_counter()
    with tracer.start_as_current_span(name):
        try:
            yield
        finally:
            timings_ms[name] = timings_ms.get(name, 0.0) + (time.perf_counter() - started) * 1000
