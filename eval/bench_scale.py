"""Many small documents end to end: `python -m eval.bench_scale --documents 100000`.

One-paragraph notes are loaded by `cortex ingest files` into a scratch home, loaded again (nothing may change), and
searched. Printed as one JSON document: seconds and documents a second of both runs, the peak memory of the job's
processes, the median search before and after, what each engine holds of memory and what the home takes of disk.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click
import httpx
import psutil

from cortex.console import command, write_document, write_progress
from cortex.errors import Corrupt
from cortex.settings import Settings
from eval.invented import NOTES, questions, write_documents
from eval.processes import peak_of_job, pss_bytes
from eval.scratch import run_cortex, scratch_home

_READER = "bench@example.com"
_PER_FOLDER = 1_000
_N_SEARCHES = 50
_LOAD_TIMEOUT_S = 6 * 3_600.0
_MIB = 1024 * 1024


def measure_scale(n_documents: int) -> dict[str, Any]:
    """Load, load again and search; raises Corrupt when a document is lost or the second run changes anything."""
    os.environ["CORTEX_HTTP_PORT"] = "0"
    with TemporaryDirectory() as folder, scratch_home(engines=()) as settings:
        _write(Path(folder), n_documents)
        write_progress("scale.written", n_documents=n_documents)
        with peak_of_job(settings) as peak:
            first = _load(Path(folder))
        write_progress("scale.loaded", seconds=first["seconds"])
        again = _load(Path(folder))
        _assert_whole(n_documents, first, again)
        search_ms = sorted(_searches_ms(settings))
        return {
            "n_documents": n_documents,
            "n_chunks": first["chunks"],
            "load_s": first["seconds"],
            "documents_per_s": round(n_documents / first["seconds"], 1),
            "again_s": again["seconds"],
            "again_documents_per_s": round(n_documents / again["seconds"], 1),
            "job_peak_mib": round(peak.n_bytes / _MIB),
            "search_ms": {
                "p50": round(median(search_ms), 1),
                "p95": round(search_ms[len(search_ms) * 95 // 100], 1),
            },
            "engines_mib": dict(_engines_mib(settings)),
            "disk_mib": dict(_disk_mib(settings)),
            "n_cores": os.cpu_count(),
        }


def _write(folder: Path, n_documents: int) -> None:
    for number, start in enumerate(range(0, n_documents, _PER_FOLDER)):
        n = min(_PER_FOLDER, n_documents - start)
        write_documents(folder / f"{number:04}", n, number, _READER, NOTES)


def _load(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(
        run_cortex("ingest", "files", str(folder), "--json", timeout_s=_LOAD_TIMEOUT_S)
    )
    return report


def _assert_whole(n_documents: int, first: dict[str, Any], again: dict[str, Any]) -> None:
    """A figure of a load that lost something would mean nothing."""
    wanted = {"indexed": n_documents, "failed": []}, {"indexed": 0, "unchanged": n_documents, "failed": []}
    for report, expected in zip((first, again), wanted, strict=True):
        if {name: report[name] for name in expected} != expected:
            raise Corrupt(f"the load is not whole: {str(report)[:400]}", code="scratch.failed")


def _searches_ms(settings: Settings) -> Iterator[float]:
    token = run_cortex("token", _READER).strip()
    with httpx.Client(base_url=settings.http_url, headers={"Authorization": f"Bearer {token}"}) as client:
        for number, question in enumerate(questions(_N_SEARCHES + 3, seed=1)):
            started = time.monotonic()
            client.post("/v1/search", json={"query": question}, timeout=60).raise_for_status()
            if number >= 3:  # the first ones fill caches
                yield (time.monotonic() - started) * 1_000


def _engines_mib(settings: Settings) -> Iterator[tuple[str, int]]:
    engines = json.loads(settings.state_path.read_text())["engines"]
    for name, engine in engines.items():
        if engine.get("pid"):
            process = psutil.Process(engine["pid"])
            yield name, round(pss_bytes([process, *process.children(recursive=True)]) / _MIB)


def _disk_mib(settings: Settings) -> Iterator[tuple[str, int]]:
    for folder in sorted(path for path in settings.home.iterdir() if path.is_dir()):
        n_bytes = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
        yield folder.name, round(n_bytes / _MIB)


@click.command()
@click.option("--documents", "n_documents", default=100_000, show_default=True, type=click.IntRange(1))
@command
def main(n_documents: int) -> None:
    """Print one JSON document; progress goes to stderr."""
    write_document(measure_scale(n_documents))


if __name__ == "__main__":
    main()
