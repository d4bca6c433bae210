"""`cortex eval kills`: loads in Ray with something killed at a random moment; the next load must end where an undisturbed one does.

A folder changes between two states: other texts, other readers, pages that come and go. Undisturbed loads say once what
stores hold in either state, as the hashes of `cortex doctor --consistency`. Then every load is disturbed, and repeated.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cortex.errors import Unavailable
from cortex.settings import Settings
from eval.invented import write_documents
from eval.processes import await_engines, engine_pids, ray_workers
from eval.scratch import run_cortex, scratch_home

ENGINES = ("postgres", "qdrant", "spicedb", "relay", "ray")
VICTIMS = ("job", "worker", *ENGINES)
_READERS = ("ana@example.com", "bo@example.com")
_WRITTEN_AT = 1_700_000_000  # a file's time is part of what is indexed
# A job whose engine was killed goes on by itself, or ends with an error; longer than this it hangs.
_JOB_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One disturbed load: what was killed and when, how the job ended, and what was wrong after the next load.

    A job that had ended at that moment counts as `is_late`.
    """

    victim: str
    after_s: float
    is_late: bool
    indexed_before: int
    job_code: int
    seconds: float
    wrong: str


def evaluate_kills(n_kills: int, n_documents: int, seed: int, tell: Callable[[Kill], None]) -> dict[str, Any]:
    """Disturb so many loads and tell of each; each kind of process has its turn, in random order."""
    os.environ["CORTEX_HTTP_PORT"] = "0"
    chance = random.Random(seed)  # noqa: S311  repeatable, not secret
    with TemporaryDirectory() as temporary, scratch_home(ENGINES) as settings:
        loads = _Loads(settings, Path(temporary), n_documents, seed)
        for state in (0, 1, 0):
            loads.undisturbed(state)
        victims = chain.from_iterable(chance.sample(VICTIMS, len(VICTIMS)) for _ in repeat(None))
        kills = []
        for number in range(n_kills):
            after_s = chance.uniform(0.0, loads.shortest_s)
            kills.append(loads.disturbed((number + 1) % 2, next(victims), after_s))
            tell(kills[-1])
    return {
        "n_kills": n_kills,
        "n_documents": n_documents,
        "seed": seed,
        "undisturbed_s": round(loads.shortest_s, 1),
        "hashes": loads.hashes,
        "kills": kills,
        "n_late": sum(kill.is_late for kill in kills),
        "is_clean": not any(kill.wrong for kill in kills),
    }


class _Loads:
    """The folder with its two states, and what stores hold after an undisturbed load of each."""

    def __init__(self, settings: Settings, temporary: Path, n_documents: int, seed: int) -> None:
        self._settings = settings
        self._folder = temporary / "pages"
        self._log = temporary / "job.log"
        self._states = [_state(temporary / f"state-{n}", n_documents, seed, n) for n in (0, 1)]
        self.hashes: dict[int, list[str]] = {}
        self.shortest_s = math.inf

    def undisturbed(self, state: int) -> None:
        """Load a state; it must leave the same as when it was loaded before."""
        self._become(state)
        started = time.monotonic()
        code = self._start().wait()
        self.shortest_s = min(self.shortest_s, time.monotonic() - started)
        wrong = f"the job ended with {code}" if code else self._wrong(state)
        if wrong:
            raise Unavailable(f"an undisturbed load is wrong already: {wrong}", code="scratch.failed")

    def disturbed(self, state: int, victim: str, after_s: float) -> Kill:
        """Load a state, kill meanwhile, load again, and compare."""
        self._become(state)
        started = time.monotonic()
        job = self._start()
        with suppress(subprocess.TimeoutExpired):
            job.wait(after_s)
        moment = (victim, round(after_s, 2), job.poll() is not None, self._indexed())
        self._kill(victim, job)
        try:
            code = job.wait(_JOB_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            job.kill()
            return Kill(*moment, job.wait(), _since(started), "the job hung")
        await_engines(self._settings)
        again = self._start().wait()
        wrong = f"the next load ended with {again}: {self._said()}" if again else self._wrong(state)
        return Kill(*moment, code, _since(started), wrong)

    def _become(self, state: int) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._states[state], self._folder)

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "clients.cli.main", "ingest", "files", str(self._folder), "--json"]
        with self._log.open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _kill(self, victim: str, job: subprocess.Popen[bytes]) -> None:
        if victim == "job":
            job.kill()
            return
        pids = ray_workers(self._settings) if victim == "worker" else engine_pids(self._settings, victim)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _wrong(self, state: int) -> str:
        """Say what is wrong with the stores; the first time, note what they hold."""
        report = json.loads(run_cortex("doctor", "--consistency", "--json", is_checked=False, timeout_s=300))
        if "index_sha256" not in report:
            return f"the stores could not be compared: {report}"
        if report["differences"]:
            return f"the stores differ: {report['differences'][:3]}"
        hashes = [report["index_sha256"], report["catalog_sha256"]]
        return "" if self.hashes.setdefault(state, hashes) == hashes else f"another index: {hashes}"

    def _indexed(self) -> int:
        """Return how many documents the job had indexed by its last word."""
        lines = [line for line in self._log.read_text().splitlines() if '"ingest.progress"' in line]
        return int(json.loads(lines[-1])["indexed"]) if lines else 0

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-300:]


def _state(folder: Path, n_documents: int, seed: int, state: int) -> Path:
    """Write one state: two thirds of the pages and the reader are its own, and one page in ten is there in one state only."""
    write_documents(folder, n_documents, seed * 2 + state, _READERS[state])
    shared = folder.with_name(f"{folder.name}-shared")
    write_documents(shared, n_documents, seed * 2, _READERS[0])
    for path in _every(folder, 3):
        shutil.copyfile(shared / path.name, path)
    for path in list(_every(folder, 10))[state::2]:
        path.unlink()
    for path in folder.iterdir():
        os.utime(path, (_WRITTEN_AT + state, _WRITTEN_AT + state))
    return folder


def _every(folder: Path, n: int) -> Iterator[Path]:
    return iter(sorted(folder.glob("*.md"))[::n])


def _since(started: float) -> float:
    return round(time.monotonic() - started, 1)
