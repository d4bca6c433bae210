"""Queues side effects in the outbox, inside the caller's transaction: both happen or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from adapters.catalog.queries import queries
from cortex.ports.outbox import Relationship

_SQL = queries("outbox")

# One event becomes at most one SpiceDB call of at most 1,000 changes; half leaves room to join small ones.
_CHANGES_PER_EVENT = 500


def queue_event(
    connection: psycopg.Connection,
    tenant_id: str,
    topic: str,
    key: str,
    payload: Mapping[str, Any],
    *,
    gates_checks: bool = False,
) -> None:
    """Queue one event."""
    connection.execute(
        _SQL["queue"],
        {
            "tenant_id": tenant_id,
            "topic": topic,
            "key": key,
            "payload": Jsonb(payload),
            "gates_checks": gates_checks,
        },
    )


def queue_obsolete(
    connection: psycopg.Connection, tenant_id: str, document_id: str, chunk_ids: Sequence[str]
) -> None:
    """Queue the deletion of a document's points; nothing is queued for no chunks."""
    if chunk_ids:
        payload = {"document_id": document_id, "chunk_ids": list(chunk_ids)}
        queue_event(connection, tenant_id, "chunks.obsolete", document_id, payload)


def queue_profile(connection: psycopg.Connection, tenant_id: str, document_id: str, profile_id: int) -> None:
    """Queue the change of a document's access profile on its points."""
    payload = {"document_id": document_id, "profile_id": profile_id}
    queue_event(connection, tenant_id, "document.profile", document_id, payload)


def queue_tuples(
    connection: psycopg.Connection,
    tenant_id: str,
    key: str,
    *,
    touch: Sequence[Relationship] = (),
    delete: Sequence[Relationship] = (),
    gates_checks: bool,
) -> None:
    """Queue tuple changes in the given order, deletions first, in events that fit one SpiceDB call."""
    changes = [("delete", r) for r in delete] + [("touch", r) for r in touch]
    for start in range(0, len(changes), _CHANGES_PER_EVENT):
        payload: dict[str, list[tuple[str, ...]]] = {"delete": [], "touch": []}
        for operation, relationship in changes[start : start + _CHANGES_PER_EVENT]:
            payload[operation].append(astuple(relationship))
        queue_event(connection, tenant_id, "tuples", key, payload, gates_checks=gates_checks)
