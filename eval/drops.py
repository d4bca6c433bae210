"""Clients who leave in the middle of an answer, thousands of them: nothing may stay behind, at the model or in memory."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from cortex.settings import Settings
from eval.display import Watch
from eval.first_token import ANSWER
from eval.plain_http import Client
from eval.processes import pss_bytes, replicas
from eval.raw_parts import Prepared
from eval.streams import BEGINNING, open_client
from eval.upstream import Control, Pace

_LAPS = 10
_CLEAN_UP_S = 30.0
_FOR_MINUTES = Pace(first_s=0.02, pause_s=0.5, n_words=500)
_IN_FLIGHT = re.compile(r"^cortex_queries_in_flight(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_MIB = 1024 * 1024
_REPLICA = {"fused": "replica query", "staged": "replica ingress"}


def drop_all(
    settings: Settings, upstream: Control, questions: Sequence[Prepared], n: int, on_progress: Watch
) -> dict[str, Any]:
    """Let `n` clients ask for a stream and leave, one half at its first bytes, the other at its first token.

    The answers would go on for minutes. A tenth of as many go before: they fill caches and pools. Then memory is read, and
    again after each tenth of the others, once nothing is open any more.
    """
    upstream.set_pace(_FOR_MINUTES)
    asyncio.run(_drop(settings.http_url, questions, max(1, n // _LAPS)))
    left = _await_quiet(settings, upstream)
    before, started = upstream.counts(), time.monotonic()
    pss, outcomes = [_pss(settings)], Counter[str]()
    for lap in range(_LAPS):
        outcomes += asyncio.run(
            _drop(settings.http_url, questions, n * (lap + 1) // _LAPS - n * lap // _LAPS)
        )
        left = _await_quiet(settings, upstream)
        pss.append(_pss(settings))
        on_progress(f"{settings.placement}: clients who left", lap + 1, _LAPS)
    after = upstream.counts()
    return {
        "n": n,
        "outcomes": dict(outcomes),
        "memory_mib": {part: [round(one.get(part, 0) / _MIB, 1) for one in pss] for part in sorted(pss[0])},
        "growth": round(growth(pss, _REPLICA[settings.placement]), 3),
        "n_begun_at_model": after.n_begun - before.n_begun,
        "n_left_at_model": after.n_left - before.n_left,
        "n_open_after": left[0],
        "n_in_flight_after": left[1],
        "per_second": round(n / (time.monotonic() - started), 1),
    }


def growth(pss: Sequence[Mapping[str, int]], part: str) -> float:
    """Compare the memory of a part at the end with that before; the larger of the last two counts."""
    return max(one.get(part, 0) for one in pss[-2:]) / pss[0][part]


async def _drop(url: str, questions: Sequence[Prepared], n: int) -> Counter[str]:
    beginning, outcomes = asyncio.Semaphore(BEGINNING), Counter[str]()

    async def one(client: httpx.AsyncClient, number: int) -> None:
        async with beginning:
            try:
                outcomes[await _leave(client, questions[number % len(questions)], number % 2 == 0)] += 1
            except httpx.HTTPError as error:
                outcomes[type(error).__name__] += 1

    async with open_client(url) as client:
        await asyncio.gather(*(one(client, number) for number in range(n)))
    return outcomes


async def _leave(client: httpx.AsyncClient, prepared: Prepared, at_first_bytes: bool) -> str:
    """Ask and leave: the connection is closed while the answer is being written."""
    body = {"query": prepared.asked.text, "stream": True}
    async with client.stream("POST", ANSWER, json=body, headers=prepared.headers) as response:
        response.raise_for_status()
        async for piece in response.aiter_bytes():
            if at_first_bytes:
                return "left at the first bytes"
            if b"event: token" in piece:
                return "left at the first token"
    return "ended by itself"


def _await_quiet(settings: Settings, upstream: Control) -> tuple[int, int]:
    """Wait until nothing is open, for a bounded time; returns what is: at the model, and as questions in flight."""
    give_up_at_s = time.monotonic() + _CLEAN_UP_S
    while True:
        left = upstream.counts().n_open, in_flight(settings.http_url)
        if left == (0, 0) or time.monotonic() > give_up_at_s:
            return left
        time.sleep(0.2)


def in_flight(url: str) -> int:
    """Read how many questions the ingress says it works on."""
    with Client(url) as client:
        return read_in_flight(client.get("/metrics").body.decode())


def read_in_flight(metrics: str) -> int:
    """Find the figure in the metrics' text; raises ValueError when it is not there."""
    found = _IN_FLIGHT.search(metrics)
    if found is None:
        raise ValueError("no cortex_queries_in_flight among the metrics")
    return int(float(found.group(1)))


def _pss(settings: Settings) -> dict[str, int]:
    return {part: pss_bytes(processes) for part, processes in replicas(settings).items()}
