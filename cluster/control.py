"""Starting and ending a home from outside the supervisor: what `cortex up` and `cortex down` do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from cluster.children import tail
from cluster.daemon import clear_leftovers, take_lock
from cluster.place import private_folder
from cluster.roster import choose
from cluster.state import Phase, RunState, forget_state, read_state
from cortex.errors import Conflict, InputError, Misconfigured, TimedOut, Unavailable
from cortex.settings import Settings

Watcher = Callable[[RunState], None]
_LOOK_EVERY_S = 0.1
STOP_TIMEOUT_S = 90.0
_RECORD_TIMEOUT_S = 30.0


def up(settings: Settings, only: str, timeout_s: float, watch: Watcher) -> RunState:
    """Start a supervisor and wait until its engines are ready; `watch` sees every look at the record.

    Raises Conflict when one runs already, Unavailable when an engine fails (everything is ended then), TimedOut when
    time is up (everything is left to go on).
    """
    choose(only)
    check_home(settings.home)
    run = private_folder(settings.home / "run")
    private_folder(settings.logs_path)
    refuse_a_second(settings, run)
    process = _start_supervisor(settings, only)
    try:
        return _wait(settings, process, timeout_s, watch)
    except (Unavailable, Misconfigured, KeyboardInterrupt):
        _stop(psutil.Process(process.pid)) if process.poll() is None else None
        raise


def check_home(home: Path) -> None:
    """Make the home for its owner alone; raises Misconfigured when it cannot be used."""
    private_folder(home)
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK) or _is_read_only(home):
        raise Misconfigured(
            f"{home} is read-only",
            code="home.unusable",
            hint="set CORTEX_HOME to a folder that you may write to",
        )
    if home.stat().st_uid == os.geteuid() and home.stat().st_mode & 0o077:
        home.chmod(0o700)


def _is_read_only(home: Path) -> bool:
    return bool(os.statvfs(home).f_flag & os.ST_RDONLY)


def refuse_a_second(settings: Settings, run: Path) -> None:
    """Raise Conflict, with what is known of the running one, when the home's lock is held."""
    try:
        take_lock(run).close()
    except Conflict as error:
        state = read_state(settings.state_path)
        if state is None:
            raise Conflict("Cortex is just starting or ending in this home", code="home.in_use") from error
        is_ready = state.is_ready
        where = f" at {state.env['CORTEX_HTTP_URL']}" if "CORTEX_HTTP_URL" in state.env else ""
        raise Conflict(
            f"Cortex already runs in {settings.home} (pid {state.supervisor.pid})"
            + (f" and is ready{where}" if is_ready else f", but is not ready: {troubles(state)}"),
            code="home.in_use",
            hint="`cortex status` shows it, `cortex down` ends it; another home needs another CORTEX_HOME",
        ) from error


def troubles(state: RunState) -> str:
    """Say which engines are not ready, and why."""
    return "; ".join(
        f"{name} is {engine.state}" + (f" ({engine.reason})" if engine.reason else "")
        for name, engine in state.engines.items()
        if engine.state is not Phase.READY
    )


def _start_supervisor(settings: Settings, only: str) -> subprocess.Popen[bytes]:
    log = settings.logs_path / "supervisor.log"
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "cluster.daemon", "--only", only],
            env={**os.environ, "CORTEX_HOME": str(settings.home)},
            cwd=settings.home,  # not the caller's folder, whose files could shadow modules
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _wait(settings: Settings, process: subprocess.Popen[bytes], timeout_s: float, watch: Watcher) -> RunState:
    deadline = time.monotonic() + timeout_s
    while True:
        code = process.poll()
        state = read_state(settings.state_path)
        if code is not None:
            said = " ".join(tail(settings.logs_path / "supervisor.log"))
            kind = Conflict if code == Conflict.exit_code else Misconfigured
            raise kind(f"the supervisor ended with exit code {code}: {said}", code="supervisor.ended")
        if state is not None and state.supervisor.pid == process.pid:
            watch(state)
            if state.is_ready:
                return state
            for name, engine in state.engines.items():
                if engine.state is Phase.FAILED:
                    raise Unavailable(
                        f"{name} does not start: {engine.reason}",
                        code="engine.failed",
                        hint=f"read {engine.log}",
                    )
        if time.monotonic() > deadline:
            said = troubles(state) if state else "the supervisor has not written its record"
            raise TimedOut(
                f"not ready after {timeout_s:.0f} s: {said}",
                code="up.timed_out",
                hint="it goes on starting: `cortex status` shows how far it is, `cortex down` ends it",
            )
        time.sleep(_LOOK_EVERY_S)


@dataclass(frozen=True, slots=True)
class Down:
    """What `cortex down` did."""

    was_running: bool
    ended: tuple[str, ...] = ()


def down(settings: Settings, watch: Watcher) -> Down:
    """End the supervisor and its engines, or what a killed supervisor left behind. Ending nothing is fine."""
    state = _record(settings)
    if state is None:
        return Down(was_running=False)
    supervisor = state.supervisor.find()
    if supervisor is None:
        with take_lock(private_folder(settings.home / "run")):
            ended = clear_leftovers(state)
            forget_state(settings.state_path)
        return Down(was_running=bool(ended), ended=tuple(ended))
    _stop(supervisor, lambda: watch(read_state(settings.state_path) or state))
    return Down(was_running=True, ended=tuple(state.engines))


def _record(settings: Settings) -> RunState | None:
    """Read the record; a supervisor that holds the home's lock is about to write it, or to end."""
    lock = settings.home / "run" / "lock"
    deadline = time.monotonic() + _RECORD_TIMEOUT_S
    while (state := read_state(settings.state_path)) is None and lock.exists():
        try:
            take_lock(lock.parent).close()
        except Conflict:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_EVERY_S)
        else:
            break
    return state


def _stop(supervisor: psutil.Process, look: Callable[[], None] = lambda: None) -> None:
    """Ask the supervisor to end and wait; raises TimedOut."""
    supervisor.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while supervisor.is_running() and supervisor.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            raise TimedOut(
                f"the supervisor (pid {supervisor.pid}) did not end", hint="read logs/supervisor.log"
            )
        look()
        time.sleep(_LOOK_EVERY_S)


def log_path(settings: Settings, engine: str) -> Path:
    """Return the log file of an engine or of the supervisor; raises InputError."""
    path = settings.logs_path / f"{engine}.log"
    if engine != "supervisor":
        choose(engine)
    if not path.exists():
        raise InputError(f"{engine} has written no log in {settings.home}", code="log.missing")
    return path
