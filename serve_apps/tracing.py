"""Traces to an OTLP collector, if one is configured; without one, spans cost next to nothing and go nowhere."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import cortex
from cortex.settings import Settings


def setup_tracing(settings: Settings) -> None:
    """Export this process's spans to `CORTEX_OTLP_ENDPOINT` over OTLP/HTTP, in batches, in the background."""
    if not settings.otlp_endpoint:
        return
    endpoint = settings.otlp_endpoint.rstrip("/")
    if not endpoint.endswith("/v1/traces"):
        endpoint += "/v1/traces"
    resource = Resource.create({"service.name": "cortex-serve", "service.version": cortex.__version__})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    trace.set_tracer_provider(provider)
