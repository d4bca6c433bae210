"""`cortex bench start`: how long from nothing running to a ready Cortex, and what it costs to stand still."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from cortex.documents import Grant, GrantKind, Membership
from cortex.ids import source_id
from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings, read_settings
from data_jobs.parts import open_catalog
from eval.processes import family, pss_bytes
from eval.scratch import run_cortex, scratch_home

_SAMPLE = Path(__file__).parents[1] / "examples" / "sample_company"
_IDLE_S = 20.0
_SETTLE_S = 10.0  # caches fill and health checks find their rhythm
_TENANT = "bench"
_MEMBERS_PER_GROUP = 50
_MIB = 1024 * 1024


def measure_start(rounds: int, n_tuples: int, on_progress: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Load the sample company and `n_tuples` group memberships once, then start and stop Cortex `rounds` times."""
    os.environ["CORTEX_HTTP_PORT"] = "0"
    with scratch_home(engines=()) as settings:
        run_cortex("ingest", "files", str(_SAMPLE), "--json", timeout_s=600)
        _add_tuples(read_settings(), n_tuples)
        run_cortex("down")
        starts = []
        for number in range(1, rounds + 1):
            starts.append(_timed_start())
            on_progress("starts", number, rounds)
            if number < rounds:
                run_cortex("down")
        reload = _last_reload(settings)
        time.sleep(_SETTLE_S)
        idle_cores, memory_mib = _standing_still(settings)
    ready = [seconds for seconds, _ in starts]
    return {
        "rounds": rounds,
        "ready_s": {"median": round(median(ready), 2), "all": [round(seconds, 2) for seconds in ready]},
        "engines_s": {
            name: round(median(engines[name] for _, engines in starts if name in engines), 2)
            for name in sorted({name for _, engines in starts for name in engines})
        },
        "reload_n_tuples": reload["n_tuples"],
        "reload_s_per_million_tuples": reload["seconds_per_million"],
        "idle_cores": round(idle_cores, 3),
        "memory_mib": memory_mib,
        "n_cores": os.cpu_count(),
    }


def _timed_start() -> tuple[float, dict[str, float]]:
    """Run `cortex up`; returns its wall seconds and each engine's own."""
    started = time.monotonic()
    document = json.loads(run_cortex("up", "--json", timeout_s=300))
    seconds = time.monotonic() - started
    return seconds, {
        name: engine["start_s"] for name, engine in document["engines"].items() if engine.get("start_s")
    }


def _add_tuples(settings: Settings, n_tuples: int) -> None:
    with open_catalog(settings) as catalog:
        source = SourceConfig(_TENANT, source_id(_TENANT, "bench", "groups"), "bench", "groups")
        catalog.ensure_source(source)
        catalog.ensure_users(_TENANT, [f"person{i}" for i in range(_MEMBERS_PER_GROUP)])
        edges = [
            Membership(
                f"group{i // _MEMBERS_PER_GROUP}", Grant(GrantKind.USER, f"person{i % _MEMBERS_PER_GROUP}")
            )
            for i in range(n_tuples)
        ]
        catalog.set_memberships(_TENANT, source.source_id, edges)


def _last_reload(settings: Settings) -> dict[str, Any]:
    """Read from SpiceDB's log what the reload of the last start took: one into an engine that held nothing."""
    lines = (settings.logs_path / "spicedb.log").read_text().splitlines()
    told: dict[str, Any] = json.loads(
        next(line for line in reversed(lines) if "permissions.reloaded" in line)
    )
    return told


def _standing_still(settings: Settings) -> tuple[float, int]:
    """Measure the cores used over twenty idle seconds and the memory (PSS, MiB) of every process of the home."""
    processes = family(settings)
    before = _cpu_s(processes)
    time.sleep(_IDLE_S)
    cores = (_cpu_s(processes) - before) / _IDLE_S
    return cores, round(pss_bytes(processes) / _MIB)


def _cpu_s(processes: list[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
