"""Objects: the content of every document is stored and holds the bytes of its name; the rest is litter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Protocol

from adapters.catalog.inventory import CatalogInventory
from adapters.objects import LITTER_AFTER, ObstoreObjects
from cortex.errors import Corrupt, NotFound
from data_jobs.consistency.digests import digest_set, only_in
from data_jobs.consistency.report import Kind, Ledger

_BATCH = 500


class ObjectMender(Protocol):
    """Mends what is wrong with objects."""

    def mend(self, kind: Kind, sha256s: Sequence[str]) -> None:
        """Mend objects of one kind of difference."""


def check_objects(
    inventory: CatalogInventory,
    objects: ObstoreObjects,
    ledger: Ledger,
    mender: ObjectMender | None,
    *,
    reads_content: bool = True,
) -> None:
    """Compare the object store with the contents that the catalog refers to; reads each one unless told not to."""
    referenced = digest_set(map(_prefix, inventory.referenced_objects()))
    stored = digest_set(_prefix(one.sha256) for one in objects.entries())
    if (missing := only_in(referenced, stored)).size:
        wanted = frozenset(missing.tolist())
        gone = (sha256 for sha256 in inventory.referenced_objects() if _prefix(sha256) in wanted)
        _settle(Kind.OBJECT_MISSING, _still_missing(gone, inventory, objects), ledger, mender)
    if (unused := only_in(stored, referenced)).size:
        extra = frozenset(unused.tolist())
        ends_at = datetime.now(UTC) - LITTER_AFTER
        litter = (
            one.sha256
            for one in objects.entries()
            if one.written_at < ends_at and _prefix(one.sha256) in extra
        )
        _settle(Kind.OBJECT_ORPHAN, _still_unused(litter, inventory), ledger, mender)
    if reads_content:
        _settle(Kind.OBJECT_CORRUPT, _corrupt(inventory, objects, ledger), ledger, mender)


def _settle(kind: Kind, found: Iterator[str], ledger: Ledger, mender: ObjectMender | None) -> None:
    while batch := list(islice(found, _BATCH)):
        for sha256 in batch:
            ledger.found(kind, sha256)
        if mender is not None:
            mender.mend(kind, batch)


def _still_missing(
    sha256s: Iterable[str], inventory: CatalogInventory, objects: ObstoreObjects
) -> Iterator[str]:
    stream = iter(sha256s)
    while batch := list(islice(stream, _BATCH)):
        absent = [sha256 for sha256 in batch if not objects.is_there(sha256)]
        referenced = inventory.documents_of_objects(absent)
        yield from (sha256 for sha256 in absent if sha256 in referenced)


def _still_unused(sha256s: Iterable[str], inventory: CatalogInventory) -> Iterator[str]:
    stream = iter(sha256s)
    while batch := list(islice(stream, _BATCH)):
        referenced = inventory.documents_of_objects(batch)
        yield from (sha256 for sha256 in batch if sha256 not in referenced)


def _corrupt(inventory: CatalogInventory, objects: ObstoreObjects, ledger: Ledger) -> Iterator[str]:
    for sha256 in inventory.referenced_objects():
        ledger.looked_at("objects")
        try:
            objects.get(sha256)
        except Corrupt:
            yield sha256
        except NotFound:  # reported as missing, or gone meanwhile
            continue


def _prefix(sha256: str) -> int:
    """Take the first 64 bits of a hash: it is one already."""
    return int(sha256[:16], 16)
