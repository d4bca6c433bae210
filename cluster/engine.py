"""What an engine is to the supervisor: what it provides, how it starts, how to tell that it answers, how it stops."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster.place import Place
from cortex.settings import Settings

# Returns when the engine answers; raises Unavailable with the reason otherwise. Gets settings by variable name.
Probe = Callable[[Mapping[str, str]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Account:
    """The Unix account that a process drops to when the supervisor is root."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One process to start."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    account: Account | None = None


def _not_given(settings: Settings) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Engine:
    """One embedded engine. `given_url` names the server that replaces it; then only `probe` and `steps` are used."""

    name: str
    summary: str  # one line for people
    probe: Probe
    # Settings that other programs need to reach it. Known before it starts: ports and secrets are kept in the home.
    provides: Callable[[Place], dict[str, str]]
    # Prepares its files and says what to run; may block, raises CortexError. None: nothing to run.
    launch: Callable[[Place], Launch] | None
    given_url: Callable[[Settings], str] = _not_given
    depends_on: tuple[str, ...] = ()
    # Its process is started at once and itself waits for what it depends on; it counts as ready after them only.
    starts_early: bool = False
    # Ended and started again whenever one of these was: it holds a connection that does not survive.
    bound_to: tuple[str, ...] = ()
    # Modules run, one after another, each time it answers and before it counts as ready.
    steps: tuple[str, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_s: float = 15.0
    start_timeout_s: float = 120.0
