"""Where this process's spans go: files of this machine, and an OTLP collector if one is configured; both in batches, in
threads of their own, so that a question waits for neither.
"""

from __future__ import annotations

import os
import socket

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

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
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(settings.trace_ratio)), resource=resource)
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
