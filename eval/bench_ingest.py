"""`cortex bench ingest`: a bulk load against a bare embedding loop, its memory as the load grows, and search beside it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from connectors.registry import build_connector
from cortex.settings import Settings
from data_jobs.compare import changed
from data_jobs.parts import build_objects, build_token_counter
from data_jobs.rows import Row
from data_jobs.sources import files_source
from data_jobs.stages.parse import ParseStage
from data_jobs.work import build_prepare, prepare_one
from eval.bare_embed import bare_seconds
from eval.invented import questions, write_documents
from eval.processes import Peak, engine_pss_bytes, peak_of_job
from eval.scratch import run_cortex, scratch_home

_READER = "bench@example.com"
_GROWTH = 10
_PAUSE_S = 0.5  # between searches: one person who reads
_SEARCHES_AT_REST = 30
_SEARCHES_DURING = 300
_JOB_TIMEOUT_S = 7_200.0
_MIB = 1024 * 1024
_SHAPES = ((1, 2), (2, 1))  # processes x threads: both use two cores

Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Round:
    """One corpus, embedded bare in some shapes and loaded as a job, and a quarter as many documents loaded beside it."""

    n_chunks: int
    bare_s: dict[str, float]
    job_s: float
    wall_s: float
    quarter_chunks: int
    quarter_wall_s: float

    @property
    def bare_chunks_per_s(self) -> float:
        """The pace of the better bare loop, its start left out."""
        return self.n_chunks / min(self.bare_s.values())

    @property
    def ratio(self) -> float:
        """The job's throughput over that of the better bare loop, the job's start counted."""
        return min(self.bare_s.values()) / self.job_s

    @property
    def chunks_per_s(self) -> float:
        """The pace once started: the slope between the two loads, from command to exit."""
        return (self.n_chunks - self.quarter_chunks) / (self.wall_s - self.quarter_wall_s)

    @property
    def start_s(self) -> float:
        """What a load takes beside that pace."""
        return self.wall_s - self.n_chunks / self.chunks_per_s


def measure_ingest(rounds: int, n_documents: int, on_progress: Watch) -> dict[str, Any]:
    """Load `rounds` corpora of `n_documents`, each beside a smaller one, then ten times as many while somebody searches.

    Looking at memory takes a tenth of a core, so no load is timed and weighed: a first one is only weighed.
    """
    os.environ["CORTEX_HTTP_PORT"] = "0"
    with TemporaryDirectory() as temporary, scratch_home(engines=()) as settings:
        folder = Path(temporary)
        once_peak = _weighed(settings, folder / "once", n_documents)
        done: list[Round] = []
        for number in range(1, rounds + 1):
            done.append(_round(settings, folder, n_documents, number, _shapes(done)))
            on_progress("rounds", number, rounds)
        at_rest_ms = _searches_ms(settings, lambda n: n >= _SEARCHES_AT_REST)
        before = engine_pss_bytes(settings, "qdrant")
        on_progress("ten times as many", 0, 1)
        grown, grown_peak, busy_ms = _grown(settings, folder, n_documents * _GROWTH)
        on_progress("ten times as many", 1, 1)
        index_bytes = engine_pss_bytes(settings, "qdrant") - before
    bare_pace = median(one.bare_chunks_per_s for one in done)
    return {
        "rounds": rounds,
        "n_documents": n_documents,
        "n_chunks": [one.n_chunks for one in done],
        "bare_s": {
            shape: [round(one.bare_s[shape], 2) for one in done if shape in one.bare_s]
            for shape in done[0].bare_s
        },
        "bare_chunks_per_s": round(bare_pace, 2),
        "job_s": [one.job_s for one in done],
        "throughput_ratio": {
            "median": round(median(one.ratio for one in done), 3),
            "all": [round(one.ratio, 3) for one in done],
        },
        "chunks_per_s": round(median(one.n_chunks / one.job_s for one in done), 2),
        "steady": {
            "chunks_per_s": round(median(one.chunks_per_s for one in done), 2),
            "of_bare": round(median(one.chunks_per_s / one.bare_chunks_per_s for one in done), 3),
            "all": [round(one.chunks_per_s / one.bare_chunks_per_s, 3) for one in done],
            "start_s": round(median(one.start_s for one in done), 1),
        },
        "grown": {
            "n_chunks": grown["chunks"],
            "job_s": grown["seconds"],
            "chunks_per_s": round(grown["chunks"] / grown["seconds"], 2),
        },
        "peak_mib": {"once": round(once_peak.n_bytes / _MIB), "ten_times": round(grown_peak.n_bytes / _MIB)},
        "peak_growth": round(grown_peak.n_bytes / once_peak.n_bytes, 3),
        "peak_processes_mib": [(name, round(size / _MIB)) for name, size in grown_peak.largest],
        "index_mib_per_10k_chunks": round(index_bytes / _MIB / grown["chunks"] * 10_000, 1),
        "search_p50_ms": {"at_rest": round(median(at_rest_ms), 1), "during_load": round(median(busy_ms), 1)},
        "search_slowdown": round(median(busy_ms) / median(at_rest_ms), 2),
        "n_searches": {"at_rest": len(at_rest_ms), "during_load": len(busy_ms)},
        "n_cores": os.cpu_count(),
    }


def _weighed(settings: Settings, corpus: Path, n_documents: int) -> Peak:
    write_documents(corpus, n_documents, 0, _READER)
    with peak_of_job(settings) as peak:
        _load(corpus)
    return peak


def _shapes(done: list[Round]) -> list[tuple[int, int]]:
    """Choose how the bare loop runs: in both shapes at first, then in the one that was better."""
    return [min(_SHAPES, key=lambda shape: done[0].bare_s[_named(shape)])] if done else list(_SHAPES)


def _named(shape: tuple[int, int]) -> str:
    return f"{shape[0]}x{shape[1]}"


def _round(
    settings: Settings, folder: Path, n_documents: int, number: int, shapes: list[tuple[int, int]]
) -> Round:
    corpus = folder / f"round-{number}"
    write_documents(corpus, n_documents, number, _READER)
    write_documents(folder / f"quarter-{number}", max(1, n_documents // 4), -number, _READER)
    texts = _texts(settings, corpus)
    # Which goes first changes from round to round: what warms or tires the machine falls on both.
    if number % 2:
        bare = _bare(texts, folder, shapes)
    report = _load(corpus)
    quarter = _load(folder / f"quarter-{number}")
    if not number % 2:
        bare = _bare(texts, folder, shapes)
    assert report["chunks"] == len(texts)
    return Round(len(texts), bare, report["seconds"], report["wall_s"], quarter["chunks"], quarter["wall_s"])


def _bare(texts: list[str], folder: Path, shapes: list[tuple[int, int]]) -> dict[str, float]:
    return {_named(shape): bare_seconds(texts, folder, *shape) for shape in shapes}


def _texts(settings: Settings, corpus: Path) -> list[str]:
    """Make the chunks that the job will make."""
    connector = build_connector(files_source(settings, corpus))
    tokens = build_token_counter(settings)
    with ParseStage(settings) as parse:
        prepare = build_prepare(settings, connector, parse, build_objects(settings), tokens)
        rows = [prepare_one(prepare, row) for row in changed(connector, {}, "") if isinstance(row, Row)]
    return [chunk.embed_text for row in rows for chunk in row.chunks]


def _load(corpus: Path) -> dict[str, Any]:
    started = time.monotonic()
    report: dict[str, Any] = json.loads(
        run_cortex("ingest", "files", str(corpus), "--json", timeout_s=_JOB_TIMEOUT_S)
    )
    return {**report, "wall_s": time.monotonic() - started}


def _grown(settings: Settings, folder: Path, n_documents: int) -> tuple[dict[str, Any], Peak, list[float]]:
    """Load a large corpus, watched, while one person searches."""
    corpus = folder / "grown"
    write_documents(corpus, n_documents, -1_000, _READER)
    with peak_of_job(settings) as peak, ThreadPoolExecutor(1) as pool:
        load = pool.submit(_load, corpus)
        busy_ms = _searches_ms(settings, lambda n: load.done() or n >= _SEARCHES_DURING)
        return load.result(), peak, busy_ms


def _searches_ms(settings: Settings, is_enough: Callable[[int], bool]) -> list[float]:
    """Search with pauses until it is enough; returns the milliseconds of each, the first ones left out."""
    token = run_cortex("token", _READER).strip()
    took_ms: list[float] = []
    with httpx.Client(base_url=settings.http_url, headers={"Authorization": f"Bearer {token}"}) as client:
        for question in questions(100_000, seed=1):
            started = time.monotonic()
            client.post("/v1/search", json={"query": question}, timeout=60).raise_for_status()
            took_ms.append((time.monotonic() - started) * 1000)
            if is_enough(len(took_ms)):
                break
            time.sleep(_PAUSE_S)
    return took_ms[3:] or took_ms
