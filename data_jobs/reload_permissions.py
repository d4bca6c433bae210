"""Loads the schema and the whole tuple mirror into SpiceDB, then lets it answer checks; run each time it has started."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from adapters.catalog.outbox import PostgresOutbox
from adapters.spicedb.writer import MOST_CHANGES, SpiceDBWriter
from cortex.console import command, write_document, write_progress
from cortex.errors import Unavailable
from cortex.ports import Outbox, Relationship, RelationshipWriter
from cortex.settings import settings

# The relay holds the lock for one batch at a time; a reload takes its turn.
_LOCK_TIMEOUT_S = 60.0
_LOCK_POLL_S = 0.05
_PROGRESS_EVERY = 50


@dataclass(frozen=True, slots=True)
class Reload:
    """What a reload did."""

    n_tuples: int
    seconds: float
    seconds_per_million: float
    n_events_contained: int


def reload_permissions(outbox: Outbox, writer: RelationshipWriter) -> Reload:
    """Write the schema and every tuple, acknowledge the newest token, then open SpiceDB for checks.

    Writing is repeatable, so a reload that was killed is simply run again: until one is whole, checks stay closed.
    Raises Unavailable when another consumer keeps the outbox for a minute.
    """
    started = time.monotonic()
    _lock(outbox)
    try:
        token = writer.write_schema()
        n_tuples = 0
        with outbox.snapshot() as snapshot:
            for batch in _batches(snapshot.relationships):
                token = writer.apply(batch, [])
                n_tuples += len(batch)
                if n_tuples % (_PROGRESS_EVERY * MOST_CHANGES) == 0:
                    write_progress("permissions.loaded", n_tuples=n_tuples)
        outbox.acknowledge(snapshot.outbox_ids, token)
        writer.open_for_checks()
    finally:
        outbox.release()
    seconds = time.monotonic() - started
    per_million = seconds / n_tuples * 1_000_000 if n_tuples else 0.0
    return Reload(n_tuples, round(seconds, 2), round(per_million, 1), len(snapshot.outbox_ids))


def _batches(relationships: Iterator[Relationship]) -> Iterator[list[Relationship]]:
    while batch := list(islice(relationships, MOST_CHANGES)):
        yield batch


def _lock(outbox: Outbox) -> None:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while not outbox.lock():
        if time.monotonic() > deadline:
            raise Unavailable("another consumer keeps the outbox", code="outbox.busy", hint="cortex status")
        time.sleep(_LOCK_POLL_S)


@command
def main() -> None:
    """Reload and print what it took, as JSON."""
    given = settings()
    outbox = PostgresOutbox(given.postgres_url)
    writer = SpiceDBWriter(given.spicedb_url, given.spicedb_token.get_secret_value(), given.spicedb_tls)
    try:
        write_document(reload_permissions(outbox, writer))
    finally:
        outbox.close()
        writer.close()


if __name__ == "__main__":
    main()
