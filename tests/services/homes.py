"""Scratch homes for tests: real engines in a throw-away data directory, driven by the ordinary commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.children import kill_all
from cluster.state import RunState, read_state
from cortex.settings import Settings, read_settings


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command said: its exit code, its one JSON document, its stderr."""

    code: int
    document: Any
    stderr: str


@dataclass(frozen=True, slots=True)
class ScratchHome:
    """A home that nothing of the machine's own Cortex settings reaches."""

    path: Path
    extra_env: Mapping[str, str] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        """The environment of its commands."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
        return {**kept, "CORTEX_HOME": str(self.path), "CORTEX_HTTP_PORT": "0", **self.extra_env}

    def cortex(self, *arguments: str, timeout_s: float = 240) -> Ran:
        """Run `cortex ARGUMENTS --json`."""
        command = [sys.executable, "-m", "clients.cli.main", *arguments, "--json"]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=timeout_s)
        return Ran(done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr)

    def up(self, *engines: str) -> Ran:
        """Start engines; fails the test with what was said when they do not start."""
        ran = self.cortex("up", *(["--only", ",".join(engines)] if engines else []))
        assert ran.code == 0, f"{ran.document}\n{ran.stderr}\n{self.logs()}"
        return ran

    def down(self) -> None:
        """End everything; fails the test when something cannot be ended."""
        ran = self.cortex("down")
        assert ran.code == 0, ran.document

    @property
    def state(self) -> RunState:
        """The supervisor's record."""
        state = read_state(self.path / "run" / "state.json")
        assert state is not None
        return state

    def everything(self) -> list[psutil.Process]:
        """The supervisor and all that runs below it at this moment."""
        supervisor = psutil.Process(self.state.supervisor.pid)
        return [supervisor, *supervisor.children(recursive=True)]

    def kill_engines(self, *names: str) -> None:
        """Kill engines in one moment; that one of them ends by itself when the one before it is gone is no fault."""
        engines = self.state.engines
        processes = []
        for name in names:
            pid = engines[name].pid
            assert pid is not None, name
            processes.append(psutil.Process(pid))
        kill_all(processes)

    def settings(self) -> Settings:
        """The settings as a program in this home reads them."""
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("CORTEX_")]:
                patch.delenv(name)
            for name, value in self.env.items():
                if name.startswith("CORTEX_"):
                    patch.setenv(name, value)
            return read_settings()

    def logs(self) -> str:
        """The ends of all logs, for the message of a failed test."""
        return "\n".join(
            f"== {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            for log in sorted((self.path / "logs").glob("*.log"))
        )


def command_line(process: psutil.Process) -> str:
    """Return how a process was started; empty for one that has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
