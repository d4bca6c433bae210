"""Processes of a scratch home: what they hold of memory, and those that a job adds."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from cortex.errors import Unavailable
from cortex.settings import Settings

_EVERY_S = 1.0


def family(settings: Settings) -> list[psutil.Process]:
    """List the supervisor and all below it."""
    supervisor = psutil.Process(json.loads(settings.state_path.read_text())["supervisor"]["pid"])
    return [supervisor, *supervisor.children(recursive=True)]


def pss_bytes(processes: Iterable[psutil.Process]) -> int:
    """Add up proportional set sizes: shared pages count once in all. A process that ended counts nothing."""
    return sum(map(_pss_bytes, processes))


def engine_pss_bytes(settings: Settings, engine: str) -> int:
    """Measure one engine of the home, with all below it."""
    process = psutil.Process(_engines(settings)[engine]["pid"])
    return pss_bytes([process, *process.children(recursive=True)])


def engine_pids(settings: Settings, engine: str) -> list[int]:
    """Return the process of one engine of the home; none while it is down."""
    pid = _engines(settings)[engine]["pid"]
    return [pid] if pid else []


def ray_workers(settings: Settings) -> list[int]:
    """List the processes that do a load's work in the home's Ray."""
    return [process.pid for process in family(settings) if "MapWorker" in _name(process)]


def await_engines(settings: Settings, timeout_s: float = 120.0) -> None:
    """Return when all engines run; raises Unavailable when time is up."""
    deadline = time.monotonic() + timeout_s
    while not all(_is_running(engine) for engine in _engines(settings).values()):
        if time.monotonic() > deadline:
            raise Unavailable("an engine does not come back", code="scratch.failed")
        time.sleep(0.2)


def _engines(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(settings.state_path.read_text())["engines"]
    return found


def _is_running(engine: dict[str, Any]) -> bool:
    return bool(engine["state"] == "ready" and engine["pid"] and psutil.pid_exists(engine["pid"]))


@dataclass(slots=True)
class Peak:
    """The most that a job's processes held at once, and how many they were then."""

    n_bytes: int = 0
    n_processes: int = 0
    largest: list[tuple[str, int]] = field(default_factory=list)


@contextmanager
def peak_of_job(settings: Settings) -> Iterator[Peak]:
    """Watch what a job adds: the processes below this one, and those that appear in the home's Ray meanwhile.

    What other engines start for themselves, such as the index its optimizer, is theirs.
    """
    peak, is_over = Peak(), threading.Event()
    ray = psutil.Process(_engines(settings)["ray"]["pid"])
    before = {process.pid for process in ray.children(recursive=True)}

    def watch() -> None:
        while not is_over.wait(_EVERY_S):
            added = [process for process in ray.children(recursive=True) if process.pid not in before]
            added += psutil.Process().children(recursive=True)
            sizes = [(process, _pss_bytes(process)) for process in added]
            total = sum(size for _, size in sizes)
            if total > peak.n_bytes:
                peak.n_bytes, peak.n_processes = total, len(sizes)
                peak.largest = sorted(
                    ((_name(process), size) for process, size in sizes), key=lambda one: -one[1]
                )

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        is_over.set()
        watcher.join()


def _pss_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def _name(process: psutil.Process) -> str:
    try:
        command = process.cmdline()
    except psutil.Error:
        return ""
    return command[0] if command and command[0].startswith("ray::") else " ".join(command[1:4])
