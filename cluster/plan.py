"""The plan of `cortex doctor`: what 10 thousand to a million chunks take, beside what this machine can give."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from cluster.children import descendants
from cluster.place import existing
from cluster.state import RunState, read_state
from cortex.errors import Unavailable
from cortex.settings import Settings

_TIMEOUT_S = 60
_FOLDERS = {"postgres": "catalog", "qdrant": "index", "objects": "objects"}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a home: its bytes now (None: not known apart) and at each step; `is_here` unless a server holds it."""

    name: str
    now_bytes: int | None
    step_bytes: tuple[int, ...]
    is_here: bool = True


@dataclass(frozen=True, slots=True)
class Room:
    """Disk or memory, in bytes: what the home uses, what is free beside it, and what each step takes on this machine."""

    used_bytes: int
    free_bytes: int
    step_bytes: tuple[int, ...]
    fits: tuple[bool, ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class ResourcePlan:
    """What the home holds now, and what it takes to hold `steps` chunks."""

    n_chunks: int
    n_documents: int
    n_tuples: int
    chunks_per_document: float
    steps: tuple[int, ...]
    disk: Room
    memory: Room


def plan_resources(settings: Settings) -> ResourcePlan:
    """Plan for this home on this machine; raises Unavailable when a running catalog cannot be counted."""
    told = _ask(settings)
    state = read_state(settings.state_path)
    remote = {name for name, engine in state.engines.items() if not engine.is_embedded} if state else set()
    folders = {part: folder_bytes(settings.home / name) for name, part in _FOLDERS.items()}
    memory = _memory_bytes(state)
    now = told["now"]
    return ResourcePlan(
        now["n_chunks"],
        now["n_documents"],
        now["n_tuples"],
        told["chunks_per_document"],
        tuple(told["steps"]),
        _room("disk", told["parts"], folders, remote, shutil.disk_usage(existing(settings.home)).free),
        _room("memory", told["parts"], memory, remote, psutil.virtual_memory().available),
    )


def _ask(settings: Settings) -> Any:
    """Run the ingest side's planner, which knows the catalog and what was measured."""
    command = [sys.executable, "-m", "data_jobs.plan"]
    env = {**os.environ, "CORTEX_HOME": str(settings.home)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd="/", timeout=_TIMEOUT_S)
    if done.returncode:
        reason = json.loads(done.stdout)["error"]["message"] if done.stdout.startswith("{") else done.stderr
        raise Unavailable(f"disk and memory cannot be planned: {reason[-300:]}", hint="cortex status")
    return json.loads(done.stdout)


def _room(kind: str, told: Sequence[Any], now: dict[str, int], remote: set[str], free_bytes: int) -> Room:
    parts = tuple(
        Part(part["name"], now.get(part["name"]), tuple(part["step_bytes"]), part["engine"] not in remote)
        for part in told
        if part["kind"] == kind
    )
    used = sum(now.values())
    needed = tuple(map(sum, zip(*(part.step_bytes for part in parts if part.is_here), strict=True)))
    return Room(used, free_bytes, needed, tuple(step <= used + free_bytes for step in needed), parts)


def _memory_bytes(state: RunState | None) -> dict[str, int]:
    """Measure the engines' memory (proportional set size) by the plan's names."""
    names = {"qdrant": "index in memory", "spicedb": "permissions", "ray": "Ray and the query path"}
    found: dict[str, int] = {}
    for name, engine in (state.engines if state and state.is_running else {}).items():
        process = engine.process.find() if engine.process else None
        family = [process, *descendants(process.pid)] if process else []
        part = names.get(name, "catalog and relay")
        found[part] = found.get(part, 0) + sum(map(_pss_bytes, family))
    return found


def _pss_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0


def folder_bytes(folder: Path) -> int:
    """Add up what a folder's files occupy on the disk; files that vanish meanwhile count nothing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in (".", *names):
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512  # noqa: PTH118 - millions of files
            except OSError:
                continue
    return total
