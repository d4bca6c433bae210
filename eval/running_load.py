"""A load in a process of its own, watched from outside: which steps it has made, and how far it is at a moment.

A step is a part prepared or a piece embedded, a file that appears in the home's checkpoint. Steps make a moment mean the
same in a load that the machine is slow to run.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_LOOK_EVERY_S = 0.02
# How many moments fall before the first step, where Ray starts the workers and nothing is written.
_SHARE_IN_START = 0.2
# And how many after the last step, when the last documents are written into the stores, one kind of store after the other.
_SHARE_IN_WRITING = 0.3


@dataclass(frozen=True, slots=True)
class Moment:
    """After so many steps of a load, and after that share of the time that an undisturbed one takes from there to its next."""

    step: int
    share: float


@dataclass(frozen=True, slots=True)
class Pace:
    """When an undisturbed load had made its steps, in seconds from its start; last, when all documents were settled."""

    at_s: tuple[float, ...]

    @property
    def n_steps(self) -> int:
        """How many steps the load has."""
        return len(self.at_s) - 1

    def draw(self, chance: random.Random, *, skips_start: bool = False) -> Moment:
        """Choose a moment at random: some in the start, some in the last writing, the others with the same chance after each step."""
        where = chance.random()
        if where < _SHARE_IN_START and not skips_start:
            step = 0
        elif where > 1 - _SHARE_IN_WRITING:
            step = self.n_steps
        else:
            step = chance.randint(1, self.n_steps)
        return Moment(step, chance.random())

    def wait_s(self, moment: Moment) -> float:
        """How long to wait once the moment's step is made."""
        times = (0.0, *self.at_s)
        return (times[moment.step + 1] - times[moment.step]) * moment.share


@dataclass(frozen=True, slots=True)
class Settled:
    """How many documents a load has indexed by its last word, and whether it has any left."""

    n_indexed: int
    is_all: bool


class RunningLoad:
    """A command that loads into a home, on its way; used as a context, it does not outlive that."""

    def __init__(self, command: Sequence[str], home: Path, log: Path) -> None:
        self._work = home / "work"
        self._log = log
        self._made: set[str] = set()
        self._started = time.monotonic()
        with log.open("wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it if it runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def watch(self) -> Pace:
        """Return when all is settled, or the load ends."""
        at_s: list[float] = []
        while self.is_working():
            at_s += [self.age_s] * (self.n_steps() - len(at_s))
            time.sleep(_LOOK_EVERY_S)
        at_s.append(self.age_s)
        return Pace(tuple(at_s))

    def reach(self, moment: Moment, pace: Pace) -> None:
        """Return at a moment, or when the load has nothing left to do before."""
        while self.n_steps() < moment.step and self.is_working():
            time.sleep(_LOOK_EVERY_S)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(pace.wait_s(moment))

    def is_working(self) -> bool:
        """Say whether it runs and has documents left to settle."""
        return self.process.poll() is None and not self.settled().is_all

    def n_steps(self) -> int:
        """Count the steps made; the files of a step go when its documents are settled, so they are remembered."""
        with suppress(FileNotFoundError):  # a load that ends takes the folder away
            for suffix in ("docs", "vectors"):
                self._made.update(path.name for path in self._work.glob(f"*/*/*.{suffix}"))
        return len(self._made)

    def settled(self) -> Settled:
        """Read its last whole line of progress."""
        said = self._log.read_text(errors="replace").splitlines(keepends=True)
        for line in reversed(said):
            if line.startswith('{"event": "ingest.progress"') and line.endswith("}\n"):
                counts = json.loads(line)
                n_settled = counts["indexed"] + counts["unchanged"] + counts["failed"]
                return Settled(counts["indexed"], n_settled >= counts["total"])
        return Settled(0, False)

    @property
    def age_s(self) -> float:
        """Seconds since its start."""
        return round(time.monotonic() - self._started, 2)
