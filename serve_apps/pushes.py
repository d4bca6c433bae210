"""The pushes' desk: believes a push only by its source's own signature, records it once, and has what it names read again.

It never says why it refuses, nor whether there is such a source: all refusals are alike, and the log knows better.
What was recorded is not lost: reading goes on at the next start.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Mapping

from connectors.registry import build_connector
from cortex.errors import CortexError, Unauthenticated, Unavailable
from cortex.ids import sha256_hex
from cortex.ports.connectors import WebhookEvent
from cortex.ports.ingest import PushQueue
from cortex.settings import Settings
from cortex.telemetry import event

_SOURCE_ID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
# Whoever knows the address may send: so many are looked at side by side, the others wait their turn.
_SEATS = 4
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 300.0


class CatalogPushDesk:
    """Port PushDesk, over the catalog; `read` reads a source again, to the end of its pushes, and returns an exit code."""

    def __init__(self, pushes: PushQueue, read: Callable[[str], Awaitable[int]]) -> None:
        self._pushes = pushes
        self._run = read
        self._seats = asyncio.Semaphore(_SEATS)
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._woken: set[str] = set()

    async def open(self) -> None:
        """Go on with what waits since the last time."""
        for source_id in await asyncio.to_thread(self._pushes.waiting_sources):
            self._wake(source_id)

    async def close(self) -> None:
        """Stop watching; a reading that is under way ends by itself."""
        for reader in self._readers.values():
            reader.cancel()
        await asyncio.gather(*self._readers.values(), return_exceptions=True)

    async def receive(self, source_id: str, headers: Mapping[str, str], body: bytes) -> str:
        """Take a push; returns what its sender waits to read, mostly nothing. Raises Unauthenticated."""
        async with self._seats:
            said = await asyncio.to_thread(self._verified, source_id, headers, body)
            ids = (*said.changed_ids, *said.removed_ids)
            if not ids and not said.changes_access:
                return said.reply
            push_id = said.push_id or sha256_hex(body)
            is_new = await asyncio.to_thread(self._pushes.record, source_id, push_id, ids)
        event("push.receive", source_id=source_id, n_items=len(ids), is_new=is_new)
        if is_new:
            self._wake(source_id)
        return said.reply

    def _verified(self, source_id: str, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        config = self._pushes.source(source_id) if _SOURCE_ID.fullmatch(source_id) else None
        try:
            if config is None:
                raise Unauthenticated("there is no such source", code="webhook.unknown")
            return build_connector(config).webhook(headers, body)
        except Unavailable:
            raise
        except CortexError as error:
            event("push.refuse", source_id=config.source_id if config else "", code=error.error_code)
            raise Unauthenticated(
                "the push bears no valid signature of this source",
                code="webhook.refused",
                hint="docs/reference/connectors.md says what a source needs; the log says why it was refused",
            ) from None

    def _wake(self, source_id: str) -> None:
        self._woken.add(source_id)
        reader = self._readers.get(source_id)
        if reader is None or reader.done():
            self._readers[source_id] = asyncio.create_task(self._read(source_id))

    async def _read(self, source_id: str) -> None:
        """Have a source's pushes acted on while there are any; after a failure, wait longer each time."""
        pause_s = _FIRST_PAUSE_S
        while source_id in self._woken:
            self._woken.discard(source_id)
            if not await asyncio.to_thread(self._pushes.waiting, source_id):
                continue
            self._woken.add(source_id)
            if await self._run(source_id):
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            else:
                pause_s = _FIRST_PAUSE_S


def reading_process(settings: Settings) -> Callable[[str], Awaitable[int]]:
    """Make the function that reads a source again in a process of its own, which outlives this one."""

    async def run(source_id: str) -> int:
        logs = settings.logs_path
        logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (logs / f"push-{source_id}.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "data_jobs.refetch", "--source", source_id),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return await process.wait()

    return run
