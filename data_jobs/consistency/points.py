"""Points: each shown chunk has exactly one, which says what the catalog says; no other point exists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from itertools import groupby
from typing import Protocol

from adapters.catalog.inventory import CatalogInventory, ExpectedPoint
from adapters.qdrant_reader import QdrantIndexReader
from cortex.chunks import PointPayload
from data_jobs.consistency.digests import ContentHash
from data_jobs.consistency.report import Kind, Ledger

_SUSPECTS = 500


class PointMender(Protocol):
    """Mends what is wrong with points of one collection."""

    def mend(self, kind: Kind, points: Sequence[tuple[str, str]]) -> None:
        """Mend points of one kind of difference, given as (chunk id, document id)."""


def judge(rows: Sequence[ExpectedPoint], stored: PointPayload | None) -> Kind | None:
    """Say what is wrong with one point, given the versions that its chunk stands in."""
    if stored is None:
        return Kind.POINT_MISSING if any(row.is_shown for row in rows) else None
    if not rows:
        return Kind.POINT_ORPHAN
    if any(row.payload == stored for row in rows):
        return None
    if any(replace(row.payload, profile_id=stored.profile_id) == stored for row in rows):
        return Kind.POINT_PROFILE
    return Kind.POINT_PAYLOAD


def check_points(
    inventory: CatalogInventory, index: QdrantIndexReader, ledger: Ledger, mender: PointMender | None
) -> str:
    """Compare every collection with the catalog; returns the content hash of the one that searches read."""
    versions = inventory.model_versions()
    serving, present = index.serving(), index.collections()
    content = ContentHash()
    lists = inventory.profile_lists()
    for collection in sorted({*present, *map(index.collection_of, versions)}):
        stored = index.points(collection) if collection in present else iter(())
        if collection == serving:
            stored = _hashed(stored, lists, content)
        own = [version for version in versions if index.collection_of(version) == collection]
        _compare(
            _Collection(inventory, index, collection, own, collection in present), stored, ledger, mender
        )
        if serving and collection != serving and (n := sum(versions[version] for version in own)):
            ledger.found(Kind.DOCUMENT_MODEL, collection, n)
    return content.hexdigest()


class _Collection:
    """One collection and what the catalog expects in it."""

    def __init__(
        self,
        inventory: CatalogInventory,
        index: QdrantIndexReader,
        name: str,
        versions: Sequence[str],
        is_present: bool,
    ) -> None:
        self._inventory = inventory
        self._index = index
        self._name = name
        self._versions = versions
        self._is_present = is_present

    def expected(self) -> Iterator[ExpectedPoint]:
        """Stream what its points must say."""
        return self._inventory.expected_points(self._versions)

    def look_again(self, chunk_ids: Sequence[str], ledger: Ledger) -> Iterator[tuple[Kind, str, str]]:
        """Judge suspects anew, the catalog read before and after the index: what changed meanwhile is in flight."""
        before = self._now(chunk_ids)
        stored = self._index.get(self._name, chunk_ids) if self._is_present else {}
        document_ids = {row.payload.document_id or "" for rows in before.values() for row in rows}
        document_ids |= {payload.document_id or "" for payload in stored.values()}
        flight = self._inventory.in_flight(chunk_ids, sorted(document_ids))
        after = self._now(chunk_ids)
        for chunk_id in chunk_ids:
            rows, point = after.get(chunk_id, []), stored.get(chunk_id)
            kind = judge(rows, point)
            if kind is None:
                continue
            payload = rows[0].payload if rows else point
            document_id = (payload.document_id if payload else None) or ""
            is_moving = before.get(chunk_id, []) != rows or chunk_id in flight.chunk_ids
            if is_moving or (kind is Kind.POINT_PROFILE and document_id in flight.document_ids):
                ledger.in_flight += 1
            else:
                yield kind, chunk_id, document_id

    def _now(self, chunk_ids: Sequence[str]) -> dict[str, list[ExpectedPoint]]:
        found: dict[str, list[ExpectedPoint]] = {}
        for row in self._inventory.expected_now(chunk_ids):
            if row.payload.embedding_model_version in self._versions:
                found.setdefault(row.chunk_id, []).append(row)
        return found


def _compare(
    collection: _Collection,
    stored: Iterator[tuple[str, PointPayload]],
    ledger: Ledger,
    mender: PointMender | None,
) -> None:
    suspects: list[str] = []
    for chunk_id, rows, point in merged(collection.expected(), stored):
        ledger.looked_at("points")
        if judge(rows, point) is not None:
            suspects.append(chunk_id)
        if len(suspects) == _SUSPECTS:
            _settle(collection, suspects, ledger, mender)
            suspects = []
    _settle(collection, suspects, ledger, mender)


def _settle(
    collection: _Collection, suspects: Sequence[str], ledger: Ledger, mender: PointMender | None
) -> None:
    confirmed = sorted(collection.look_again(suspects, ledger)) if suspects else []
    for kind, chunk_id, document_id in confirmed:
        ledger.found(kind, f"{chunk_id} of {document_id or 'no document'}")
    if mender is not None:
        for kind, alike in groupby(confirmed, key=lambda one: one[0]):
            mender.mend(kind, [(chunk_id, document_id) for _, chunk_id, document_id in alike])


def merged(
    expected: Iterable[ExpectedPoint], stored: Iterable[tuple[str, PointPayload]]
) -> Iterator[tuple[str, list[ExpectedPoint], PointPayload | None]]:
    """Join two streams that ascend by chunk id."""
    left = ((chunk_id, list(rows)) for chunk_id, rows in groupby(expected, key=lambda row: row.chunk_id))
    right = iter(stored)
    row, point = next(left, None), next(right, None)
    while row or point:
        if point is None or (row and row[0] < point[0]):
            assert row is not None
            yield row[0], row[1], None
            row = next(left, None)
        elif row is None or point[0] < row[0]:
            yield point[0], [], point[1]
            point = next(right, None)
        else:
            yield row[0], row[1], point[1]
            row, point = next(left, None), next(right, None)


def _hashed(
    stored: Iterator[tuple[str, PointPayload]], lists: dict[int, str], content: ContentHash
) -> Iterator[tuple[str, PointPayload]]:
    """Add each point to the content hash, its profile by what it lets whom see.

    The group of near-duplicates is left out: which of them comes first is a matter of chance in a parallel load.
    """
    for chunk_id, payload in stored:
        access = lists.get(payload.profile_id or 0, "")
        told = replace(payload, profile_id=None, group_id=None)
        content.add(chunk_id, *map(str, astuple(told)), access)
        yield chunk_id, payload
