"""Where this process's spans go: files of this machine, and an OTLP collector if one is configured; both in batches, in
threads of their own, so that a question waits for neither.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

import cortex
from cortex.settings import Settings
from cortex.telemetry import trace_with
from cortex.traces import WRITTEN_WITHIN_S
from serve_apps.span_files import SpanFiles

_QUEUE = 8_192  # spans of some 400 questions; what comes faster than it is written is dropped
_BATCH = (
    128  # a thread that encodes more at once would hold the interpreter for longer than a question may wait
)
_FLUSH_MS = 2_000
_provider: TracerProvider | None = None


def setup_tracing(settings: Settings, process: str) -> None:
    """Make this process's spans and keep them as the settings say, from now on; `process` is its name on them."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
    exporters = _exporters(settings, process)
    _provider = make_provider(settings, process, exporters) if exporters else None
    trace_with(_provider)


def flush_traces() -> None:
    """Write what waits to be written; before a process ends, or to look at it."""
    if _provider is not None:
        _provider.force_flush(_FLUSH_MS)


def make_provider(settings: Settings, process: str, exporters: list[SpanExporter]) -> TracerProvider:
    """Make a provider of spans: whether a trace is recorded its beginner decides, so a trace is whole or absent."""
    resource = Resource.create(
        {
            "service.name": f"cortex-{process}",
            "service.version": cortex.__version__,
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
        }
    )
    begun_here = AtMost(settings.trace_rate, TraceIdRatioBased(settings.trace_ratio))
    provider = TracerProvider(sampler=ParentBased(begun_here), resource=resource)
    for exporter in exporters:
        provider.add_span_processor(
            BatchSpanProcessor(
                exporter,
                max_queue_size=_QUEUE,
                schedule_delay_millis=WRITTEN_WITHIN_S * 1000,
                max_export_batch_size=_BATCH,
            )
        )
    return provider


def _exporters(settings: Settings, process: str) -> list[SpanExporter]:
    exporters: list[SpanExporter] = []
    if settings.trace_bytes:
        exporters.append(SpanFiles(settings.traces_path, process, settings.trace_bytes))
    if settings.otlp_endpoint:
        endpoint = settings.otlp_endpoint.rstrip("/")
        if not endpoint.endswith("/v1/traces"):
            endpoint += "/v1/traces"
        exporters.append(OTLPSpanExporter(endpoint=endpoint))
    return exporters


class AtMost(Sampler):
    """Samples as another sampler does, but so many traces a second at most; 0: as many as that one.

    The spans of a question cost some percent of it. Nobody notices while few ask, and when many do, a few traces a second
    tell as much as all.
    """

    def __init__(self, per_s: float, inner: Sampler) -> None:
        self._per_s = per_s
        self._inner = inner
        self._most = max(per_s, 1.0)  # a second's worth may come at once
        self._left = self._most
        self._at_s = time.monotonic()

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decide on a trace that begins here."""
        result = self._inner.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )
        if self._per_s and result.decision is not Decision.DROP and not self._take():
            return SamplingResult(Decision.DROP, trace_state=result.trace_state)
        return result

    def get_description(self) -> str:
        """Say what it does."""
        return f"AtMost({self._per_s:g}/s, {self._inner.get_description()})"

    def _take(self) -> bool:
        now_s = time.monotonic()
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
