"""Several clients who search at once: how many requests a second, and what each costs in every part of Cortex."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any

from cortex.settings import Settings
from eval.plain_http import Client, Reply
from eval.processes import CLIENTS, spent
from eval.query_rounds import largest, p50, percentile, stages_document
from eval.raw_parts import SEARCH, Prepared

N_CLIENTS = 8


@dataclass(frozen=True, slots=True)
class CrowdRound:
    """One round: what each request took in milliseconds and by step, the seconds of all, processor seconds by part."""

    took_ms: Sequence[float]
    stages: Sequence[Mapping[str, float]]
    wall_s: float
    cpu_s: Mapping[str, float]

    @property
    def per_second(self) -> float:
        """Requests answered a second."""
        return len(self.took_ms) / self.wall_s

    def cpu_ms_per_request(self) -> dict[str, float]:
        """Processor milliseconds of a request, by part."""
        return {part: seconds * 1000 / len(self.took_ms) for part, seconds in self.cpu_s.items()}


def crowd_round(settings: Settings, questions: Sequence[Prepared]) -> CrowdRound:
    """Let eight clients ask all questions twice between them, each over a connection of its own."""
    shares = [[*questions, *questions][number::N_CLIENTS] for number in range(N_CLIENTS)]
    with ThreadPoolExecutor(N_CLIENTS) as pool:
        before, started = spent(settings), time.perf_counter()
        by_client = list(pool.map(lambda share: _ask(settings.http_url, share), shares))
        wall_s = time.perf_counter() - started
        cpu_s = before.until(spent(settings))
    replies = [reply for some in by_client for reply in some]
    stages = [reply.document()["timings_ms"] for reply in replies]
    return CrowdRound([reply.took_ms for reply in replies], stages, wall_s, cpu_s)


def _ask(url: str, questions: Sequence[Prepared]) -> list[Reply]:
    with Client(url) as client:
        return [client.post(SEARCH, prepared.body, prepared.headers) for prepared in questions]


def crowd_document(rounds: Sequence[CrowdRound]) -> dict[str, Any]:
    """State the medians over rounds; the clients' own processor time stands apart from Cortex'."""
    costs = [one.cpu_ms_per_request() for one in rounds]
    parts = sorted({part for cost in costs for part in cost})
    cpu_ms = {part: round(median(cost.get(part, 0.0) for cost in costs), 2) for part in parts}
    clients_ms = cpu_ms.pop(CLIENTS, 0.0)
    stages = stages_document([each for one in rounds for each in one.stages])
    by_step = {name: figures["p50"] for name, figures in stages.items() if name != "total"}
    return {
        "n_clients": N_CLIENTS,
        "per_second": round(median(one.per_second for one in rounds), 1),
        "p50_ms": round(median(p50(one.took_ms) for one in rounds), 1),
        "p95_ms": round(median(percentile(one.took_ms, 0.95) for one in rounds), 1),
        "cpu_ms_per_request": {
            "sum": round(sum(cpu_ms.values()), 2),
            **{part: cpu_ms[part] for part in largest(cpu_ms, len(cpu_ms)) if cpu_ms[part] >= 0.01},
        },
        "clients_cpu_ms_per_request": clients_ms,
        "stages_ms": stages,
        "largest": {"processes": largest(cpu_ms), "steps": largest(by_step)},
        "n_searches": sum(len(one.took_ms) for one in rounds),
    }
