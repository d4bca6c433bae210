"""Processes of a scratch home: what they hold of memory, and those that a job adds."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from cortex.errors import Unavailable
from cortex.settings import Settings

_EVERY_S = 1.0
_STILL_CORES, _STILL_S = 0.3, 3.0
_LONGEST_WAIT_S = 120.0
_REPLICA = re.compile(r"ray::ServeReplica:(\w+):(\w+)")
_ACTORS = {"ray::Proxy": "proxy", "ray::ServeController": "controller"}
_SERVERS = {"raylet": "raylet", "gcs_server": "gcs"}
CLIENTS = "clients"


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


def replicas(settings: Settings) -> dict[str, list[psutil.Process]]:
    """Find the processes that a question passes through in Serve: the proxy, and the replicas by deployment."""
    found: dict[str, list[psutil.Process]] = {}
    for process in family(settings):
        role = _role(process)
        if role == "proxy" or role.startswith("replica "):
            found.setdefault(role, []).append(process)
    return found


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor seconds by process since its start: read once before and once after, for looking costs what is measured."""

    by_pid: Mapping[int, tuple[str, float]]

    def until(self, later: Spent) -> dict[str, float]:
        """Add up what each part has used since, in seconds; a process that ended meanwhile counts nothing."""
        used: defaultdict[str, float] = defaultdict(float)
        for pid, (part, seconds) in later.by_pid.items():
            used[part] += seconds - self.by_pid.get(pid, (part, 0.0))[1]
        return dict(used)


def spent(settings: Settings) -> Spent:
    """Read what every process of the home, and this one, has used, by part of Cortex."""
    engines = {engine["pid"]: name for name, engine in _engines(settings).items() if engine["pid"]}
    supervisor, *below = family(settings)
    by_pid = {supervisor.pid: ("supervisor", _cpu_s(supervisor))}
    by_pid |= {process.pid: (_part(process, engines), _cpu_s(process)) for process in below}
    this = psutil.Process()
    return Spent(by_pid | {this.pid: (CLIENTS, _cpu_s(this))})


def await_stillness(settings: Settings) -> None:
    """Return once the home's processes hardly work, or when time is up: after a load the index is optimized for a while."""
    give_up_at_s = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < give_up_at_s:
        before = spent(settings)
        time.sleep(_STILL_S)
        used = before.until(spent(settings))
        used.pop(CLIENTS)
        if sum(used.values()) / _STILL_S < _STILL_CORES:
            return


def _part(process: psutil.Process, engines: Mapping[int, str]) -> str:
    """Name the engine that a process belongs to; of Ray's, what it does."""
    if role := _role(process):
        return role
    try:
        line = [process, *process.parents()]
    except psutil.Error:
        return "ended"
    return next((engines[each.pid] for each in line if each.pid in engines), "supervisor")


def _role(process: psutil.Process) -> str:
    """Say what a process of Ray's does; empty for any other, and for Ray's small helpers."""
    name = _name(process)
    if match := _REPLICA.match(name):
        app, deployment = match.groups()
        return f"replica {deployment}" if app == "cortex" else f"app {app}"
    try:
        server = _SERVERS.get(process.name(), "")
    except psutil.Error:
        return ""
    return server or next((role for mark, role in _ACTORS.items() if name.startswith(mark)), "")


def _cpu_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def await_engines(settings: Settings) -> None:
    """Return when all engines run; raises Unavailable when time is up."""
    deadline = time.monotonic() + _LONGEST_WAIT_S
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
    """The most that a job's processes held at once, and what each of them held then, the largest first."""

    n_bytes: int = 0
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
                peak.n_bytes = total
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
