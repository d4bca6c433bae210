"""The supervisor's record, `$CORTEX_HOME/run/state.json`: which engines run, where, since when, and why not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil

from cluster.place import write_private


class Phase(StrEnum):
    """Where an engine is in its life."""

    WAITING = "waiting"  # for the engines it depends on
    STARTING = "starting"
    READY = "ready"
    UNHEALTHY = "unhealthy"  # runs, but does not answer
    RESTARTING = "restarting"  # ended by itself; the next start waits for its pause
    FAILED = "failed"  # a crash loop; still tried now and then
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    started_at: float  # seconds since the epoch

    @classmethod
    def of(cls, pid: int) -> ProcessRecord:
        """Record a running process; one that just ended gets a start time that matches none."""
        try:
            return cls(pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:
            return cls(pid, 0.0)

    def find(self) -> psutil.Process | None:
        """Return the recorded process if it still runs."""
        try:
            process = psutil.Process(self.pid)
            # The boot time that start times count from may shift by a second when the clock is set.
            is_same = abs(process.create_time() - self.started_at) < 2.0
            return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


@dataclass(frozen=True, slots=True)
class EngineState:
    """One engine's state. `url` holds no password; `start_s` is the time from its start to ready."""

    state: Phase
    since: float
    url: str = ""
    log: str = ""
    pid: int | None = None
    started_at: float = 0.0
    restarts: int = 0
    reason: str = ""
    start_s: float | None = None
    is_embedded: bool = True

    @property
    def process(self) -> ProcessRecord | None:
        """The engine's process, if it has one."""
        return ProcessRecord(self.pid, self.started_at) if self.pid else None


@dataclass(frozen=True, slots=True)
class RunState:
    """The whole record. `env` holds the settings that reach the engines, secrets included: the file is 0600."""

    supervisor: ProcessRecord
    engines: dict[str, EngineState] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    ready_s: float | None = None  # from the supervisor's start to everything ready

    @property
    def is_running(self) -> bool:
        """Whether the supervisor that wrote this still runs."""
        return self.supervisor.find() is not None

    @property
    def is_ready(self) -> bool:
        """Whether every engine is ready."""
        return all(engine.state is Phase.READY for engine in self.engines.values())

    def write(self, path: Path) -> None:
        """Replace the record in one step."""
        write_private(path, json.dumps(asdict(self), indent=2))


def read_state(path: Path) -> RunState | None:
    """Read the record; None when there is none or it is damaged."""
    try:
        raw = json.loads(path.read_text())
        engines = {
            name: EngineState(**{**engine, "state": Phase(engine["state"])})
            for name, engine in raw["engines"].items()
        }
        return RunState(ProcessRecord(**raw["supervisor"]), engines, raw["env"], raw["ready_s"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget_state(path: Path) -> None:
    """Remove the record, so that no program takes a stopped engine for a running one."""
    path.unlink(missing_ok=True)
