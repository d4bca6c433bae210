"""A home with Ray and a folder of pages, for tests of loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.services.homes import ScratchHome, command_line

ENGINES = ("postgres", "qdrant", "spicedb", "relay", "ray")
N_PAGES = 12
_WORDS_PER_PAGE = 60
_WRITTEN_AT = 1_700_000_000  # a file's time is part of what is indexed


@dataclass(frozen=True, slots=True)
class RayHome:
    """A home with Ray and a folder of pages to load."""

    scratch: ScratchHome
    pages: Path
    n_pages: int = N_PAGES
    words_per_page: int = _WORDS_PER_PAGE

    def write(self, version: str) -> None:
        """Give every page new content."""
        for number in range(self.n_pages):
            body = " ".join(f"{version}-{number}-{word}" for word in range(self.words_per_page))
            page = self.pages / f"page-{number:02d}.md"
            page.write_text(f"# Page {number} {version}\n\n{body}\n")
            os.utime(page, (_WRITTEN_AT, _WRITTEN_AT))

    def load(self) -> dict[str, Any]:
        """Load the folder in Ray to its end."""
        ran = self.scratch.cortex("ingest", "files", str(self.pages), "--name", "pages", timeout_s=900)
        assert ran.code == 0, f"{ran.document}\n{ran.stderr[-2000:]}"
        document: dict[str, Any] = ran.document
        return document

    def start_load(self) -> subprocess.Popen[bytes]:
        """Start a load and leave it running."""
        command = [sys.executable, "-m", "clients.cli.main", "ingest", "files", str(self.pages)]
        with self.report_path.open("wb") as report:
            return subprocess.Popen(
                [*command, "--name", "pages", "--json"],
                env=self.scratch.env,
                stdout=report,
                stderr=subprocess.DEVNULL,
            )

    @property
    def report_path(self) -> Path:
        """Where a load that was started writes its report."""
        return self.pages.with_name("report.json")

    def workers(self) -> list[psutil.Process]:
        """The processes of Ray that do a load's work."""
        return [each for each in self.scratch.everything() if "MapWorker" in command_line(each)]

    def helpers(self) -> list[str]:
        """The processes of Ray Data that we do without."""
        lines = map(command_line, self.scratch.everything())
        spared = ("StatsActor", "AutoscalingCoordinator", "ActorLocationTracker")
        return [line for line in lines if any(name in line for name in spared)]

    def hashes(self) -> dict[str, str]:
        """What the stores hold, as one hash each; fails the test where they disagree."""
        ran = self.scratch.cortex("doctor", "--consistency", "--vectors")
        assert ran.code == 0, ran.document
        return {name: ran.document[f"{name}_sha256"] for name in ("index", "vectors", "catalog")}


@contextmanager
def ray_home(n_pages: int = N_PAGES, words_per_page: int = _WORDS_PER_PAGE) -> Iterator[RayHome]:
    """Start a home with Ray; end it and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="cortex-test-"))
    made = RayHome(ScratchHome(folder / "home"), folder / "pages", n_pages, words_per_page)
    made.pages.mkdir()
    try:
        made.scratch.up(*ENGINES)
        yield made
    finally:
        if (made.scratch.path / "run" / "state.json").exists():
            made.scratch.down()
        shutil.rmtree(folder, ignore_errors=True)


def wait_until(holds: Callable[[], bool], timeout_s: float = 120) -> None:
    """Return when it holds; fails the test when time is up."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.1)
