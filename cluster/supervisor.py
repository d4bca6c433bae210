"""The supervisor: starts engines, starts them again when they end, records what it sees, ends them, dependents first.

All children are started from the main thread: the kernel ends them when that thread does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace
from typing import NoReturn

from cluster import children
from cluster.engine import Engine, Launch
from cluster.place import Place
from cluster.restart import HOPELESS, Row
from cluster.state import EngineState, Phase, ProcessRecord, RunState, forget_state
from cluster.urls import given_env, public_url
from cortex.errors import CortexError, Misconfigured, Unavailable
from cortex.telemetry import event

HEALTH_EVERY_S = 5.0
# An engine that runs but has not answered for this long is ended and started again. Longer than the pauses that a
# machine under full load makes.
SILENT_LIMIT_S = 60.0
_FIRST_POLL_S, _LONGEST_POLL_S = 0.05, 0.5  # pauses between two looks at an engine that starts


class Ended(Exception):
    """An engine's process ended, or was ended because it did not answer; the message says why."""

    def __init__(self, message: str, *, is_hopeless: bool = False) -> None:
        super().__init__(message)
        self.is_hopeless = is_hopeless


class Supervisor:
    """Keeps the engines of one home running."""

    def __init__(self, place: Place, engines: tuple[Engine, ...]) -> None:
        self.place = place
        self.engines = engines
        self.started = time.monotonic()
        self.changed = asyncio.Condition()
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.ready_at: dict[str, float] = {}
        self.bound_ends: set[str] = set()  # engines ended because the one they are bound to did
        self.step_pids: set[int] = set()
        self.given_env = given_env(place.settings)
        states, env = {}, {}
        for engine in engines:
            given = engine.given_url(place.settings)
            provided = {} if given else engine.provides(place)
            env.update(provided)
            states[engine.name] = EngineState(
                Phase.WAITING,
                round(time.time(), 3),
                url=public_url(given or next(iter(provided.values()), "")),
                log=str(place.log_path(engine.name)),
                is_embedded=not given,
            )
        self.state = RunState(ProcessRecord.of(os.getpid()), states, env)

    @property
    def env(self) -> dict[str, str]:
        """What every child is told: the operator's environment, the home, and how to reach the engines."""
        home = {"CORTEX_HOME": str(self.place.home), "PYTHONUNBUFFERED": "1"}
        return {**children.without_postgres_variables(os.environ), **self.given_env, **self.state.env, **home}

    async def run(self) -> None:
        """Keep every engine until SIGTERM or SIGINT, then end them."""
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        children.adopt_orphans()
        self.write()
        keepers = {engine.name: asyncio.create_task(self.keep(engine)) for engine in self.engines}
        tasks = [*keepers.values(), asyncio.create_task(self.keep_house())]
        stopping = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        await self.wind_down(keepers)
        forget_state(self.place.settings.state_path)
        for task in done:
            task.result()  # a keeper never returns: if one did, its error ends the program

    async def wind_down(self, keepers: dict[str, asyncio.Task[NoReturn]]) -> None:
        """End each engine as soon as those that depend on it have ended."""
        winding: dict[str, asyncio.Task[None]] = {}

        async def end_after_dependents(engine: Engine) -> None:
            dependents = [other.name for other in self.engines if engine.name in other.depends_on]
            await asyncio.gather(*(winding[name] for name in dependents))
            keepers[engine.name].cancel()
            await asyncio.wait([keepers[engine.name]])
            await self.show(engine, Phase.STOPPED, pid=None)

        for engine in self.engines:
            winding[engine.name] = asyncio.create_task(end_after_dependents(engine))
        await asyncio.gather(*winding.values())
        self.bury_orphans(is_fatal=True)

    async def keep(self, engine: Engine) -> NoReturn:
        """Start one engine again and again; ends only by cancellation, and leaves no process behind."""
        row = Row()
        while True:
            if not engine.starts_early:
                await self.dependencies(engine)
            self.ready_at.pop(engine.name, None)
            self.bound_ends.discard(engine.name)
            try:
                await self.live(engine)
            except (Ended, CortexError, OSError) as error:
                reason = error.message if isinstance(error, CortexError) else str(error)
                is_hopeless = isinstance(error, Misconfigured) or getattr(error, "is_hopeless", False)
            ready_s = time.monotonic() - self.ready_at.get(engine.name, time.monotonic())
            is_bound = engine.name in self.bound_ends
            row = HOPELESS if is_hopeless else Row() if is_bound else row.after_end(ready_s)
            phase = Phase.FAILED if row.is_loop else Phase.RESTARTING
            restarts = self.state.engines[engine.name].restarts + 1
            await self.show(engine, phase, reason=reason, pid=None, started_at=0.0, restarts=restarts)
            self.end_bound(engine)
            await asyncio.sleep(row.pause_s)

    async def live(self, engine: Engine) -> NoReturn:
        """Start an engine, wait until it is ready, then watch it. Raises Ended, CortexError or OSError when it is over."""
        started = time.monotonic()
        await self.show(engine, Phase.STARTING)
        try:
            await self.start(engine)
            if engine.starts_early:
                await self.dependencies_of_running(engine)
                started = time.monotonic()
            await self.wait_until_it_answers(engine, started)
            for module in engine.steps:
                await self.run_step(engine, module)
            self.ready_at[engine.name] = time.monotonic()
            await self.show(engine, Phase.READY, reason="", start_s=round(time.monotonic() - started, 2))
            await self.watch(engine)
        finally:
            await self.end(engine)

    async def start(self, engine: Engine) -> None:
        """Start an engine's process, unless it has none or a server replaces it."""
        if engine.launch is None or not self.state.engines[engine.name].is_embedded:
            return
        launch = await asyncio.to_thread(engine.launch, self.place)
        log = self.place.log_path(engine.name)
        process = await children.spawn(launch, self.env, log, engine.stop_signal)
        self.processes[engine.name] = process
        record = ProcessRecord.of(process.pid)
        await self.show(engine, Phase.STARTING, pid=record.pid, started_at=record.started_at)

    async def wait_until_it_answers(self, engine: Engine, started: float) -> None:
        """Probe until the engine answers; raises Ended when its process ends first, Unavailable when time is up."""
        pause_s = _FIRST_POLL_S
        while True:
            self.raise_if_ended(engine)
            try:
                return await engine.probe(self.env)
            except Unavailable as error:
                if time.monotonic() - started > engine.start_timeout_s:
                    raise
                await self.show(engine, Phase.STARTING, reason=error.message)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)

    async def run_step(self, engine: Engine, module: str) -> None:
        """Run a module that the engine needs before it may serve; its output goes to the engine's log."""
        await self.show(engine, Phase.STARTING, reason=f"running {module}")
        log = self.place.log_path(engine.name)
        process = await children.spawn(Launch((sys.executable, "-m", module)), self.env, log, signal.SIGTERM)
        self.step_pids.add(process.pid)
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                await children.end(process, signal.SIGTERM, timeout_s=5.0)
            self.step_pids.discard(process.pid)
        if code:
            said = children.last_words(log, n_lines=3)
            is_hopeless = code == Misconfigured.exit_code
            raise Ended(f"{module} ended with exit code {code}: {said}", is_hopeless=is_hopeless)

    async def watch(self, engine: Engine) -> NoReturn:
        """Watch a ready engine: its process, and whether it answers. Raises Ended."""
        process = self.processes.get(engine.name)
        answered = time.monotonic()
        while True:
            try:
                async with asyncio.timeout(HEALTH_EVERY_S):
                    await (process.wait() if process else asyncio.Event().wait())
            except TimeoutError:
                pass
            self.raise_if_ended(engine)
            try:
                await engine.probe(self.env)
                answered = time.monotonic()
                await self.show(engine, Phase.READY, reason="")
            except Unavailable as error:
                await self.show(engine, Phase.UNHEALTHY, reason=error.message)
                if process is not None and time.monotonic() - answered > SILENT_LIMIT_S:
                    raise Ended(f"did not answer for {SILENT_LIMIT_S:.0f} s: {error.message}") from error

    def raise_if_ended(self, engine: Engine) -> None:
        """Raise Ended with the exit code or signal and what the log says last when the process is over."""
        process = self.processes.get(engine.name)
        if process is None or process.returncode is None:
            return
        code = process.returncode
        if code < 0:
            raise Ended(f"was ended by {signal.Signals(-code).name}")
        said = children.last_words(self.place.log_path(engine.name), n_lines=2)
        raise Ended(f"ended with exit code {code}: {said}", is_hopeless=code == Misconfigured.exit_code)

    def end_bound(self, engine: Engine) -> None:
        """End the processes that hold a connection to an engine that is gone; their keepers start them again."""
        for other in self.engines:
            process = self.processes.get(other.name)
            if engine.name in other.bound_to and process is not None and process.returncode is None:
                self.bound_ends.add(other.name)
                process.send_signal(other.stop_signal)

    async def end(self, engine: Engine) -> None:
        """End an engine's process and everything below it."""
        process = self.processes.get(engine.name)
        if process is None:
            return
        if process.returncode is None:
            await self.show(engine, Phase.STOPPING)
        is_graceful = await children.end(process, engine.stop_signal, engine.stop_timeout_s)
        del self.processes[engine.name]
        self.bury_orphans(is_fatal=True)
        event("engine.ended", engine=engine.name, code=process.returncode, is_graceful=is_graceful)

    async def dependencies(self, engine: Engine) -> None:
        """Wait until the engines that this one depends on are ready, as far as this supervisor keeps them."""
        needed = [name for name in engine.depends_on if name in self.state.engines]
        async with self.changed:
            while waits := [name for name in needed if self.state.engines[name].state is not Phase.READY]:
                self.record(engine, Phase.WAITING, reason=f"waits for {', '.join(waits)}")
                await self.changed.wait()

    async def dependencies_of_running(self, engine: Engine) -> None:
        """Wait for the dependencies of an engine that runs already; raises Ended when it ends meanwhile."""
        waiting = asyncio.create_task(self.dependencies(engine))
        try:
            while not waiting.done():
                self.raise_if_ended(engine)
                await asyncio.wait([waiting], timeout=_LONGEST_POLL_S)
        finally:
            waiting.cancel()

    async def keep_house(self) -> NoReturn:
        """Rotate logs and reap adopted children now and then."""
        while True:
            await asyncio.sleep(HEALTH_EVERY_S)
            for log in self.place.settings.logs_path.glob("*.log"):
                children.rotate(log)
            self.bury_orphans(is_fatal=False)

    def bury_orphans(self, *, is_fatal: bool) -> None:
        """Reap what engines left behind; after an engine's end, kill it first."""
        known = {process.pid for process in self.processes.values()} | self.step_pids
        left = children.orphans(known)
        if is_fatal:
            for orphan in left:
                children.kill_all([*children.descendants(orphan.pid), orphan])
        children.bury(left)

    async def show(self, engine: Engine, phase: Phase, **fields: object) -> None:
        """Record an engine's state and wake those who wait for it."""
        async with self.changed:
            self.record(engine, phase, **fields)
            self.changed.notify_all()

    def record(self, engine: Engine, phase: Phase, **fields: object) -> None:
        """Write an engine's state down if it changed; `since` moves only when the phase does."""
        before = self.state.engines[engine.name]
        since = before.since if before.state is phase else round(time.time(), 3)
        after = replace(before, state=phase, since=since, **fields)  # type: ignore[arg-type]
        if after == before:
            return
        if before.state is not phase:
            event("engine.changed", engine=engine.name, state=phase.value, reason=after.reason)
        self.state = replace(self.state, engines={**self.state.engines, engine.name: after})
        if self.state.is_ready and self.state.ready_s is None:
            self.state = replace(self.state, ready_s=round(time.monotonic() - self.started, 2))
        self.write()

    def write(self) -> None:
        """Write the record."""
        self.state.write(self.place.settings.state_path)
