"""Prometheus metrics of the ingress: requests, latencies, stages, abstentions and degraded parts."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from cortex.evidence import SearchResult

# Around the objectives: retrieval p95 below 0.7 s, first token below 1.5 s.
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The counters of one ingress; each has its own registry, so several can live in a process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "cortex_http_requests",
            "Requests answered",
            ["route", "method", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "cortex_http_request_seconds",
            "Time to the last byte",
            ["route"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self.in_flight = Gauge(
            "cortex_queries_in_flight", "Searches and answers being worked on", registry=self._registry
        )
        self._stages = Histogram(
            "cortex_stage_seconds",
            "Time of each step of the query path",
            ["stage"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._degraded = Counter(
            "cortex_degraded", "Parts that did not do their work", ["part", "code"], registry=self._registry
        )
        self._answers = Counter("cortex_answers", "Answers given", ["mode"], registry=self._registry)
        self._tools = Counter(
            "cortex_tool_calls", "Tools called by agents", ["tool", "code"], registry=self._registry
        )

    def request(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one finished request; `route` is the template, never the path, so that ids make no series."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def search(self, result: SearchResult) -> None:
        """Count one search's steps and degraded parts."""
        self.stages(result.timings_ms)
        for degraded in result.degraded:
            self._degraded.labels(degraded.part, degraded.code).inc()

    def stages(self, timings_ms: Mapping[str, float]) -> None:
        """Observe the time of each step."""
        for stage, time_ms in timings_ms.items():
            self._stages.labels(stage).observe(time_ms / 1000)

    def answer(self, mode: str) -> None:
        """Count one answer: extractive, generated or abstained."""
        self._answers.labels(mode).inc()

    def tool(self, name: str, code: str) -> None:
        """Count one call of a tool that exists; `code` is that of its error, or `ok`."""
        self._tools.labels(name, code).inc()

    def text(self) -> bytes:
        """Render everything in Prometheus' text format."""
        return generate_latest(self._registry)
