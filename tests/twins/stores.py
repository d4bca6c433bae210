"""Twins of the stores that ingest writes to: catalog, index and objects in memory, for tests of ingest's own logic.

`Fuse` counts writes across all three and kills the run before the n-th one, as a power cut would.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from cortex.chunks import IndexPoint
from cortex.documents import Acl, Membership, acl_sha256
from cortex.edges import EdgeState, ResolvedEdge
from cortex.errors import InputError, NotFound
from cortex.ids import sha256_hex
from cortex.ports.connectors import FetchFailure, Skipped, SourceConfig
from cortex.ports.ingest import AclWrite, DocumentWrite, KnownDocument
from tests.twins.edges import counted, resolve, selected


class PowerCut(BaseException):
    """Ends a run without any chance to tidy up."""


@dataclass(slots=True)
class Fuse:
    """Counts writes; `blows_at` is the write before which the power goes, 0 for never."""

    n_writes: int = 0
    blows_at: int = 0

    def write(self) -> None:
        self.n_writes += 1
        if self.n_writes == self.blows_at:
            raise PowerCut


@dataclass(slots=True)
class TwinDocument:
    """What the catalog holds of one document."""

    external_id: str
    source_id: str
    shown: DocumentWrite | None = None
    staged: DocumentWrite | None = None
    profile: str = ""
    is_deleted: bool = False


@dataclass(slots=True)
class TwinCatalog:
    """An IngestCatalog in memory. `obsolete` holds the chunk ids that wait for the relay."""

    fuse: Fuse = field(default_factory=Fuse)
    documents: dict[str, TwinDocument] = field(default_factory=dict)
    profiles: dict[str, Acl] = field(default_factory=dict)
    memberships: dict[str, frozenset[Membership]] = field(default_factory=dict)
    users: set[str] = field(default_factory=set)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    obsolete: set[str] = field(default_factory=set)
    unwanted: set[str] = field(default_factory=set)  # runs that somebody asked to stop
    refuses: str = ""  # a title that the catalog refuses, as Postgres refuses some values

    def ensure_source(self, config: SourceConfig) -> None:
        self.fuse.write()

    def list_sources(self, tenant_id: str) -> list[Mapping[str, Any]]:
        return []

    def start_run(self, source_id: str) -> str:
        self.fuse.write()
        run_id = f"run-{len(self.runs) + 1}"
        self.runs[run_id] = {"status": "running"}
        return run_id

    def update_run(self, run_id: str, counts: Mapping[str, int]) -> bool:
        self.runs[run_id]["counts"] = dict(counts)
        return run_id in self.unwanted

    def request_stop(self, tenant_id: str, run_id: str) -> None:
        self.unwanted.add(run_id)

    def finish_run(
        self,
        run_id: str,
        status: str,
        counts: Mapping[str, int],
        failures: Sequence[FetchFailure],
        skipped: Sequence[Skipped] = (),
    ) -> None:
        if run_id not in self.runs:
            raise NotFound("there is no such run")
        self.runs[run_id] = {
            "status": status,
            "counts": dict(counts),
            "failures": list(failures),
            "skipped": list(skipped),
        }

    def known_documents(self, source_id: str, embedding_model_version: str) -> dict[str, KnownDocument]:
        return {
            held.external_id: KnownDocument(
                document_id,
                held.external_id,
                held.shown.document.content_sha256 if held.shown else "",
                held.shown.fingerprint if held.shown else "",
                held.profile,
                bool(held.shown and held.shown.embedding_model_version == embedding_model_version),
            )
            for document_id, held in self.documents.items()
            if held.source_id == source_id and not held.is_deleted
        }

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()  # a run has to bear what is half done, so it may stay half done here

    def near_duplicates(self, tenant_id: str, document_id: str, signature: bytes) -> str:
        for other_id, held in sorted(self.documents.items()):
            version = held.staged or held.shown
            if version and other_id != document_id and signature and version.signature == signature:
                group = version.near_duplicate_of or other_id
                return "" if group == document_id else group
        return ""

    def stage_document(self, write: DocumentWrite) -> None:
        self.fuse.write()
        if self.refuses and write.document.title == self.refuses:
            raise InputError("the catalog refused a value", code="catalog.refused")
        held = self._hold(write.document.document_id, write.document.external_id, write.document.source_id)
        abandoned, held.staged = held.staged, write
        self.obsolete |= _ids(abandoned) - _ids(write) - _ids(held.shown)

    def publish_document(self, document_id: str, content_sha256: str) -> tuple[str, ...]:
        self.fuse.write()
        held = self.documents[document_id]
        if held.staged is None:
            return ()
        gone = _ids(held.shown) - _ids(held.staged)
        held.shown, held.staged, held.is_deleted = held.staged, None, False
        self.obsolete |= gone
        return tuple(sorted(gone))

    def set_acl(self, tenant_id: str, source_id: str, external_id: str, document_id: str, acl: Acl) -> int:
        return self.set_acls(tenant_id, source_id, [AclWrite(external_id, document_id, acl)])[document_id]

    def set_acls(self, tenant_id: str, source_id: str, writes: Sequence[AclWrite]) -> dict[str, int]:
        self.fuse.write()
        for write in writes:
            held = self._hold(write.document_id, write.external_id, source_id)
            if write.acl.is_known or not held.profile:
                held.profile = acl_sha256(write.acl)
                self.profiles[held.profile] = write.acl
        order = list(self.profiles)
        return {write.document_id: order.index(self.documents[write.document_id].profile) for write in writes}

    def set_fingerprints(self, fingerprints: Mapping[str, str]) -> None:
        self.fuse.write()
        for document_id, fingerprint in fingerprints.items():
            held = self.documents[document_id]
            if held.shown:
                held.shown = replace(held.shown, fingerprint=fingerprint)

    def set_memberships(self, tenant_id: str, source_id: str, memberships: Iterable[Membership]) -> int:
        self.fuse.write()
        before = self.memberships.get(source_id, frozenset())
        self.memberships[source_id] = frozenset(memberships)
        return len(before ^ self.memberships[source_id])

    def add_membership(self, tenant_id: str, membership: Membership) -> bool:
        raise NotImplementedError

    def remove_membership(self, tenant_id: str, membership: Membership) -> bool:
        raise NotImplementedError

    def ensure_users(self, tenant_id: str, user_ids: Iterable[str], source_id: str = "") -> None:
        self.fuse.write()
        self.users |= set(user_ids)

    def admit_users(self, tenant_id: str, user_ids: Iterable[str]) -> None:
        raise NotImplementedError

    def remove_user(self, tenant_id: str, user_id: str) -> bool:
        raise NotImplementedError

    def tombstone(self, document_id: str) -> tuple[str, ...]:
        self.fuse.write()
        held = self.documents[document_id]
        gone = _ids(held.shown) | _ids(held.staged)
        self.documents[document_id] = TwinDocument(held.external_id, held.source_id, is_deleted=True)
        self.obsolete |= gone
        return tuple(sorted(gone))

    def count_edges(self, source_id: str) -> dict[EdgeState, int]:
        return counted(self._edges_of(source_id))

    def list_edges(
        self, source_id: str, states: Collection[EdgeState] = (), limit: int | None = None
    ) -> list[ResolvedEdge]:
        return selected(self._edges_of(source_id), states, limit)

    def _edges_of(self, source_id: str) -> list[ResolvedEdge]:
        held = (held for held in self.documents.values() if held.source_id == source_id)
        return resolve(one.shown.document for one in held if one.shown)

    def titles(self) -> dict[str, str]:
        """Map external ids to the titles shown."""
        return {held.external_id: held.shown.document.title for held in self.documents.values() if held.shown}

    def viewers(self) -> dict[str, frozenset[Any]]:
        """Map external ids to the viewers of living documents."""
        return {
            held.external_id: self.profiles[held.profile].viewers
            for held in self.documents.values()
            if held.profile and not held.is_deleted
        }

    def _hold(self, document_id: str, external_id: str, source_id: str) -> TwinDocument:
        return self.documents.setdefault(document_id, TwinDocument(external_id, source_id))


@dataclass(slots=True)
class TwinIndex:
    """An IndexWriter in memory."""

    fuse: Fuse = field(default_factory=Fuse)
    points: dict[str, IndexPoint] = field(default_factory=dict)
    n_upserts: int = 0

    def ensure(self, embedding_model_version: str, dimension: int) -> None:
        return

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        self.fuse.write()
        self.n_upserts += 1
        self.points.update((point.chunk_id, point) for point in points)

    def delete_chunks(self, chunk_ids: Sequence[str]) -> None:
        for chunk_id in chunk_ids:
            self.points.pop(chunk_id, None)

    def delete_document(self, document_id: str) -> None:
        self.delete_chunks([key for key, point in self.points.items() if point.document_id == document_id])

    def set_profile(self, document_id: str, profile_id: int) -> None:
        raise NotImplementedError

    def count(self, tenant_id: str) -> int:
        return sum(point.tenant_id == tenant_id for point in self.points.values())

    def optimize(self) -> None:
        return


@dataclass(slots=True)
class TwinObjects:
    """An ObjectStore in memory."""

    fuse: Fuse = field(default_factory=Fuse)
    content: dict[str, bytes] = field(default_factory=dict)

    def put(self, content: bytes) -> str:
        self.fuse.write()
        self.content[sha256_hex(content)] = content
        return sha256_hex(content)

    def get(self, sha256: str) -> bytes:
        if sha256 not in self.content:
            raise NotFound("there is no such object")
        return self.content[sha256]

    def delete(self, sha256: str) -> None:
        self.content.pop(sha256, None)


def _ids(write: DocumentWrite | None) -> set[str]:
    return {chunk.chunk_id for chunk in write.chunks} if write else set()
