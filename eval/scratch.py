"""Scratch homes: real engines in a throw-away data directory, started and ended by the ordinary commands."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from cortex.errors import Unavailable
from cortex.settings import Settings, read_settings

SEARCH_ENGINES = ("postgres", "qdrant", "spicedb", "relay")
_START_TIMEOUT_S = 120
# A scratch home must never reach the servers or the data that the operator's environment points at.
_SHADOWED = (
    "CORTEX_HOME",
    "CORTEX_POSTGRES_URL",
    "CORTEX_QDRANT_URL",
    "CORTEX_QDRANT_API_KEY",
    "CORTEX_SPICEDB_URL",
    "CORTEX_SPICEDB_TOKEN",
    "CORTEX_OBJECTS_URL",
    "CORTEX_RAY_ADDRESS",
)


@contextmanager
def scratch_home(engines: Sequence[str] = SEARCH_ENGINES) -> Iterator[Settings]:
    """Start engines (all, when none is named) in a new home, yield its settings, then end them and delete the home. Raises Unavailable."""
    # The folder must be readable to the account that an embedded Postgres drops to when the operator is root.
    home = Path(tempfile.mkdtemp(prefix="cortex-eval-"))
    before = {name: os.environ.pop(name, None) for name in _SHADOWED}
    os.environ["CORTEX_HOME"] = str(home)
    signal.signal(signal.SIGTERM, _leave)  # engines must not outlive a judge that is told to stop
    try:
        run_cortex("up", *(["--only", ",".join(engines)] if engines else []), "--json", timeout_s=300)
        yield read_settings()
    finally:
        run_cortex("down", is_checked=False)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(home, ignore_errors=True)


def _leave(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def run_cortex(*arguments: str, is_checked: bool = True, timeout_s: float = _START_TIMEOUT_S) -> str:
    """Run a `cortex` command in this environment; returns its stdout. Raises Unavailable with its last words."""
    command = [sys.executable, "-m", "clients.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    if is_checked and done.returncode:
        said = (done.stderr or done.stdout).strip()[-600:]
        raise Unavailable(
            f"`cortex {' '.join(arguments)}` ended with {done.returncode}: {said}", code="scratch.failed"
        )
    return done.stdout
