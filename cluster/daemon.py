"""The supervisor's program, `python -m cluster.daemon [--only NAMES]`: takes the home's lock, clears leftovers, runs."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import IO

import click
import psutil

from cluster import children
from cluster.place import Place, private_folder
from cluster.roster import ENGINES, choose
from cluster.state import RunState, forget_state, read_state
from cluster.supervisor import Supervisor
from cortex.errors import Conflict, CortexError
from cortex.settings import read_settings
from cortex.telemetry import event, setup_logging

# After the supervisor was killed its children got a signal from the kernel; a Postgres that writes its checkpoint
# needs a moment.
LEFTOVER_GRACE_S = 15.0


def take_lock(run: Path) -> IO[str]:
    """Take the home's lock for as long as the file stays open; raises Conflict when another process holds it."""
    lock = (run / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise Conflict("another supervisor runs in this home", code="home.in_use") from error
    return lock


def clear_leftovers(state: RunState, grace_s: float = LEFTOVER_GRACE_S) -> list[str]:
    """End what a killed supervisor left running; recorded pids count only if their start times match."""
    found = {
        name: process
        for name, engine in state.engines.items()
        if engine.process and (process := engine.process.find())
    }
    tree = [below for process in found.values() for below in children.descendants(process.pid)]
    signals = {engine.name: engine.stop_signal for engine in ENGINES}
    for name, process in found.items():
        process.send_signal(signals.get(name, signal.SIGTERM))
    _, alive = psutil.wait_procs(list(found.values()), timeout=grace_s)
    children.kill_all([*alive, *tree])
    psutil.wait_procs([*alive, *tree], timeout=5)
    return sorted(found)


@click.command()
@click.option("--only", default="", help="Comma-separated engines; all when empty.")
def main(only: str) -> None:
    """Run the supervisor until it is told to stop."""
    setup_logging("info")
    try:
        home = Path(os.environ.get("CORTEX_HOME") or Path.home() / ".cortex").expanduser().absolute()
        with take_lock(private_folder(home / "run")):
            # Before settings are read: they would take the record's addresses for given ones.
            state_path = home / "run" / "state.json"
            if state := read_state(state_path):
                event("leftovers.cleared", engines=clear_leftovers(state))
            forget_state(state_path)
            settings = read_settings()
            asyncio.run(Supervisor(Place(settings), choose(only)).run())
    except CortexError as error:
        event("supervisor.failed", code=error.error_code, reason=error.message, hint=error.hint)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
