"""Brings SpiceDB to what the tuple mirror says, then lets it answer checks; run each time it has started."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, astuple, dataclass
from itertools import islice

from adapters.catalog.outbox import PostgresOutbox
from adapters.spicedb.reader import SpiceDBReader
from adapters.spicedb.writer import MOST_CHANGES, SpiceDBWriter
from cortex.console import command, write_progress
from cortex.errors import Unavailable
from cortex.ports.outbox import MirrorSnapshot, Outbox, Relationship, RelationshipReader, RelationshipWriter
from cortex.settings import settings
from data_jobs.consistency.digests import digest, digest_set, only_in

# The relay holds the lock for one batch at a time; a reload takes its turn.
_LOCK_TIMEOUT_S = 60.0
_LOCK_POLL_S = 0.05
_PROGRESS_EVERY = 50

# What does not fit one write comes in an order that shows no document to anyone on the way from one access profile to
# another: what lets in goes first and comes last, what keeps out the other way round.
_STEPS = (
    ("delete", ("access", "viewer")),
    ("touch", ("denied",)),
    ("touch", ("member",)),
    ("delete", ("member",)),
    ("touch", ("viewer",)),
    ("touch", ("access",)),
    ("delete", ("denied",)),
)


@dataclass(frozen=True, slots=True)
class Reload:
    """What a reload did."""

    n_tuples: int
    n_stale: int
    seconds: float
    seconds_per_million: float
    n_events_contained: int


def reload_permissions(outbox: Outbox, writer: RelationshipWriter, reader: RelationshipReader) -> Reload:
    """Write the schema and what SpiceDB lacks, take from it what the mirror lacks, then open it for checks.

    Repeatable, so a reload that was killed is simply run again: until one is whole, an embedded engine stays closed.
    What SpiceDB holds already (a server keeps its tuples, a killed reload leaves some) is compared, because the events
    that are then acknowledged contain deletions. Raises Unavailable when another consumer keeps the outbox for a minute.
    """
    started = time.monotonic()
    _lock(outbox)
    try:
        token = writer.write_schema()
        with outbox.snapshot() as snapshot:
            applied = _Applied(writer, token)
            n_stale = _bring(snapshot, reader, applied)
        outbox.acknowledge(snapshot.outbox_ids, applied.token)
        writer.open_for_checks()
    finally:
        outbox.release()
    seconds = time.monotonic() - started
    n_touched = applied.n - n_stale
    per_million = seconds / n_touched * 1_000_000 if n_touched else 0.0
    return Reload(n_touched, n_stale, round(seconds, 2), round(per_million, 1), len(snapshot.outbox_ids))


@dataclass(slots=True)
class _Applied:
    """Writes to SpiceDB, counted; the token is the newest write's."""

    writer: RelationshipWriter
    token: str
    n: int = 0

    def write(self, touch: list[Relationship], delete: list[Relationship]) -> None:
        self.token = self.writer.apply(touch, delete)
        before, self.n = self.n, self.n + len(touch) + len(delete)
        if self.n // (_PROGRESS_EVERY * MOST_CHANGES) > before // (_PROGRESS_EVERY * MOST_CHANGES):
            write_progress("permissions.loaded", n_tuples=self.n)


def _bring(snapshot: MirrorSnapshot, reader: RelationshipReader, applied: _Applied) -> int:
    """Make SpiceDB hold exactly the mirror; returns how many tuples were stale. Takes 16 bytes of memory per tuple."""
    held = digest_set(map(_digest, reader.relationships()))
    if not held.size:
        for batch in _batches(snapshot.relationships()):
            applied.write(batch, [])
        return 0
    expected = digest_set(map(_digest, snapshot.relationships()))
    stale = frozenset(only_in(held, expected).tolist())
    missing = frozenset(only_in(expected, held).tolist())

    def touched(relations: tuple[str, ...] = ()) -> Iterator[Relationship]:
        return _chosen(snapshot.relationships() if missing else (), missing, relations)

    def deleted(relations: tuple[str, ...] = ()) -> Iterator[Relationship]:
        return _chosen(reader.relationships() if stale else (), stale, relations)

    if 0 < len(stale) + len(missing) <= MOST_CHANGES:
        applied.write(list(touched()), list(deleted()))
        return len(stale)
    for side, relations in _STEPS:
        if side == "touch":
            for batch in _batches(touched(relations)):
                applied.write(batch, [])
        else:
            # Read whole before the first is deleted: a server may stream from what is being changed.
            for batch in _batches(iter(list(deleted(relations)))):
                applied.write([], batch)
    return len(stale)


def _chosen(
    relationships: Iterable[Relationship], digests: frozenset[int], relations: tuple[str, ...]
) -> Iterator[Relationship]:
    """Give those with a digest, of some relations or of any."""
    return (
        one
        for one in relationships
        if (not relations or one.relation in relations) and _digest(one) in digests
    )


def _digest(one: Relationship) -> int:
    return digest(*astuple(one))


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
    """Reload and say what it took in one line of JSON, which the supervisor keeps in the engine's log."""
    given = settings()
    reached = given.spicedb_url, given.spicedb_token.get_secret_value(), given.spicedb_tls
    outbox = PostgresOutbox(given.postgres_url)
    writer, reader = SpiceDBWriter(*reached), SpiceDBReader(*reached)
    try:
        write_progress("permissions.reloaded", **asdict(reload_permissions(outbox, writer, reader)))
    finally:
        outbox.close()
        writer.close()
        reader.close()


if __name__ == "__main__":
    main()
