"""Child processes: each leads its own session, writes one log file, dies with the supervisor, and is ended as a whole tree."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import psutil

from cluster.engine import Account, Launch

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# One log file and one predecessor are kept per engine.
LOG_LIMIT_BYTES = 20_000_000
# An error as a document has eight lines; the runtime of a program may say something after it.
_ERROR_LINES = 24
_LAST_WORDS_CHARS = 400
_IS_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None) if _IS_LINUX else None


def adopt_orphans() -> None:
    """Make grandchildren whose parent died children of this process, so that none escapes (Linux)."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _die_with(parent_pid: int, death_signal: int) -> Callable[[], None]:
    """Return what a child does between fork and exec: ask the kernel for a signal when its parent dies (Linux)."""

    def prepare() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, death_signal)
            if os.getppid() != parent_pid:  # it died before the call
                os._exit(1)

    return prepare


async def spawn(
    launch: Launch, env: Mapping[str, str], log: Path, death_signal: signal.Signals
) -> asyncio.subprocess.Process:
    """Start a process with its output appended to `log`. Raises OSError."""
    account = launch.account
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *launch.argv,
            env={**env, **launch.env},
            cwd=launch.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Its own session is its own process group, and on a kernel that shares the processor by session the
            # databases keep their part beside Ray's workers.
            start_new_session=True,
            preexec_fn=_die_with(os.getpid(), death_signal),
            **account_arguments(account),
        )


def without_postgres_variables(env: Mapping[str, str]) -> dict[str, str]:
    """Drop libpq's variables (PGPORT, PGOPTIONS …), which mean the operator's own databases and not ours."""
    return {name: value for name, value in env.items() if not name.startswith("PG")}


def account_arguments(account: Account | None) -> dict[str, Any]:
    """Return the arguments of `subprocess.Popen` that drop a child to an account."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


async def end(process: asyncio.subprocess.Process, stop_signal: signal.Signals, timeout_s: float) -> bool:
    """End a child and everything below it; False when it had to be killed."""
    tree = descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(stop_signal)
    try:
        async with asyncio.timeout(timeout_s):
            await process.wait()
        is_graceful = True
    except TimeoutError:
        tree += descendants(process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        is_graceful = False
    kill_all(tree)
    return is_graceful


def descendants(pid: int) -> list[psutil.Process]:
    """List everything below a process."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill_all(processes: Collection[psutil.Process]) -> None:
    """Kill processes; psutil compares start times, so a reused pid is left alone."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.kill()


def orphans(known_pids: Collection[int]) -> list[psutil.Process]:
    """List children of this process that it did not start: what engines left behind."""
    return [child for child in psutil.Process().children() if child.pid not in known_pids]


def bury(processes: Collection[psutil.Process]) -> None:
    """Reap adopted children that have ended."""
    for process in processes:
        with contextlib.suppress(ChildProcessError, psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(process.pid, os.WNOHANG)


def rotate(log: Path, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
    """Copy a log that grew past the limit to `.1` and empty it; writers append, so they go on at its start."""
    if log.exists() and log.stat().st_size > limit_bytes:
        shutil.copyfile(log, log.with_suffix(".log.1"))
        log.with_suffix(".log.1").chmod(0o600)
        os.truncate(log, 0)


def tail(log: Path, n_lines: int = 1, window_bytes: int = 65_536) -> list[str]:
    """Return the last lines of a log that are not blank."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - window_bytes))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-n_lines:]


def last_words(log: Path, n_lines: int) -> str:
    """Say what a program that ended said last: the error that it stated as a document, else its last lines."""
    lines = tail(log, _ERROR_LINES)
    for start in reversed([number for number, line in enumerate(lines) if line == "{"]):
        try:
            document, _ = json.JSONDecoder().raw_decode("\n".join(lines[start:]))
            error = document["error"]
            hint = f"; {error['hint']}" if error["hint"] else ""
            return f"{error['message']} ({error['code']}){hint}"
        except (ValueError, KeyError, TypeError):
            continue
    return " ".join(lines[-n_lines:])[-_LAST_WORDS_CHARS:]
