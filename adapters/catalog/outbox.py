"""The outbox as its one consumer sees it: port Outbox, plus what a reload and an honest status need."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import psycopg

from adapters.catalog.failures import translated
from adapters.catalog.mirror import Tuple, relationship
from adapters.catalog.queries import queries
from cortex.ports.outbox import Backlog, MirrorSnapshot, OutboxEvent, Relationship

_SQL = queries("outbox")
_CONNECT_TIMEOUT_S = 5
_STREAM_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """One event that failed too often; it stays until a reload or an operator resolves it."""

    outbox_id: int
    topic: str
    key: str
    attempts: int
    reason: str
    parked_at: datetime


class PostgresOutbox:
    """Port Outbox. Holds one connection, and on it the consumer's lock from the first `take` to `release`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection | None = None
        self._is_locked = False

    def close(self) -> None:
        """Drop the connection and, with it, the lock."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._is_locked = None, False

    def lock(self) -> bool:
        """Become the one consumer; False when another is. Postgres frees the lock of a consumer that dies."""
        with self._connected() as connection:
            if not self._is_locked:
                row = connection.execute(_SQL["lock"]).fetchone()
                self._is_locked = bool(row and row[0])
            return self._is_locked

    def release(self) -> None:
        """Let another consumer in."""
        with self._connected() as connection:
            if self._is_locked:
                connection.execute(_SQL["unlock"])
                self._is_locked = False

    def take(self, limit: int, topics: Sequence[str] = ()) -> list[OutboxEvent]:
        """Read the oldest unpublished events in order, of some topics or of all; empty without the lock."""
        if not self.lock():
            return []
        with self._connected() as connection:
            rows = connection.execute(_SQL["take"], {"limit": limit, "topics": list(topics)})
            return [OutboxEvent(*row) for row in rows]

    def acknowledge(self, outbox_ids: Sequence[int], permission_token: str = "") -> None:
        """Mark events done; a token given becomes the one that rechecks use."""
        with self._connected() as connection, connection.transaction():
            connection.execute(_SQL["acknowledge"], {"outbox_ids": list(outbox_ids)})
            if permission_token:
                values = {"token": permission_token, "outbox_id": max(outbox_ids, default=0)}
                connection.execute(_SQL["keep_token"], values)

    def fail(self, outbox_id: int, reason: str, attempts_limit: int) -> bool:
        """Count a failed attempt; True when the event is now parked. A parked permission change keeps checks closed."""
        values = {"outbox_id": outbox_id, "reason": reason[:500], "limit": attempts_limit}
        with self._connected() as connection:
            row = connection.execute(_SQL["fail"], values).fetchone()
        return bool(row and row[0])

    def relationships(self, tenant_id: str = "") -> Iterator[Relationship]:
        """Stream the whole tuple mirror (all tenants when empty), for a reload."""
        with self._connected() as connection, connection.transaction():
            yield from _stream(connection, tenant_id)

    @contextmanager
    def snapshot(self) -> Iterator[MirrorSnapshot]:
        """Read the mirror and the events it contains in one transaction, so that nothing falls in between."""
        with self._connected() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            ids = tuple(outbox_id for (outbox_id,) in connection.execute(_SQL["waiting_tuples"]))
            yield MirrorSnapshot(ids, partial(_stream, connection, ""))

    @contextmanager
    def unused_chunks(self, document_ids: Sequence[str], chunk_ids: Sequence[str]) -> Iterator[list[str]]:
        """Give the chunk ids that no version uses, and keep their documents from being staged meanwhile.

        A document whose old content came back reuses its old chunk ids: without this, a late deletion would take them.
        """
        with self._connected() as connection, connection.transaction():
            connection.execute(_SQL["hold_documents"], {"document_ids": list(document_ids)})
            rows = connection.execute(_SQL["unused_chunks"], {"chunk_ids": list(chunk_ids)})
            yield [chunk_id for (chunk_id,) in rows]

    def backlog(self, topics: Sequence[str] = ()) -> Backlog:
        """Count what waits and what is parked, of some topics or of all."""
        with self._connected() as connection:
            row = connection.execute(_SQL["backlog"], {"topics": list(topics)}).fetchone()
        return Backlog(*row) if row else Backlog(0, 0, 0, None)

    def parked(self) -> list[ParkedEvent]:
        """List parked events with their reasons."""
        with self._connected() as connection:
            return [ParkedEvent(*row) for row in connection.execute(_SQL["parked"])]

    def unpark(self, topics: Sequence[str]) -> int:
        """Give parked events another chance, except profile changes that a later one made obsolete; returns how many.

        Never for permission tuples: a later event may have changed the same tuple, only a reload heals those.
        """
        with self._connected() as connection, connection.transaction():
            connection.execute(_SQL["drop_superseded"])
            return connection.execute(_SQL["unpark"], {"topics": list(topics)}).rowcount

    def waits_up_to(self, outbox_id: int, topics: Sequence[str] = ()) -> bool:
        """Say whether an event up to this one, of some topics or of any, still waits."""
        values = {"outbox_id": outbox_id, "topics": list(topics)}
        with self._connected() as connection:
            row = connection.execute(_SQL["waits_up_to"], values).fetchone()
        return bool(row and row[0])

    def prune(self) -> int:
        """Forget events that were done more than a day ago; returns how many."""
        with self._connected() as connection:
            return connection.execute(_SQL["prune"]).rowcount

    def wait(self, timeout_s: float) -> bool:
        """Block until something is queued (LISTEN/NOTIFY) or the time is over."""
        deadline = time.monotonic() + timeout_s
        with self._connected() as connection:
            while not self.backlog().n_waiting:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                for _ in connection.notifies(timeout=left_s, stop_after=1):
                    pass
        return True

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        """Give the connection, made anew after a failure: the lock went with the old one."""
        with translated():
            if self._connection is None or self._connection.closed:
                self._is_locked = False
                self._connection = psycopg.connect(
                    self._url, autocommit=True, connect_timeout=_CONNECT_TIMEOUT_S, options="-c timezone=UTC"
                )
                self._connection.execute(_SQL["listen"])
            yield self._connection


def _stream(connection: psycopg.Connection, tenant_id: str) -> Iterator[Relationship]:
    """Read the mirror through a cursor in the database, a few thousand rows at a time."""
    with connection.cursor(name="relationships") as cursor:
        cursor.itersize = _STREAM_ROWS
        cursor.execute(_SQL["relationships"], {"tenant_id": tenant_id})
        for tenant, *row in cursor:
            yield relationship(tenant, Tuple(*row))
