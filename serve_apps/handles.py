"""How the ingress asks a stage: through a Serve handle, within a time limit, again when a replica is lost.

Every way in which Serve can fail becomes one of our errors here, and a caller who gives up takes the call along.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import grpc
from opentelemetry.trace import SpanKind
from ray.exceptions import RayError, RayTaskError
from ray.serve.exceptions import BackPressureError, RayServeException
from ray.serve.handle import DeploymentHandle

from cortex.errors import Busy, CortexError, TimedOut, Unavailable
from cortex.telemetry import span, start_span, trace_headers, under
from serve_apps.metrics import StageMetrics
from serve_apps.placements import CallLimits
from serve_apps.replica import Failed, call_attributes

_HAND_OVER_S = 10.0  # a replica that starts anew takes about as long
_FIRST_PAUSE_S = 0.05  # doubled each time; a router needs about as long to hear of a replica's end

# What crosses are values of our own modules, which every process has; Serve's default, cloudpickle, looks at each in Python.
_PICKLED: dict[str, Any] = {"request_serialization": "pickle", "response_serialization": "pickle"}


class _Lost(Exception):
    """The replica that had the call is gone: nobody knows how far it came."""


class StageClient:
    """One stage as its callers see it. Calls only read, so one that a lost replica had is sent again."""

    def __init__(
        self,
        name: str,
        handle: DeploymentHandle[Any],
        limits: CallLimits,
        metrics: StageMetrics | None = None,
    ) -> None:
        self._name = name
        self._metrics = metrics or StageMetrics()
        self._call = handle.options(method_name="call", **_PICKLED)
        self._stream = handle.options(method_name="stream", stream=True, **_PICKLED)
        self._limits = limits

    async def ask(self, call: str, *arguments: Any) -> Any:
        """Return what the stage answers, or raise the error that it answers.

        Raises Busy when its queue is full, TimedOut past the limit, Unavailable when it stays lost. Cancelled, it
        cancels the stage's work.
        """
        with span(**self._described(call)), self._metrics.watching(self._name, call):
            try:
                async with asyncio.timeout(self._limits.timeout_s):
                    return await self._persistently(call, arguments)
            except TimeoutError as error:
                raise TimedOut(
                    f"the stage {self._name} did not answer within {self._limits.timeout_s:g} s",
                    code="stage.timed_out",
                    hint="cortex logs serve",
                ) from error

    async def stream(self, call: str, *arguments: Any) -> AsyncGenerator[Any, None]:
        """Yield what the stage yields; closing it ends the stage's work. Never sent twice."""
        streaming = start_span(**self._described(call))
        try:
            with self._metrics.watching(self._name, call):
                async with aclosing(under(streaming, self._pieces(call, arguments))) as pieces:
                    async for piece in pieces:
                        yield piece
        finally:
            streaming.end()

    async def _pieces(self, call: str, arguments: tuple[Any, ...]) -> AsyncGenerator[Any, None]:
        pieces = self._stream.remote(call, arguments, trace_headers())
        try:
            with self._translated():
                await _handed_over(pieces)
                async for piece in pieces:
                    if isinstance(piece, Failed):
                        raise piece.error
                    yield piece
        except _Lost as error:
            raise self._unavailable() from error
        except (asyncio.CancelledError, GeneratorExit):
            pieces.cancel()
            raise

    async def _persistently(self, call: str, arguments: tuple[Any, ...]) -> Any:
        for attempt in range(self._limits.attempts):
            if attempt:
                self._metrics.sent_again(self._name)
                await asyncio.sleep(_FIRST_PAUSE_S * 2 ** (attempt - 1))
            try:
                return await self._once(call, arguments)
            except _Lost as error:
                lost = error
        raise self._unavailable() from lost

    async def _once(self, call: str, arguments: tuple[Any, ...]) -> Any:
        answer = self._call.remote(call, arguments, trace_headers())
        try:
            with self._translated():
                answered = await answer
        except asyncio.CancelledError:
            answer.cancel()
            raise
        if isinstance(answered, Failed):
            raise answered.error
        return answered

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise Serve's and Ray's errors as ours, or as _Lost."""
        try:
            yield
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise _Lost from error  # nobody cancelled us: the replica was ended while it had the call
        except BackPressureError as error:
            raise Busy(
                f"too many questions wait for the stage {self._name}",
                code="stage.busy",
                hint="ask again in a moment",
                retry_after_s=1,
            ) from error
        except RayTaskError as error:
            if isinstance(error.cause, RayError):
                raise _Lost from error
            # Replicas answer errors as values; what is raised was raised by Serve around them.
            raise self._unavailable() from error
        except (RayError, grpc.aio.AioRpcError) as error:
            raise _Lost from error
        except RayServeException as error:
            raise self._unavailable() from error

    def _described(self, call: str) -> dict[str, Any]:
        """Describe the span of a call: what it lasts longer than the replica's own, the call waited or was on its way."""
        return {
            "name": f"{self._name}.{call}",
            "attributes": call_attributes(self._name, call),
            "kind": SpanKind.CLIENT,
        }

    def _unavailable(self) -> CortexError:
        return Unavailable(
            f"the stage {self._name} does not answer", code="stage.unavailable", hint="cortex logs serve"
        )


async def _handed_over(pieces: AsyncIterator[Any]) -> None:
    """Wait until a replica says that it has the call.

    A cancellation in the moment in which Serve hands a call over can be lost: the replica would go on to the stream's end,
    for nobody. So who leaves before that word still waits for it, and cancels then.
    """
    begun = asyncio.ensure_future(anext(pieces))
    try:
        await asyncio.shield(begun)
    except asyncio.CancelledError:
        await asyncio.wait({begun}, timeout=_HAND_OVER_S)
        if begun.done() and not begun.cancelled():
            begun.exception()  # counts as seen
        else:
            begun.cancel()
        raise
