"""The relay as a program: delivers the outbox's events as they come, waits while an engine is down, ends on SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from adapters.catalog.outbox import PostgresOutbox
from adapters.spicedb.writer import SpiceDBWriter
from cortex.console import command
from cortex.errors import CortexError, Remedy
from cortex.ports.ingest import IndexWriter
from cortex.ports.outbox import Outbox, RelationshipWriter
from cortex.settings import settings
from cortex.telemetry import event, setup_logging
from data_jobs.deliver import INDEX_TOPICS, deliver, park_unknown
from data_jobs.parts import build_index

_LISTEN_S = 1.0
_PRUNE_EVERY_S = 3_600.0
_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0


class Relay:
    """Delivers until it is told to stop."""

    def __init__(self, outbox: Outbox, writer: RelationshipWriter, index: IndexWriter) -> None:
        self._outbox = outbox
        self._writer = writer
        self._index = index
        self._stopping = threading.Event()
        self._pause_s = _SHORTEST_PAUSE_S
        self._pruned_at = -_PRUNE_EVERY_S

    def stop(self) -> None:
        """Finish the batch in hand, then return from `run`."""
        self._stopping.set()

    def run(self) -> None:
        """Deliver, then wait for more; an engine that is down is tried again after growing pauses."""
        while not self._stopping.is_set():
            try:
                self._deliver_all()
                self._pause_s = _SHORTEST_PAUSE_S
                self._outbox.wait(_LISTEN_S)
            except CortexError as error:
                if error.remedy not in (Remedy.RETRY, Remedy.RETRY_AFTER):
                    raise
                event("relay.waits", code=error.error_code, reason=error.message, pause_s=self._pause_s)
                self._stopping.wait(self._pause_s)
                self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)

    def _deliver_all(self) -> None:
        """Deliver until nothing waits; between batches others may take the lock, a reload above all."""
        while not self._stopping.is_set():
            with self._locked() as is_locked:
                if not is_locked:
                    self._stopping.wait(_SHORTEST_PAUSE_S)
                elif not deliver(self._outbox, self._writer, self._index):
                    park_unknown(self._outbox)
                    self._prune()
                    return

    def _prune(self) -> None:
        """Forget old events now and then."""
        if time.monotonic() - self._pruned_at > _PRUNE_EVERY_S:
            self._outbox.prune()
            self._pruned_at = time.monotonic()

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Hold the consumer's lock for a block, if nobody else does."""
        is_locked = self._outbox.lock()
        try:
            yield is_locked
        finally:
            if is_locked:
                self._outbox.release()


@command
def main() -> None:
    """Run the relay until SIGTERM."""
    given = settings()
    setup_logging(given.log_level)
    outbox = PostgresOutbox(given.postgres_url)
    writer = SpiceDBWriter(given.spicedb_url, given.spicedb_token.get_secret_value(), given.spicedb_tls)
    relay = Relay(outbox, writer, build_index(given))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: relay.stop())
    event("relay.started")
    try:
        outbox.unpark(
            INDEX_TOPICS
        )  # what failed for a reason that may be gone gets another chance at each start
        relay.run()
    finally:
        outbox.close()
        writer.close()
    event("relay.stopped")


if __name__ == "__main__":
    main()
