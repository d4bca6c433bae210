"""Prometheus metrics of an ingress: requests, errors, steps, answers, agents' tools, and calls of stages.

Every label has few values: routes are templates, codes and names stand in our source. Each series says which replica it
is of, because a scrape that comes through Serve's proxy reaches any one of them.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import cortex
from cortex.errors import CortexError
from cortex.evidence import Answer, SearchResult

# Around the objectives: retrieval p95 below 0.7 s, first token below 1.5 s.
_REQUEST_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0)
# Around the budget of each step (`retrieval/path.py`): a quantile is no finer than its bucket.
_STEP_BUCKETS_S = (
    0.001,
    0.003,
    0.005,
    0.01,
    0.02,
    0.03,
    0.05,
    0.076,
    0.1,
    0.12,
    0.2,
    0.3,
    0.4,
    0.7,
    1.0,
    2.5,
    10.0,
)


class StageMetrics:
    """What an ingress sees of its stages: the time of each call, waiting included, and how calls fail."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "cortex_stage_call_duration_seconds",
            "Time of a stage's call as its caller sees it",
            ["stage", "call"],
            buckets=_STEP_BUCKETS_S,
            registry=self.registry,
        )
        self._errors = Counter(
            "cortex_stage_call_errors",
            "Calls of stages that failed",
            ["stage", "code"],
            registry=self.registry,
        )
        self._resent = Counter(
            "cortex_stage_calls_resent",
            "Calls sent again because a replica was lost",
            ["stage"],
            registry=self.registry,
        )

    @contextmanager
    def watching(self, stage: str, call: str) -> Iterator[None]:
        """Observe one call; one that its caller gives up is no error of the stage."""
        started_s = time.perf_counter()
        try:
            yield
        except CortexError as error:
            self._errors.labels(stage, error.error_code).inc()
            raise
        finally:
            self._seconds.labels(stage, call).observe(time.perf_counter() - started_s)

    def sent_again(self, stage: str) -> None:
        """Count one call that is sent again."""
        self._resent.labels(stage).inc()


class Metrics:
    """The counters of one ingress; each has its own registry, so several can live in a process."""

    def __init__(self, stages: StageMetrics | None = None) -> None:
        self._registry = CollectorRegistry()
        self._shown = CollectorRegistry()
        for registry in (self._registry, *([stages.registry] if stages else [])):
            self._shown.register(_OfReplica(registry, f"{socket.gethostname()}:{os.getpid()}"))
        ProcessCollector(registry=self._registry)
        Info("cortex_build", "Which Cortex this is", registry=self._registry).info(
            {"version": cortex.__version__}
        )
        self._requests = self._counter(
            "cortex_http_requests", "Requests answered", "route", "method", "status"
        )
        self._seconds = self._histogram(
            "cortex_http_request_duration_seconds", "Time to the last byte", _REQUEST_BUCKETS_S, "route"
        )
        self._errors = self._counter("cortex_errors", "Requests that ended with an error", "route", "code")
        self.in_flight = Gauge(
            "cortex_queries_in_flight", "Searches and answers being worked on", registry=self._registry
        )
        self._steps = self._histogram(
            "cortex_step_duration_seconds", "Time of each step of the query path", _STEP_BUCKETS_S, "step"
        )
        self._first_token = self._histogram(
            "cortex_time_to_first_token_seconds",
            "From the question to the first word of its answer",
            _REQUEST_BUCKETS_S,
        )
        self._degraded = self._counter("cortex_degraded", "Parts that did not do their work", "part", "code")
        self._answers = self._counter("cortex_answers", "Answers given", "mode")
        self._tools = self._counter("cortex_tool_calls", "Tools called by agents", "tool", "code")

    def request(self, route: str, method: str, status: int, code: str, seconds: float) -> None:
        """Count one finished request; `route` is the template, never the path, so that ids make no series."""
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if code:
            self._errors.labels(route, code).inc()

    def search(self, result: SearchResult) -> None:
        """Count one search's steps and degraded parts."""
        self._observe(result.timings_ms)
        for degraded in result.degraded:
            self._degraded.labels(degraded.part, degraded.code).inc()

    def answer(self, answer: Answer, result: SearchResult) -> None:
        """Count one answer (extractive, generated or abstained), and the steps and degraded parts of writing it."""
        self._answers.labels(answer.mode).inc()
        self._observe({name: ms for name, ms in answer.timings_ms.items() if name not in result.timings_ms})
        for degraded in answer.degraded:
            self._degraded.labels(degraded.part, degraded.code).inc()

    def first_token(self, seconds: float) -> None:
        """Observe how long the first word of an answer took."""
        self._first_token.observe(seconds)

    def tool(self, name: str, code: str) -> None:
        """Count one call of a tool that exists; `code` is that of its error, or `ok`."""
        self._tools.labels(name, code).inc()

    def text(self) -> bytes:
        """Render everything in Prometheus' text format."""
        return generate_latest(self._shown)

    def _observe(self, timings_ms: Mapping[str, float]) -> None:
        for step, time_ms in timings_ms.items():
            self._steps.labels(step).observe(time_ms / 1000)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(name, about, labels, registry=self._registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, about, labels, buckets=buckets, registry=self._registry)


class _OfReplica(Collector):
    """A registry whose series say which replica they are of."""

    def __init__(self, registry: CollectorRegistry, replica: str) -> None:
        self._registry = registry
        self._replica = replica

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [
                sample._replace(labels={**sample.labels, "replica": self._replica})
                for sample in family.samples
            ]
            yield family
