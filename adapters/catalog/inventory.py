"""The catalog read whole, to compare the other stores with it: streams in one snapshot, and second looks at suspects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from adapters.catalog.failures import translated
from adapters.catalog.mirror import Tuple
from adapters.catalog.queries import queries
from cortex.chunks import PointPayload
from cortex.documents import Acl, Grant, GrantKind, acl_sha256

_SQL = {**queries("inventory"), "relationships": queries("outbox")["relationships"]}
_STREAM_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class ExpectedPoint:
    """What one point must say. A chunk may stand in the shown version and in the staged one, then twice here."""

    chunk_id: str
    is_shown: bool
    payload: PointPayload


@dataclass(frozen=True, slots=True)
class InFlight:
    """What of some chunks and documents waits in the outbox: their points may differ until it is delivered."""

    chunk_ids: frozenset[str]
    document_ids: frozenset[str]


class CatalogInventory:
    """Reads the catalog over two connections: streams come from one snapshot, second looks see the newest state."""

    def __init__(self, url: str) -> None:
        self._url = url
        with translated():
            self._now = psycopg.connect(url, autocommit=True, options="-c timezone=UTC")

    def close(self) -> None:
        """Drop the connection."""
        self._now.close()

    # ------------------------------------------------------------------------------------------------------ points

    def model_versions(self) -> dict[str, int]:
        """Map each embedding model version in use to its number of shown documents."""
        return dict(self._rows("model_versions"))

    def expected_points(self, versions: Sequence[str]) -> Iterator[ExpectedPoint]:
        """Stream what the points of some model versions must say, by ascending chunk id."""
        return (_expected(row) for row in self._stream("expected_points", versions=list(versions)))

    def expected_now(self, chunk_ids: Sequence[str]) -> list[ExpectedPoint]:
        """Say what some points must say now."""
        return [_expected(row) for row in self._rows("expected_points_now", chunk_ids=list(chunk_ids))]

    def in_flight(self, chunk_ids: Sequence[str], document_ids: Sequence[str]) -> InFlight:
        """Say which deletions and access changes of these wait to be delivered."""
        chunks = self._rows("waiting_chunks", chunk_ids=list(chunk_ids))
        documents = self._rows("waiting_profiles", document_ids=list(document_ids))
        return InFlight(frozenset(c for (c,) in chunks), frozenset(d for (d,) in documents))

    def profile_lists(self) -> dict[int, str]:
        """Map each access profile to the hash of its list: profile numbers differ between homes, lists do not."""
        return dict(self._rows("profile_lists"))

    def shown_texts(self) -> Iterator[tuple[str, str, str]]:
        """Stream (chunk id, hash of title and text, hash of the access list) of all that is shown, in no order."""
        return self._stream("shown_texts")

    # ------------------------------------------------------------------------------------------------- permissions

    def altered_profiles(self) -> Iterator[tuple[str, int]]:
        """Stream (tenant, profile) where the mirrored grants are not those the profile was interned for."""
        for profile_id, tenant_id, sha256, is_known, *columns in self._stream("profile_grants"):
            sides: dict[str, set[Grant]] = {"viewer": set(), "denied": set()}
            for relation, kind, name in zip(*columns, strict=True):
                sides[relation].add(_grant(kind, name))
            acl = Acl(frozenset(sides["viewer"]), frozenset(sides["denied"]), is_known)
            if acl_sha256(acl) != sha256:
                yield tenant_id, profile_id

    def mirror(self) -> Iterator[tuple[str, Tuple]]:
        """Stream (tenant, tuple) of all that SpiceDB must hold, circles among groups rewritten."""
        return ((tenant_id, Tuple(*row)) for tenant_id, *row in self._stream("relationships", tenant_id=""))

    def documents_without_tuple(self) -> Iterator[tuple[str, str]]:
        """Stream (tenant, document) whose access profile the mirror does not state."""
        return self._stream("documents_without_tuple")

    def foreign_tuples(self) -> Iterator[tuple[str, str]]:
        """Stream (tenant, document) of which the mirror states another profile than theirs, or that are gone."""
        return self._stream("foreign_tuples")

    def foreign_edges(self) -> Iterator[tuple[str, str]]:
        """Stream (tenant, document) whose links or names are kept under another source than theirs."""
        return self._stream("foreign_edges")

    def lost_edges(self) -> Iterator[tuple[str, str]]:
        """Stream (tenant, document) of which links, or names for links, are gone."""
        return self._stream("lost_edges")

    def unused_versions(self) -> Iterator[tuple[str, str]]:
        """Stream (tenant, document) that have a version which is neither shown nor being staged."""
        return self._stream("unused_versions")

    def unknown_profiles(self) -> Iterator[tuple[str, str]]:
        """Stream (tenant, profile's name) of mirrored profiles that the catalog does not know."""
        return self._stream("unknown_profiles")

    # ----------------------------------------------------------------------------------------------------- objects

    def referenced_objects(self) -> Iterator[str]:
        """Stream the hashes of the contents that versions, shown or staged, were made of; ascending."""
        return (sha256 for (sha256,) in self._stream("referenced_objects"))

    def documents_of_objects(self, sha256s: Sequence[str]) -> dict[str, list[str]]:
        """Map contents to the documents that have them now."""
        found: dict[str, list[str]] = {}
        for sha256, document_id in self._rows("documents_of_object", sha256s=list(sha256s)):
            found.setdefault(sha256, []).append(document_id)
        return found

    def parked(self) -> dict[str, int]:
        """Count the outbox's events that were given up, by topic."""
        return dict(self._rows("parked"))

    # ---------------------------------------------------------------------------------------------------- plumbing

    def _rows(self, name: str, **values: Any) -> list[Any]:
        with translated():
            return self._now.execute(_SQL[name], values).fetchall()

    def _stream(self, name: str, **values: Any) -> Iterator[Any]:
        """Read through a cursor in the database, on a connection of its own."""
        with self._snapshot() as connection, connection.cursor(name=name) as cursor:
            cursor.itersize = _STREAM_ROWS
            cursor.execute(_SQL[name], values)
            yield from cursor

    @contextmanager
    def _snapshot(self) -> Iterator[psycopg.Connection]:
        with translated(), psycopg.connect(self._url, options="-c timezone=UTC") as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield connection


def _expected(row: Sequence[Any]) -> ExpectedPoint:
    chunk_id, is_shown, tenant, profile, source, kind, collection, document, group, updated_at, version = row
    payload = PointPayload(
        tenant, profile, source, kind, collection, document, group, updated_at, False, version
    )
    return ExpectedPoint(chunk_id, is_shown, payload)


def _grant(kind: str, name: str) -> Grant:
    """Read a mirrored subject as the grant it came from: the nameless group is everyone."""
    return Grant(GrantKind.EVERYONE) if kind == "group" and not name else Grant(GrantKind(kind), name)
