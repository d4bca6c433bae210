"""Ports of delivery, synchronous: the catalog's queue of side effects, and SpiceDB as its consumer writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """One queued side effect, in commit order: `topic` is tuples, chunks.obsolete, document.profile or content."""

    outbox_id: int
    topic: str
    key: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Relationship:
    """One permission tuple in SpiceDB's own words; ids already encoded by `cortex.ids.object_id`."""

    resource_type: str
    resource_id: str
    relation: str
    subject_type: str
    subject_id: str
    subject_relation: str = ""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the outbox holds: counts, the newest waiting event (0: none), and since when the oldest waits."""

    n_waiting: int
    n_parked: int
    newest_id: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class MirrorSnapshot:
    """The whole tuple mirror at one instant, and the waiting events about tuples that it already contains."""

    outbox_ids: tuple[int, ...]
    relationships: Callable[[], Iterator[Relationship]]  # streams it, as often as it is called


class Outbox(Protocol):
    """The catalog's queue of side effects; one consumer at a time holds its lock."""

    def take(self, limit: int, topics: Sequence[str] = ()) -> list[OutboxEvent]:
        """Read the oldest unpublished events in order, of some topics or of all; empty when another consumer holds
        the lock."""

    def lock(self) -> bool:
        """Become the one consumer; False when another is."""

    def release(self) -> None:
        """Let another consumer in."""

    def acknowledge(self, outbox_ids: Sequence[int], permission_token: str = "") -> None:
        """Mark events done; a token given becomes the one that rechecks use."""

    def fail(self, outbox_id: int, reason: str, attempts_limit: int) -> bool:
        """Count a failed attempt; True when the event is now parked. A parked permission change keeps checks closed."""

    def unused_chunks(
        self, document_ids: Sequence[str], chunk_ids: Sequence[str]
    ) -> AbstractContextManager[list[str]]:
        """Give the chunk ids that no version uses, and keep their documents from being staged meanwhile."""

    def backlog(self, topics: Sequence[str] = ()) -> Backlog:
        """Count what waits and what is parked, of some topics or of all."""

    def waits_up_to(self, outbox_id: int, topics: Sequence[str] = ()) -> bool:
        """Say whether an event up to this one, of some topics or of any, still waits."""

    def prune(self) -> int:
        """Forget events that were done more than a day ago; returns how many."""

    def snapshot(self) -> AbstractContextManager[MirrorSnapshot]:
        """Read the mirror and the events it contains in one transaction, so that nothing falls in between."""

    def relationships(self, tenant_id: str = "") -> Iterator[Relationship]:
        """Stream the whole tuple mirror (all tenants when empty), for a reload."""

    def wait(self, timeout_s: float) -> bool:
        """Block until something is queued (LISTEN/NOTIFY) or the time is over."""


class RelationshipWriter(Protocol):
    """SpiceDB, for writes."""

    def write_schema(self) -> str:
        """Install the permission schema; returns a token."""

    def apply(self, touch: Sequence[Relationship], delete: Sequence[Relationship]) -> str:
        """Apply changes in one call of at most 1,000; returns the token."""

    def open_for_checks(self) -> None:
        """Tell an embedded engine that the reload is whole, so that it may serve; no-op on a server."""


class RelationshipReader(Protocol):
    """SpiceDB, to compare what it holds with the mirror."""

    def relationships(self) -> Iterator[Relationship]:
        """Stream every tuple in the words of the schema, in no order; raises Unavailable when it does not answer."""
