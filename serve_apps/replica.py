"""One replica of a stage: opens its plain objects and answers calls to them, each under the caller's trace.

Errors leave as values: a CortexError keeps its code, remedy and hint, and Serve neither logs its text nor wraps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import SpanKind

from cortex.errors import CortexError
from cortex.telemetry import caller_trace, mark_failed, span, start_span, under
from serve_apps.guard import log_unexpected
from serve_apps.problems import Unexpected
from serve_apps.process import begin
from serve_apps.tracing import flush_traces

if TYPE_CHECKING:
    from serve_apps.stages import Calls


@dataclass(frozen=True, slots=True)
class Failed:
    """An error on its way back to the caller, who raises it."""

    error: CortexError


@dataclass(frozen=True, slots=True)
class Begun:
    """The first word of a stream: its replica has the call."""


def call_attributes(stage: str, call: str) -> dict[str, str]:
    """Describe a call of a stage, by its caller and by its replica alike (OpenTelemetry's names for RPC)."""
    return {"rpc.system": "ray_serve", "rpc.service": stage, "rpc.method": call}


class Answers:
    """Answers calls to plain objects."""

    def __init__(self, stage: str, calls: Calls) -> None:
        self._stage = stage
        self._calls = calls

    async def call(self, name: str, arguments: tuple[Any, ...], trace: Mapping[str, str]) -> Any:
        """Answer one call of a port; an error is answered as Failed."""
        with span(**self._described(name), parent=caller_trace(trace)) as answering:
            try:
                return await self._calls[name](*arguments)
            except CortexError as error:
                mark_failed(answering, error)
                return Failed(error)
            except Exception as error:  # noqa: BLE001 - the replica's outermost ring: its text may hold content
                mark_failed(answering, error)
                log_unexpected(error)
                return Failed(Unexpected("unexpected"))

    async def stream(
        self, name: str, arguments: tuple[Any, ...], trace: Mapping[str, str]
    ) -> AsyncGenerator[Any, None]:
        """Answer one call that streams: Begun, then piece by piece; an error is the last piece, as Failed."""
        yield Begun()
        streaming = start_span(**self._described(name), parent=caller_trace(trace))
        try:
            async with aclosing(under(streaming, self._calls[name](*arguments))) as pieces:
                async for piece in pieces:
                    yield piece
        except CortexError as error:
            yield Failed(error)
        except Exception as error:  # noqa: BLE001 - as above
            log_unexpected(error)
            yield Failed(Unexpected("unexpected"))
        finally:
            streaming.end()

    def _described(self, name: str) -> dict[str, Any]:
        return {
            "name": f"{self._stage}.{name}",
            "attributes": call_attributes(self._stage, name),
            "kind": SpanKind.SERVER,
        }


class StageReplica(Answers):
    """One replica of one stage, which opens its objects when it starts."""

    async def __init__(self, home: str, stage: str) -> None:  # type: ignore[misc]  # Serve awaits it
        from serve_apps.stages import OPENERS  # adapters: whoever only deploys this class does not load them

        settings = begin(home, stage)
        self._open = AsyncExitStack()
        super().__init__(stage, await self._open.enter_async_context(OPENERS[stage](settings, _holds_gpu())))

    async def __del__(self) -> None:
        if hasattr(self, "_open"):
            await self._open.aclose()
        await asyncio.to_thread(flush_traces)


def _holds_gpu() -> bool:
    """Say whether Ray gave this replica a GPU, whole or in part; without Ray, nobody did."""
    import ray

    if not ray.is_initialized():
        return False
    return bool(ray.get_runtime_context().get_accelerator_ids().get("GPU"))
