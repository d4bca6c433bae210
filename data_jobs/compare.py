"""Compare: what a source lists against what the catalog holds.

A survey sees everything once without reading content, so that what is gone and who may no longer read is settled
before the heavy work begins; a second pass yields the documents that have to be made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from cortex.documents import GrantKind, Item, acl_sha256
from cortex.ports.connectors import Connector, FetchFailure, Skipped
from cortex.ports.ingest import AclWrite, KnownDocument
from data_jobs.fingerprints import fingerprint_of
from data_jobs.rows import Row

# An entry that could not be looked at may be there all the same; one that is now a pipe or a link is not.
_OUT_OF_SIGHT = ".unreadable"


@dataclass(slots=True)
class Survey:
    """What one pass over a source found."""

    n_items: int = 0
    n_unchanged: int = 0
    failures: list[FetchFailure] = field(default_factory=list)
    skipped: dict[str, Skipped] = field(default_factory=dict)  # by code
    acl_writes: list[AclWrite] = field(default_factory=list)
    user_ids: set[str] = field(default_factory=set)
    gone: list[KnownDocument] = field(default_factory=list)

    @property
    def unreadable_root(self) -> FetchFailure | None:
        """Return why the source as a whole could not be listed, if so."""
        return next((failure for failure in self.failures if not failure.external_id), None)


def survey(connector: Connector, known: Mapping[str, KnownDocument], recipe: str) -> Survey:
    """List a source and say what is unchanged, whose access changed, and what is gone.

    What lies below something that could not be listed is not gone, only out of sight.
    """
    found, seen = Survey(), set()
    for item in connector.fetch(""):
        if isinstance(item, FetchFailure):
            found.failures.append(item)
        elif isinstance(item, Skipped):
            same = found.skipped.get(item.code)
            found.skipped[item.code] = replace(same, n=same.n + item.n) if same else item
        elif item.external_id in seen:
            reason = "the source lists this id twice; the first one counts"
            found.failures.append(FetchFailure(item.external_id, "item.repeated", reason))
        else:
            seen.add(item.external_id)
            _look_at(item, connector, known.get(item.external_id), recipe, found)
    hidden = {failure.external_id for failure in found.failures if failure.code.endswith(_OUT_OF_SIGHT)}
    found.gone = [
        document
        for external_id, document in known.items()
        if external_id not in seen and not _is_below(external_id, hidden)
    ]
    return found


def changed(
    connector: Connector, known: Mapping[str, KnownDocument], recipe: str
) -> Iterator[Row | FetchFailure]:
    """Yield the new and changed documents of a source, in its order, and what cannot be listed."""
    seen = set()
    for item in connector.fetch(""):
        if isinstance(item, FetchFailure):
            yield item
        elif isinstance(item, Item) and item.external_id not in seen:
            seen.add(item.external_id)
            fingerprint, before = fingerprint_of(item, recipe), known.get(item.external_id)
            if not _is_current(before, fingerprint):
                yield Row(item, connector.acls(item), fingerprint, before)


def _look_at(
    item: Item, connector: Connector, known: KnownDocument | None, recipe: str, found: Survey
) -> None:
    acl = connector.acls(item)
    found.n_items += 1
    found.user_ids.update(grant.name for grant in acl.viewers if grant.kind is GrantKind.USER)
    if known is not None and acl.is_known and known.acl_sha256 != acl_sha256(acl):
        found.acl_writes.append(AclWrite(item.external_id, known.document_id, acl))
    found.n_unchanged += _is_current(known, fingerprint_of(item, recipe))


def _is_current(known: KnownDocument | None, fingerprint: str) -> bool:
    return known is not None and known.is_complete and known.fingerprint == fingerprint


def _is_below(external_id: str, hidden: set[str]) -> bool:
    """Say whether an id, or a folder above it, is among those that could not be looked at."""
    parts = external_id.split("/")
    return "" in hidden or any("/".join(parts[:depth]) in hidden for depth in range(1, len(parts) + 1))
