"""Mends the catalog's permissions and queues what other stores must hear. Where two records disagree, nobody sees it.

A document that was hidden counts as one whose access list is not known, so the next load of its source sets it anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg

from adapters.catalog.audit import record
from adapters.catalog.failures import translated
from adapters.catalog.membership import lock_tenant
from adapters.catalog.mirror import (
    OPERATOR,
    Tuple,
    assert_tuples,
    forget_documents,
    relationships,
    retract_tuples,
)
from adapters.catalog.queries import queries
from adapters.catalog.queue import queue_obsolete, queue_profile, queue_tuples
from cortex.ports.outbox import Relationship

_SQL = {
    **queries("documents"),
    **queries("permissions"),
    "relationships": queries("outbox")["relationships"],
    "forget_fingerprints": queries("inventory")["forget_fingerprints"],
}
NOBODY_PROFILE = 0
_KEY = "consistency"


class CatalogMender:
    """Changes one catalog, each call in a transaction of its own that holds the rows it decides on.

    `actor` is who mends, for the audit of what changes access.
    """

    def __init__(self, url: str, actor: str) -> None:
        self._actor = actor
        with translated():
            self._connection = psycopg.connect(url, autocommit=True, options="-c timezone=UTC")

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()

    def requeue_profiles(self, document_ids: Sequence[str]) -> int:
        """Queue documents' access profiles for their points; returns how many documents are there."""
        with self._transaction() as connection:
            held = connection.execute(_SQL["hold_profiles"], {"document_ids": list(document_ids)}).fetchall()
            for tenant_id, document_id, profile_id in held:
                queue_profile(connection, tenant_id, document_id, profile_id or NOBODY_PROFILE)
        return len(held)

    def restate_documents(self, tenant_id: str, document_ids: Sequence[str]) -> int:
        """State the access profiles of documents among the tuples again; those that state another one are left alone."""
        with self._transaction() as connection:
            held = _hold(connection, tenant_id, document_ids)
            stated = connection.execute(
                _SQL["document_tuples"], {"tenant_id": tenant_id, "document_ids": list(held)}
            )
            is_stated = {Tuple(*row).resource_name for row in stated}
            rows = [
                Tuple("document", document_id, "access", "profile", str(profile_id))
                for document_id, (profile_id, _) in held.items()
                if profile_id is not None and document_id not in is_stated
            ]
            added = relationships(tenant_id, assert_tuples(connection, tenant_id, OPERATOR, rows))
            queue_tuples(connection, tenant_id, _KEY, touch=added, gates_checks=False)
            self._record(connection, tenant_id, documents_restated=len(added))
        return len(added)

    def hide_documents(self, tenant_id: str, document_ids: Sequence[str]) -> int:
        """Let nobody see documents any more; returns how many there were, gone ones included."""
        with self._transaction() as connection:
            _hide(connection, tenant_id, document_ids, _hold(connection, tenant_id, document_ids))
            self._record(connection, tenant_id, documents_hidden=len(document_ids))
        return len(document_ids)

    def own_edges(self, tenant_id: str, document_ids: Sequence[str]) -> int:
        """Keep documents' links and names under the documents' own source."""
        with self._transaction() as connection:
            connection.execute(_SQL["own_edges"], {"document_ids": list(document_ids)})
            connection.execute(_SQL["own_names"], {"document_ids": list(document_ids)})
        return len(document_ids)

    def make_again(self, document_ids: Sequence[str]) -> None:
        """Let the next load of their sources make these documents again."""
        with self._transaction() as connection:
            connection.execute(_SQL["forget_fingerprints"], {"document_ids": list(document_ids)})

    def drop_unused_versions(self, tenant_id: str, document_ids: Sequence[str]) -> int:
        """Delete versions that are neither shown nor being staged, and queue the deletion of their points."""
        with self._transaction() as connection:
            unused = connection.execute(
                _SQL["unused_versions"], {"document_ids": list(document_ids)}
            ).fetchall()
            for version_id, document_id in unused:
                rows = connection.execute(_SQL["chunk_ids"], {"version_ids": [version_id]})
                queue_obsolete(connection, tenant_id, document_id, [row[0] for row in rows])
            connection.execute(_SQL["drop_versions"], {"version_ids": [row[0] for row in unused]})
        return len(document_ids)

    def drop_profile(self, tenant_id: str, name: str) -> int:
        """Forget an access profile with its grants, and hide the documents that have it; returns how many those are.

        A list that is needed again gets a profile of its own.
        """
        with self._transaction() as connection:
            key = {"tenant_id": tenant_id, "name": name}
            rows = connection.execute(_SQL["hold_profile_documents"], key).fetchall()
            lock_tenant(connection, tenant_id)  # after the documents, as whoever sets access lists does
            held: dict[str, tuple[int | None, bool]] = {row[0]: (None, row[1]) for row in rows}
            _hide(connection, tenant_id, list(held), held)
            grants = [Tuple(*row) for row in connection.execute(_SQL["tuples_of_profile"], key)]
            retracted = retract_tuples(connection, tenant_id, None, grants)
            connection.execute(_SQL["drop_profile"], key)
            connection.execute(_SQL["bump_revision"], key)
            # What allows goes before what denies.
            deleted = relationships(tenant_id, retracted)[::-1]
            queue_tuples(connection, tenant_id, _KEY, delete=deleted, gates_checks=True)
            self._record(connection, tenant_id, profiles_dropped=1, documents_hidden=len(held))
        return len(held)

    def tell_tuples(self, tenant_id: str, tuples: Sequence[Tuple]) -> int:
        """Queue tuples for SpiceDB that the mirror still has; returns how many.

        Under the locks that whoever retracts them takes, so that a retraction is queued after it and wins.
        """
        document_ids = [row.resource_name for row in tuples if row.resource_type == "document"]
        with self._transaction() as connection:
            _hold(connection, tenant_id, document_ids)
            lock_tenant(connection, tenant_id)
            wanted = set(tuples)
            with connection.cursor(name="expected") as cursor:
                cursor.execute(_SQL["relationships"], {"tenant_id": tenant_id})
                still = [row for _, *columns in cursor if (row := Tuple(*columns)) in wanted]
            queue_tuples(
                connection, tenant_id, _KEY, touch=relationships(tenant_id, still), gates_checks=False
            )
        return len(still)

    def retract(self, stale: Sequence[Relationship]) -> None:
        """Queue the deletion of tuples that SpiceDB holds and the mirror does not."""
        with self._transaction() as connection:
            row = connection.execute(_SQL["any_tenant"]).fetchone()
            if row:
                queue_tuples(connection, row[0], _KEY, delete=stale, gates_checks=True)

    def _record(self, connection: psycopg.Connection, tenant_id: str, **counts: int) -> None:
        if counted := {name: n for name, n in counts.items() if n}:
            record(connection, tenant_id, self._actor, "access.repair", counted)

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection]:
        with translated(), self._connection.transaction():
            yield self._connection


def _hold(
    connection: psycopg.Connection, tenant_id: str, document_ids: Sequence[str]
) -> dict[str, tuple[int | None, bool]]:
    """Hold documents' rows; maps those that are there to their profile and whether points of them may exist."""
    values = {"tenant_id": tenant_id, "document_ids": list(document_ids)}
    rows = connection.execute(_SQL["hold_documents"], values)
    return {document_id: (profile_id, has_points) for document_id, profile_id, has_points in rows}


def _hide(
    connection: psycopg.Connection,
    tenant_id: str,
    document_ids: Sequence[str],
    held: Mapping[str, tuple[int | None, bool]],
) -> None:
    forgotten = forget_documents(connection, tenant_id, document_ids)
    connection.execute(_SQL["clear_profiles"], {"document_ids": list(held)})
    queue_tuples(connection, tenant_id, _KEY, delete=relationships(tenant_id, forgotten), gates_checks=True)
    for document_id, (_, has_points) in held.items():
        if has_points:
            queue_profile(connection, tenant_id, document_id, NOBODY_PROFILE)
