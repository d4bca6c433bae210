"""One replica of a stage: opens its plain objects and answers calls to them, each under the caller's trace.

Errors leave as values: a CortexError keeps its code, remedy and hint, and Serve neither logs its text nor wraps it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cortex.errors import CortexError
from cortex.telemetry import tracer
from serve_apps.guard import log_unexpected
from serve_apps.problems import Unexpected
from serve_apps.process import begin

if TYPE_CHECKING:
    from serve_apps.stages import Calls

_TRACE_CONTEXT = TraceContextTextMapPropagator()


@dataclass(frozen=True, slots=True)
class Failed:
    """An error on its way back to the caller, who raises it."""

    error: CortexError


def trace_of_caller() -> dict[str, str]:
    """Write down the current trace, for a call to take along."""
    carrier: dict[str, str] = {}
    _TRACE_CONTEXT.inject(carrier)
    return carrier


class Answers:
    """Answers calls to plain objects."""

    def __init__(self, stage: str, calls: Calls) -> None:
        self._stage = stage
        self._calls = calls

    async def call(self, name: str, arguments: tuple[Any, ...], trace: Mapping[str, str]) -> Any:
        """Answer one call of a port; an error is answered as Failed."""
        with _continued(trace), tracer.start_as_current_span(f"{self._stage}.{name}"):
            try:
                return await self._calls[name](*arguments)
            except CortexError as error:
                return Failed(error)
            except Exception as error:  # noqa: BLE001 - the replica's outermost ring: its text may hold content
                log_unexpected(error)
                return Failed(Unexpected("unexpected"))

    async def stream(
        self, name: str, arguments: tuple[Any, ...], trace: Mapping[str, str]
    ) -> AsyncGenerator[Any, None]:
        """Answer one call that streams, piece by piece; an error is the last piece, as Failed."""
        # No context is entered: a generator may be closed from another task than the one that started it.
        span = tracer.start_span(f"{self._stage}.{name}", _TRACE_CONTEXT.extract(trace))
        try:
            async with aclosing(self._calls[name](*arguments)) as pieces:
                async for piece in pieces:
                    yield piece
        except CortexError as error:
            yield Failed(error)
        except Exception as error:  # noqa: BLE001 - as above
            log_unexpected(error)
            yield Failed(Unexpected("unexpected"))
        finally:
            span.end()


class StageReplica(Answers):
    """One replica of one stage, which opens its objects when it starts."""

    async def __init__(self, home: str, stage: str) -> None:  # type: ignore[misc]  # Serve awaits it
        from serve_apps.stages import OPENERS  # adapters: whoever only deploys this class does not load them

        settings = begin(home)
        self._open = AsyncExitStack()
        super().__init__(stage, await self._open.enter_async_context(OPENERS[stage](settings, _holds_gpu())))

    async def __del__(self) -> None:
        if hasattr(self, "_open"):
            await self._open.aclose()


@contextmanager
def _continued(trace: Mapping[str, str]) -> Iterator[None]:
    token = context.attach(_TRACE_CONTEXT.extract(trace))
    try:
        yield
    finally:
        context.detach(token)


def _holds_gpu() -> bool:
    """Say whether Ray gave this replica a GPU, whole or in part; without Ray, nobody did."""
    import ray

    if not ray.is_initialized():
        return False
    return bool(ray.get_runtime_context().get_accelerator_ids().get("GPU"))
