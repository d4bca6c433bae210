"""Delivers what the outbox holds: permission tuples to SpiceDB, deletions and profile changes to the vector index.

Everything here may be done twice: a consumer that is killed between a delivery and its acknowledgement leaves the
event to the next one. Permission events are applied strictly in order; one that SpiceDB refuses is parked and never
tried again, because later ones may have changed the same tuple since: a reload from the mirror heals it. Parked index
events are tried again when the relay starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from cortex.errors import Corrupt, CortexError, InputError, Remedy, Unavailable
from cortex.ports.ingest import IndexWriter
from cortex.ports.outbox import Outbox, OutboxEvent, Relationship, RelationshipWriter
from cortex.telemetry import event

PERMISSION_TOPICS = ("tuples",)
INDEX_TOPICS = ("chunks.obsolete", "document.profile")

_BATCH = 500
_CHANGES_PER_WRITE = 1_000
_ATTEMPTS = 3
_ATTEMPT_PAUSE_S = 0.2
_LOOK_EVERY_S = 0.02


def drain(
    outbox: Outbox, writer: RelationshipWriter, index: IndexWriter | None = None, timeout_s: float = 30.0
) -> None:
    """Return when everything queued by now is delivered, by us or by the relay that holds the lock.

    Without an index only permission events are meant. Raises Unavailable when time is up or an engine stays down, and
    when a permission event is parked: then checks are closed until a reload.
    """
    topics = PERMISSION_TOPICS + (INDEX_TOPICS if index else ())
    newest_id = outbox.backlog(topics).newest_id
    deadline = time.monotonic() + timeout_s
    while outbox.waits_up_to(newest_id, topics):
        if time.monotonic() > deadline:
            raise Unavailable(
                "queued changes were not applied in time", code="outbox.slow", hint="cortex status"
            )
        if not outbox.lock():
            time.sleep(_LOOK_EVERY_S)
            continue
        try:
            deliver(outbox, writer, index)
        finally:
            outbox.release()
    if outbox.backlog(PERMISSION_TOPICS).n_parked:
        raise Unavailable(
            "a permission change was refused by SpiceDB, so checks are closed",
            code="permissions.parked",
            hint="run `cortex down` and `cortex up`: it reloads every permission",
        )


def deliver(outbox: Outbox, writer: RelationshipWriter, index: IndexWriter | None) -> int:
    """Deliver one batch of each kind, permissions first; returns how many events are done. Needs the lock.

    Raises Unavailable when an engine does not answer, after trying the other one.
    """
    n_done = 0
    trouble: CortexError | None = None
    lanes: list[Callable[[], int]] = [lambda: _deliver_permissions(outbox, writer)]
    if index is not None:
        lanes.append(lambda: _deliver_to_index(outbox, index))
    for lane in lanes:
        try:
            n_done += lane()
        except CortexError as error:
            if not _is_transient(error):
                raise
            trouble = error
    if trouble is not None:
        raise trouble
    return n_done


def park_unknown(outbox: Outbox) -> int:
    """Park events that nobody consumes, with the reason, so that they are seen; returns how many."""
    known = PERMISSION_TOPICS + INDEX_TOPICS
    unknown = [queued for queued in outbox.take(_BATCH) if queued.topic not in known]
    for queued in unknown:
        outbox.fail(queued.outbox_id, f"nobody consumes the topic {queued.topic}", attempts_limit=1)
    return len(unknown)


def _deliver_permissions(outbox: Outbox, writer: RelationshipWriter) -> int:
    """Apply queued tuple changes in order, joined into as few writes as SpiceDB takes."""
    n_done = 0
    for group in _groups(outbox.take(_BATCH, PERMISSION_TOPICS)):
        try:
            _apply(outbox, writer, group)
            n_done += len(group)
        except (InputError, Corrupt):
            for queued in group:  # one of them is refused: find it
                n_done += _insist(outbox, queued, lambda one: _apply(outbox, writer, [one]))
    return n_done


def _groups(events: Iterable[OutboxEvent]) -> Iterator[list[OutboxEvent]]:
    """Cut events into runs whose changes fit one write."""
    group: list[OutboxEvent] = []
    n_changes = 0
    for queued in events:
        n_more = sum(len(queued.payload.get(side, ())) for side in ("touch", "delete"))
        if group and n_changes + n_more > _CHANGES_PER_WRITE:
            yield group
            group, n_changes = [], 0
        group.append(queued)
        n_changes += n_more
    if group:
        yield group


def _apply(outbox: Outbox, writer: RelationshipWriter, group: Sequence[OutboxEvent]) -> None:
    """Apply a group of events as one write: of changes to the same tuple the last one counts."""
    is_kept: dict[Relationship, bool] = {}
    for queued in group:
        for side in ("delete", "touch"):
            rows = _field(queued, side)
            is_kept.update((_relationship(row), side == "touch") for row in rows)
    touch = [relationship for relationship, kept in is_kept.items() if kept]
    delete = [relationship for relationship, kept in is_kept.items() if not kept]
    token = writer.apply(touch, delete) if is_kept else ""
    outbox.acknowledge([queued.outbox_id for queued in group], token)
    event("relay.permissions", n_events=len(group), n_touched=len(touch), n_deleted=len(delete))


def _deliver_to_index(outbox: Outbox, index: IndexWriter) -> int:
    """Delete obsolete points and change profiles on points."""
    queued = outbox.take(_BATCH, INDEX_TOPICS)
    obsolete = [one for one in queued if one.topic == "chunks.obsolete"]
    profiles = [one for one in queued if one.topic == "document.profile"]
    n_done = 0
    if obsolete:
        try:
            _delete(outbox, index, obsolete)
            n_done += len(obsolete)
        except CortexError as error:
            if _is_transient(error):
                raise
            n_done += sum(_insist(outbox, one, lambda e: _delete(outbox, index, [e])) for one in obsolete)
    return n_done + sum(_insist(outbox, one, lambda e: _set_profile(outbox, index, e)) for one in profiles)


def _delete(outbox: Outbox, index: IndexWriter, group: Sequence[OutboxEvent]) -> None:
    """Delete the points that no document version uses any more; those that came back stay."""
    document_ids = sorted({str(_field(queued, "document_id")) for queued in group})
    chunk_ids = sorted({str(chunk_id) for queued in group for chunk_id in _field(queued, "chunk_ids")})
    with outbox.unused_chunks(document_ids, chunk_ids) as unused:
        if unused:
            index.delete_chunks(unused)
    outbox.acknowledge([queued.outbox_id for queued in group])
    event("relay.deleted", n_events=len(group), n_chunks=len(unused), n_kept=len(chunk_ids) - len(unused))


def _set_profile(outbox: Outbox, index: IndexWriter, queued: OutboxEvent) -> None:
    index.set_profile(str(_field(queued, "document_id")), int(_field(queued, "profile_id")))
    outbox.acknowledge([queued.outbox_id])


def _field(queued: OutboxEvent, name: str) -> Any:
    """Read a field of an event; raises Corrupt when it is not there."""
    if name not in queued.payload:
        raise Corrupt(f"an event about {queued.topic} lacks its {name}", code="outbox.malformed")
    return queued.payload[name]


def _relationship(row: Sequence[str]) -> Relationship:
    if len(row) != len(fields(Relationship)):
        raise Corrupt("an event holds half a permission tuple", code="outbox.malformed")
    return Relationship(*row)


def _insist(outbox: Outbox, queued: OutboxEvent, act: Callable[[OutboxEvent], None]) -> int:
    """Try one event a few times, then park it with the reason; returns 1 when it was delivered, else 0."""
    while True:
        try:
            act(queued)
        except CortexError as error:
            is_own_fault = isinstance(error, InputError | Corrupt) or queued.topic in INDEX_TOPICS
            if _is_transient(error) or not is_own_fault:
                raise
            reason = f"{error.error_code}: {error.message}"
            if outbox.fail(queued.outbox_id, reason, _ATTEMPTS):
                event("relay.parked", topic=queued.topic, outbox_id=queued.outbox_id, reason=reason)
                return 0
            time.sleep(_ATTEMPT_PAUSE_S)
        else:
            return 1


def _is_transient(error: CortexError) -> bool:
    """Say whether waiting could help: an engine that is down, busy, slow or not set up yet."""
    return error.remedy in (Remedy.RETRY, Remedy.RETRY_AFTER)
