"""The operator's commands: `cortex up`, `down`, `status`, `logs`, and `doctor` and `restore` from files of their own."""

from __future__ import annotations

import signal
import time
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from cluster import control
from cluster.children import tail
from cluster.doctor_commands import doctor
from cluster.restore_commands import refuse_half_restored, restore
from cluster.state import EngineState, Phase, RunState, read_state
from cortex.console import command, json_option, write_document, write_progress
from cortex.errors import Unavailable
from cortex.settings import Settings, settings

__all__ = ["doctor", "down", "logs", "restore", "status", "up"]

_MARKS = {
    Phase.READY: ("●", "green"),
    Phase.FAILED: ("✗", "red"),
    Phase.UNHEALTHY: ("!", "yellow"),
    Phase.WAITING: ("○", "dim"),
    Phase.STOPPED: ("○", "dim"),
}


@click.command()
@click.option(
    "--only", default="", metavar="NAMES", help="Start these engines alone, e.g. postgres,qdrant,spicedb."
)
@click.option("--timeout", "timeout_s", default=300.0, show_default=True, help="Seconds to wait until ready.")
@json_option
@command
def up(only: str, timeout_s: float, as_json: bool) -> None:
    """Start the engines and the web page, and wait until they are ready."""
    home = settings()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what it has started ends again
    refuse_half_restored(home)
    if as_json:
        state = control.up(home, only, timeout_s, _Changes())
        write_document(_document(home, state))
        return
    console = Console(stderr=True)
    with Live(console=console, refresh_per_second=8, transient=True) as live:
        state = control.up(home, only, timeout_s, lambda seen: live.update(_table(seen)))
    Console().print(_table(state))
    where = state.env.get("CORTEX_HTTP_URL")
    click.echo(f"ready in {state.ready_s} s" + (f": {where}" if where else ""))


@click.command()
@json_option
@command
def down(as_json: bool) -> None:
    """End the engines and the web page; the data stays."""
    home = settings()
    done = control.down(home, _Changes() if as_json else lambda seen: None)
    if as_json:
        write_document({"home": home.home, "was_running": done.was_running, "ended": done.ended})
    else:
        click.echo(f"ended: {', '.join(done.ended)}" if done.was_running else f"nothing runs in {home.home}")


@click.command()
@json_option
@command
def status(as_json: bool) -> None:
    """Show the engines: state, address, restarts and the reason when something is wrong."""
    home = settings()
    state = read_state(home.state_path)
    if state is None or not state.is_running:
        left = "" if state is None else "; its supervisor was killed, `cortex up` continues"
        raise Unavailable(f"Cortex does not run in {home.home}{left}", code="home.down", hint="cortex up")
    if as_json:
        write_document(_document(home, state))
    else:
        Console().print(_table(state))
    if not state.is_ready:
        raise SystemExit(Unavailable.exit_code)


@click.command()
@click.argument("engine", default="supervisor")
@click.option("-n", "n_lines", default=40, show_default=True, help="Lines from the end.")
@click.option("-f", "--follow", is_flag=True, help="Go on printing as lines arrive.")
@command
def logs(engine: str, n_lines: int, follow: bool) -> None:
    """Print an engine's log, or the supervisor's."""
    path = control.log_path(settings(), engine)
    for line in tail(path, n_lines, window_bytes=n_lines * 2_000):
        click.echo(line)
    position = path.stat().st_size
    while follow:
        time.sleep(0.3)
        size = path.stat().st_size
        position = min(position, size)  # a rotation empties the file
        with path.open("rb") as file:
            file.seek(position)
            new = file.read()
        click.echo(new, nl=False)
        position += len(new)


class _Changes:
    """Writes one line of NDJSON progress per change of an engine's state."""

    def __init__(self) -> None:
        self.seen: dict[str, EngineState] = {}

    def __call__(self, state: RunState) -> None:
        for name, engine in state.engines.items():
            before = self.seen.get(name)
            if before is None or (before.state, before.reason) != (engine.state, engine.reason):
                write_progress("engine.changed", engine=name, state=engine.state, reason=engine.reason)
            self.seen[name] = engine


def _document(home: Settings, state: RunState) -> dict[str, Any]:
    """State the record as data, without secrets."""
    return {
        "home": home.home,
        "ready": state.is_ready,
        "ready_s": state.ready_s,
        "url": state.env.get("CORTEX_HTTP_URL"),
        "supervisor": state.supervisor,
        "engines": state.engines,
    }


def _table(state: RunState) -> Text:
    """Lay the engines out for people: one line each, and one more where there is a reason to tell."""
    text = Text()
    for name, engine in state.engines.items():
        mark, colour = _MARKS.get(engine.state, ("…", "cyan"))
        took = f"{engine.start_s:.1f} s" if engine.state is Phase.READY and engine.start_s is not None else ""
        again = f"  restarted {engine.restarts}×" if engine.restarts else ""
        text.append(f"{mark} ", style=colour).append(f"{name:<9}", style="bold")
        text.append(f"{engine.state:<11}{took:>7}  {engine.url}{again}\n")
        if engine.reason and engine.state is not Phase.WAITING:
            text.append(f"  {engine.reason}\n", style="dim")
    text.rstrip()
    return text
