"""Permissions: the mirror of tuples says what documents and profiles say, and SpiceDB holds what the mirror says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import islice
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from adapters.catalog.inventory import CatalogInventory
from adapters.catalog.mirror import Tuple, relationship
from adapters.spicedb.reader import SpiceDBReader
from cortex.ports.outbox import Relationship
from data_jobs.consistency.digests import digest, digest_set, only_in
from data_jobs.consistency.report import Kind, Ledger

_BATCH = 500


class PermissionMender(Protocol):
    """Mends the mirror and SpiceDB; where it is unsure, it hides."""

    def mend_documents(self, kind: Kind, documents: Sequence[tuple[str, str]]) -> None:
        """Mend documents of one kind of difference, given as (tenant, document id)."""

    def mend_profiles(self, kind: Kind, profiles: Sequence[tuple[str, str]]) -> None:
        """Mend access profiles of one kind of difference, given as (tenant, profile's name)."""

    def tell(self, tenant_id: str, tuples: Sequence[Tuple]) -> None:
        """Tell SpiceDB what the mirror has, if it still has it."""

    def retract(self, relationships: Sequence[Relationship]) -> None:
        """Take from SpiceDB what the mirror does not have."""


def check_catalog(inventory: CatalogInventory, ledger: Ledger, mender: PermissionMender | None) -> None:
    """Compare the catalog with itself, the mirror of tuples above all: one database, so nothing can be in flight."""
    altered = ((tenant_id, str(profile_id)) for tenant_id, profile_id in inventory.altered_profiles())
    profiles: list[tuple[Kind, Iterable[tuple[str, str]]]] = [
        (Kind.PROFILE_ALTERED, altered),
        (Kind.PROFILE_UNKNOWN, inventory.unknown_profiles()),
    ]
    for kind, found in profiles:
        for batch in _noted(kind, found, ledger):
            if mender is not None:
                mender.mend_profiles(kind, batch)
    documents: list[tuple[Kind, Iterable[tuple[str, str]]]] = [
        (Kind.VERSION_UNUSED, inventory.unused_versions()),
        (Kind.EDGE_FOREIGN, inventory.foreign_edges()),
        (Kind.EDGE_MISSING, inventory.lost_edges()),
        (Kind.ACCESS_FOREIGN, inventory.foreign_tuples()),
        (Kind.ACCESS_MISSING, inventory.documents_without_tuple()),
    ]
    for kind, found in documents:
        for batch in _noted(kind, found, ledger):
            if mender is not None:
                mender.mend_documents(kind, batch)


def _noted(
    kind: Kind, found: Iterable[tuple[str, str]], ledger: Ledger
) -> Iterator[Sequence[tuple[str, str]]]:
    """Note differences and pass them on in batches."""
    stream = iter(found)
    while batch := list(islice(stream, _BATCH)):
        for _, name in batch:
            ledger.found(kind, name)
        yield batch


@dataclass(frozen=True, slots=True)
class _Differing:
    """Digests of the tuples that one side alone has."""

    missing: NDArray[np.uint64]
    stale: NDArray[np.uint64]


def check_tuples(
    inventory: CatalogInventory,
    spicedb: SpiceDBReader,
    ledger: Ledger,
    mender: PermissionMender | None,
    settle: Callable[[], None],
) -> None:
    """Compare what SpiceDB holds with the mirror; only what differs twice, with all changes delivered between, counts.

    Takes 16 bytes of memory per tuple.
    """
    settle()
    first = _look(inventory, spicedb, ledger)
    if not first.missing.size and not first.stale.size:
        return
    settle()
    second = _look(inventory, spicedb, None)
    missing = np.intersect1d(first.missing, second.missing, assume_unique=True)
    stale = np.intersect1d(first.stale, second.stale, assume_unique=True)
    ledger.in_flight += int(first.missing.size + first.stale.size - missing.size - stale.size)
    if stale.size:
        _settle_stale(spicedb, frozenset(stale.tolist()), ledger, mender)
    if missing.size:
        _settle_missing(inventory, frozenset(missing.tolist()), ledger, mender)


def _look(inventory: CatalogInventory, spicedb: SpiceDBReader, ledger: Ledger | None) -> _Differing:
    def counted(relationships: Iterable[Relationship]) -> Iterator[int]:
        for one in relationships:
            if ledger is not None:
                ledger.looked_at("tuples")
            yield _digest(one)

    expected = digest_set(counted(relationship(tenant_id, row) for tenant_id, row in inventory.mirror()))
    held = digest_set(map(_digest, spicedb.relationships()))
    return _Differing(only_in(expected, held), only_in(held, expected))


def _settle_stale(
    spicedb: SpiceDBReader, digests: frozenset[int], ledger: Ledger, mender: PermissionMender | None
) -> None:
    stale = (one for one in spicedb.relationships() if _digest(one) in digests)
    while batch := list(islice(stale, _BATCH)):
        for one in batch:
            ledger.found(Kind.TUPLE_STALE, _spelled(one))
        if mender is not None:
            mender.retract(batch)


def _settle_missing(
    inventory: CatalogInventory, digests: frozenset[int], ledger: Ledger, mender: PermissionMender | None
) -> None:
    missing: dict[str, list[Tuple]] = {}
    for tenant_id, row in inventory.mirror():
        one = relationship(tenant_id, row)
        if _digest(one) not in digests:
            continue
        ledger.found(Kind.TUPLE_MISSING, _spelled(one))
        batch = missing.setdefault(tenant_id, [])
        batch.append(row)
        if mender is not None and len(batch) == _BATCH:
            mender.tell(tenant_id, missing.pop(tenant_id))
        elif mender is None:
            missing.clear()
    if mender is not None:
        for tenant_id, batch in missing.items():
            mender.tell(tenant_id, batch)


def _digest(one: Relationship) -> int:
    return digest(*astuple(one))


def _spelled(one: Relationship) -> str:
    subject = f"{one.subject_type}:{one.subject_id}" + (
        f"#{one.subject_relation}" if one.subject_relation else ""
    )
    return f"{one.resource_type}:{one.resource_id}#{one.relation}@{subject}"
