"""Scratch homes: real engines in a throw-away data directory, started and ended by the ordinary commands.

Engines must not outlive a judge that is told to stop, at whatever moment: `cortex up` is then ended in its own time, so
that it ends what it has started, and nothing disturbs the `cortex down` that follows.
"""

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
_END_TIMEOUT_S = 100
_RESTART_TIMEOUT_S = 400  # the staged placement starts seven processes at once
_STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
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
    handlers = {number: signal.getsignal(number) for number in _STOPPING}
    for number, handler in handlers.items():
        if handler is signal.SIG_DFL:  # what `nohup` ignores stays ignored, and Ctrl-C raises already
            signal.signal(number, _leave)
    try:
        run_cortex("up", *(["--only", ",".join(engines)] if engines else []), "--json", timeout_s=300)
        yield read_settings()
    finally:
        for number in handlers:
            signal.signal(number, signal.SIG_IGN)
        run_cortex("down", is_checked=False)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        shutil.rmtree(home, ignore_errors=True)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def restart() -> Settings:
    """End and start the scratch home that is running, by the environment of this moment; returns its settings."""
    run_cortex("down")
    run_cortex("up", "--json", timeout_s=_RESTART_TIMEOUT_S)
    return read_settings()


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables until the block ends."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _leave(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def run_cortex(*arguments: str, is_checked: bool = True, timeout_s: float = _START_TIMEOUT_S) -> str:
    """Run a `cortex` command in this environment; returns its stdout. Raises Unavailable with its last words."""
    command = [sys.executable, "-m", "clients.cli.main", *arguments]
    # In a session of its own, so that Ctrl-C reaches this process alone.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except BaseException:
            _end(process)
            raise
    if is_checked and process.returncode:
        said = (stderr or stdout).strip()[-600:]
        raise Unavailable(
            f"`cortex {' '.join(arguments)}` ended with {process.returncode}: {said}", code="scratch.failed"
        )
    return stdout


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
