"""Health: alive, ready (by a real query), and metrics."""

from __future__ import annotations

import asyncio
import hmac
import time

from fastapi import APIRouter, Request, Response

from cortex.errors import CortexError, Forbidden, TimedOut
from cortex.settings import Settings
from serve_apps.guard import is_loopback
from serve_apps.metrics import Metrics
from serve_apps.service import QueryService

_READY_TIMEOUT_S = 10.0
_READY_FOR_S = 1.0  # one real query a second is enough, however often probes ask
_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")


def health_routes(queries: QueryService, settings: Settings, metrics: Metrics) -> APIRouter:
    """Make the routes that probes and scrapers call."""
    router = APIRouter(tags=["health"])
    readiness = {by_words: Readiness(queries, by_words=by_words) for by_words in (False, True)}

    @router.get("/healthz", summary="Alive")
    async def healthz() -> dict[str, str]:
        """Answers as long as the process does; touches nothing."""
        return {"status": "alive"}

    @router.get("/readyz", summary="Ready")
    async def readyz(words: bool = False) -> dict[str, str]:
        """Runs a real query through index, catalog and permission checker; 503 names the part that fails.

        With `words` it asks by words alone: a probe then wakes no encoder that rests.
        """
        await readiness[words].check()
        return {"status": "ready"}

    @router.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def read_metrics(request: Request) -> Response:
        """For a scraper with CORTEX_METRICS_TOKEN, or on this machine itself."""
        _require_scraper(request, settings)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


class Readiness:
    """Runs one readiness query at a time and keeps its outcome for a second."""

    def __init__(self, queries: QueryService, *, by_words: bool) -> None:
        self._queries = queries
        self._by_words = by_words
        self._lock = asyncio.Lock()
        self._checked_at_s = float("-inf")
        self._failure: CortexError | None = None

    async def check(self) -> None:
        """Raise what the last query raised, if it is recent; else run one."""
        async with self._lock:
            if time.monotonic() - self._checked_at_s > _READY_FOR_S:
                self._failure = await self._query()
                self._checked_at_s = time.monotonic()
        if self._failure is not None:
            raise self._failure

    async def _query(self) -> CortexError | None:
        try:
            async with asyncio.timeout(_READY_TIMEOUT_S):
                await self._queries.ready(by_words=self._by_words)
        except CortexError as error:
            return error
        except TimeoutError:
            return TimedOut("the readiness query took too long")
        return None


def _require_scraper(request: Request, settings: Settings) -> None:
    """Let in a bearer of the metrics token, or a direct caller on this machine; what proxies claim is not trusted."""
    expected = settings.metrics_token.get_secret_value()
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if expected and hmac.compare_digest(given.encode(), expected.encode()):
        return
    is_forwarded = any(name in request.headers for name in _FORWARDED)
    is_local = request.client is not None and is_loopback(request.client.host)
    if expected or is_forwarded or not is_local:
        raise Forbidden("metrics need the metrics token", hint="set CORTEX_METRICS_TOKEN and send it")
