"""One run of the query path: its trace id, its timings and what was degraded, and how a step joins in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from opentelemetry.trace import Span

from cortex.evidence import Degraded
from cortex.telemetry import new_trace_id, start_span, timed

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
Step: TypeAlias = "Callable[Concatenate[Run, P], Coroutine[Any, Any, A]]"


@dataclass(slots=True)
class Run:
    """What one question gathers on its way; the only thing here that changes."""

    trace_id: str = ""
    timings_ms: dict[str, float] = field(default_factory=dict)
    degraded: list[Degraded] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trace_id = self.trace_id or new_trace_id()

    def timed(self, name: str) -> AbstractContextManager[None]:
        """Open the span and timing of a step."""
        return timed(self.timings_ms, name)

    def timings(self) -> dict[str, float]:
        """State the timings so far, in milliseconds."""
        return {name: round(ms, 3) for name, ms in self.timings_ms.items()}

    def degrade(self, part: str, code: str, reason: str) -> None:
        """Note once that a part did not do its work."""
        note = Degraded(part, code, reason)
        if note not in self.degraded:
            self.degraded.append(note)


def step(name: str) -> Callable[[Callable[Concatenate[Run, P], Awaitable[A]]], Step[P, A]]:
    """Make an asynchronous function of a run a step: one span and one timing, called `name`."""

    def decorate(function: Callable[Concatenate[Run, P], Awaitable[A]]) -> Step[P, A]:
        @wraps(function)
        async def run_step(run: Run, /, *args: P.args, **kwargs: P.kwargs) -> A:
            with run.timed(name):
                return await function(run, *args, **kwargs)

        return run_step

    return decorate


@contextmanager
def lasting(run: Run, name: str) -> Iterator[Span]:
    """Open the span and timing of a step that yields on its way.

    The span is not made current: a generator may be closed from another task than the one that started it.
    """
    started = time.perf_counter()
    span = start_span(name)
    try:
        yield span
    finally:
        span.end()
        run.timings_ms[name] = (time.perf_counter() - started) * 1000


async def together(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Run two coroutines at once; the first failure cancels the other and is raised as itself, not as a group."""
    try:
        async with asyncio.TaskGroup() as group:
            one, two = group.create_task(first), group.create_task(second)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return one.result(), two.result()
