"""`cortex eval kills`: loads in Ray with something killed at a random moment; the next load must end where an undisturbed one does.

A folder changes between two states: other texts, other readers, pages that come and go. Undisturbed loads say once what
stores hold in either state, as the hashes of `cortex doctor --consistency`. Then every load is disturbed, and repeated.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cortex.errors import Unavailable
from cortex.settings import Settings
from eval.invented import write_documents
from eval.processes import await_engines, engine_pids, ray_workers
from eval.running_load import Pace, RunningLoad
from eval.scratch import run_cortex, scratch_home

ENGINES = ("postgres", "qdrant", "spicedb", "relay", "ray")
VICTIMS = ("job", "worker", *ENGINES)
_READERS = ("ana@example.com", "bo@example.com")
_WRITTEN_AT = 1_700_000_000  # a file's time is part of what is indexed
# A job whose engine was killed goes on by itself, or ends with an error; longer than this it hangs.
_JOB_TIMEOUT_S = 300.0
_TRIES = 5
# Most pages are one chunk, so that a hundred of them are several portions, written one after another, within seconds.
_WORDS = (15, 300)


@dataclass(frozen=True, slots=True)
class Kill:
    """One disturbed load: what was killed and when, how the job ended, and what was wrong after the next load.

    `step` of `n_steps` were made by then (parts prepared, pieces embedded) and so many documents `indexed_before`. It `is_hit`
    when the load was at work.
    """

    victim: str
    step: int
    n_steps: int
    after_s: float
    indexed_before: int
    is_hit: bool
    job_code: int
    seconds: float
    wrong: str

    @property
    def in_the_end(self) -> str:
        """Say what came of it."""
        return self.wrong or ("the same index" if self.is_hit else "too late, the same index")


def evaluate_kills(n_kills: int, n_documents: int, seed: int, tell: Callable[[Kill], None]) -> dict[str, Any]:
    """Disturb so many loads and tell of each; each kind of process has its turn, in random order.

    What came when a load had ended does not count, and is tried again at another moment. Raises Unavailable when that
    does not help.
    """
    os.environ["CORTEX_HTTP_PORT"] = "0"
    with TemporaryDirectory() as temporary, scratch_home(ENGINES) as settings:
        loads = _Loads(settings, Path(temporary), n_documents, seed)
        for state in (0, 1, 0):
            loads.undisturbed(state)
        kills: list[Kill] = []
        for number, victim in enumerate(islice(_victims(seed), n_kills)):
            chance = random.Random(f"{seed} {number}")  # noqa: S311  repeatable, not secret
            for kill in until_hit(partial(loads.disturbed, victim, chance)):
                tell(kill)
                kills.append(kill)
    return {
        "n_kills": n_kills,
        "n_documents": n_documents,
        "seed": seed,
        "undisturbed_s": {state: pace.at_s[-1] for state, pace in loads.paces.items()},
        "hashes": loads.hashes,
        "kills": kills,
        "n_missed": sum(not kill.is_hit for kill in kills),
        "n_at_start": sum(kill.is_hit and kill.step == 0 for kill in kills),
        "is_clean": not any(kill.wrong for kill in kills),
    }


def _victims(seed: int) -> Iterator[str]:
    chance = random.Random(seed)  # noqa: S311  repeatable, not secret
    while True:
        yield from chance.sample(VICTIMS, len(VICTIMS))


def until_hit(disturb: Callable[[], Kill]) -> Iterator[Kill]:
    """Disturb loads until one is hit; raises Unavailable when that takes too many."""
    for _ in range(_TRIES):
        kill = disturb()
        yield kill
        if kill.is_hit:
            return
    raise Unavailable(
        f"{_TRIES} kills of {kill.victim} in a row came when the load had ended",
        code="scratch.failed",
        hint="try more --documents",
    )


class _Loads:
    """The folder with its two states, and what stores hold after an undisturbed load of each."""

    def __init__(self, settings: Settings, temporary: Path, n_documents: int, seed: int) -> None:
        self._settings = settings
        self._folder = temporary / "pages"
        self._log = temporary / "job.log"
        self._states = [_state(temporary / f"state-{n}", n_documents, seed, n) for n in (0, 1)]
        self._state = 0
        self.hashes: dict[int, list[str]] = {}
        self.paces: dict[int, Pace] = {}

    def undisturbed(self, state: int) -> None:
        """Load a state; it must leave the same as when it was loaded before."""
        self._become(state)
        with self._start() as load:
            self.paces[state] = load.watch()
            code = load.process.wait()
        wrong = f"the job ended with {code}: {self._said()}" if code else self._wrong()
        if wrong:
            raise Unavailable(f"an undisturbed load is wrong already: {wrong}", code="scratch.failed")

    def disturbed(self, victim: str, chance: random.Random) -> Kill:
        """Load the other state, kill meanwhile, load again, and compare."""
        self._become(1 - self._state)
        pace = self.paces[self._state]
        with self._start() as load:
            load.reach(pace.draw(chance, skips_start=victim == "worker"), pace)
            moment = (load.n_steps(), pace.n_steps, load.age_s, load.settled().n_indexed)
            is_hit = self._kill(victim, load)
            try:
                code = load.process.wait(_JOB_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                return Kill(victim, *moment, is_hit, 0, load.age_s, "the job hung")
        await_engines(self._settings)
        with self._start() as again:
            ended = again.process.wait()
        wrong = f"the next load ended with {ended}: {self._said()}" if ended else self._wrong()
        return Kill(victim, *moment, is_hit, code, load.age_s, wrong)

    def _become(self, state: int) -> None:
        self._state = state
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._states[state], self._folder)

    def _start(self) -> RunningLoad:
        command = [sys.executable, "-m", "clients.cli.main", "ingest", "files", str(self._folder), "--json"]
        return RunningLoad(command, self._settings.home, self._log)

    def _kill(self, victim: str, load: RunningLoad) -> bool:
        """Kill, and say whether the load was at work then: it had not told of its last document even after the kill."""
        pids = self._pids(victim, load)
        if not pids or not load.is_working():
            return False
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not load.settled().is_all

    def _pids(self, victim: str, load: RunningLoad) -> list[int]:
        if victim == "job":
            return [load.process.pid]
        return ray_workers(self._settings) if victim == "worker" else engine_pids(self._settings, victim)

    def _wrong(self) -> str:
        """Say what is wrong with the stores; the first time, note what they hold."""
        report = json.loads(
            run_cortex("doctor", "--consistency", "--vectors", "--json", is_checked=False, timeout_s=300)
        )
        if "index_sha256" not in report:
            return f"the stores could not be compared: {report}"
        if report["differences"]:
            return f"the stores differ: {report['differences'][:3]}"
        hashes = [report[f"{name}_sha256"] for name in ("index", "vectors", "catalog")]
        return "" if self.hashes.setdefault(self._state, hashes) == hashes else f"another index: {hashes}"

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-300:]


def _state(folder: Path, n_documents: int, seed: int, state: int) -> Path:
    """Write one state: two thirds of the pages and the reader are its own, and one page in ten is there in one state only."""
    write_documents(folder, n_documents, seed * 2 + state, _READERS[state], _WORDS)
    shared = folder.with_name(f"{folder.name}-shared")
    write_documents(shared, n_documents, seed * 2, _READERS[0], _WORDS)
    for path in _every(folder, 3):
        shutil.copyfile(shared / path.name, path)
    for path in list(_every(folder, 10))[state::2]:
        path.unlink()
    for path in folder.iterdir():
        os.utime(path, (_WRITTEN_AT + state, _WRITTEN_AT + state))
    return folder


def _every(folder: Path, n: int) -> Iterator[Path]:
    return iter(sorted(folder.glob("*.md"))[::n])
