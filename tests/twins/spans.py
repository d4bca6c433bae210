"""Spans kept in memory while a test runs, made as in a real process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from cortex.settings import Settings
from cortex.telemetry import trace_with
from serve_apps.tracing import make_provider


@dataclass(frozen=True, slots=True)
class KeptSpans:
    """The spans that ended so far."""

    exporter: InMemorySpanExporter
    provider: TracerProvider

    def all(self) -> tuple[ReadableSpan, ...]:
        """Every span, in the order in which they ended."""
        self.provider.force_flush()
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = (each for each in self.all() if each.name == name)
        return found

    def attributes(self, name: str) -> dict[str, Any]:
        """What the only span of a name says."""
        return dict(self.named(name).attributes or {})

    def edges(self) -> set[tuple[str, str]]:
        """Who is whose parent, by name; what begins a trace here has the parent `""`."""
        names = {each.context.span_id: each.name for each in self.all() if each.context}
        return {(names.get(each.parent.span_id, "") if each.parent else "", each.name) for each in self.all()}

    def said(self) -> str:
        """Everything that leaves the process with the spans."""
        return "\n".join(each.to_json() for each in self.all())


@contextmanager
def kept_spans(ratio: float = 1.0, rate: float = 0) -> Iterator[KeptSpans]:
    """Keep the spans that are made until the block ends."""
    exporter = InMemorySpanExporter()
    provider = make_provider(Settings(trace_ratio=ratio, trace_rate=rate), "query", [exporter])
    trace_with(provider)
    try:
        yield KeptSpans(exporter, provider)
    finally:
        trace_with(None)
        provider.shutdown()
