"""Ports of the ingest side, synchronous: the catalog, the index and the objects as a load writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from cortex.chunks import Chunk, IndexPoint
from cortex.documents import Acl, Document, Membership
from cortex.edges import EdgeState, ResolvedEdge
from cortex.ports.connectors import FetchFailure, Skipped, SourceConfig


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """What the catalog already holds of an item; a rerun compares against it."""

    document_id: str
    external_id: str
    content_sha256: str  # of the raw content; empty while nothing is indexed
    fingerprint: str  # cheap change test: size and modification time
    acl_sha256: str
    is_complete: bool  # indexed under the current embedding model version and parser version


@dataclass(frozen=True, slots=True)
class AclWrite:
    """One document's access list as its source states it."""

    external_id: str
    document_id: str
    acl: Acl


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """One document version ready for the catalog."""

    document: Document
    fingerprint: str
    chunks: tuple[Chunk, ...]
    embedding_model_version: str
    near_duplicate_of: str = ""  # document_id of the group's first, or empty
    signature: bytes = b""  # MinHash of the body, uint32[64] little-endian


class IngestCatalog(Protocol):
    """The catalog, for writing during ingest."""

    def ensure_source(self, config: SourceConfig) -> None:
        """Create or update the source row."""

    def list_sources(self, tenant_id: str) -> list[Mapping[str, Any]]:
        """List sources with document counts and the last run, for operators."""

    def start_run(self, source_id: str) -> str:
        """Open a sync run; returns its id."""

    def update_run(self, run_id: str, counts: Mapping[str, int]) -> bool:
        """Publish progress counts (indexed, unchanged, removed, failed, total); True when asked to stop."""

    def request_stop(self, tenant_id: str, run_id: str) -> None:
        """Ask a run to stop at its next progress; raises NotFound unless it runs."""

    def finish_run(
        self,
        run_id: str,
        status: str,
        counts: Mapping[str, int],
        failures: Sequence[FetchFailure],
        skipped: Sequence[Skipped] = (),
    ) -> None:
        """Close a sync run with its counts, the reasons of what failed, and what was left out on purpose."""

    def known_documents(self, source_id: str, embedding_model_version: str) -> dict[str, KnownDocument]:
        """Map external_id to what is held of a source; tombstoned documents are left out."""

    def together(self) -> AbstractContextManager[None]:
        """Make one transaction of all that this thread writes in a block: all of it is kept, or nothing."""

    def near_duplicates(self, tenant_id: str, document_id: str, signature: bytes) -> str:
        """Return the document id whose stored signature is at least 0.85 similar, or empty."""

    def stage_document(self, write: DocumentWrite) -> None:
        """Write the new version's rows without showing them: readers keep the old version."""

    def publish_document(self, document_id: str, content_sha256: str) -> tuple[str, ...]:
        """Show the staged version in one transaction; returns the obsolete chunk ids, also queued in the outbox."""

    def set_acl(self, tenant_id: str, source_id: str, external_id: str, document_id: str, acl: Acl) -> int:
        """Set a document's access list as its own versioned write; returns its access profile id.

        Interns the grant set, mirrors the tuples and queues them in the outbox. An unknown list never overwrites a
        known one. May be called before the document is staged.
        """

    def set_acls(self, tenant_id: str, source_id: str, writes: Sequence[AclWrite]) -> dict[str, int]:
        """Set many access lists in one transaction; returns each document's access profile id."""

    def set_fingerprints(self, fingerprints: Mapping[str, str]) -> None:
        """Note by document id that shown versions were found unchanged under a new fingerprint."""

    def set_memberships(self, tenant_id: str, source_id: str, memberships: Iterable[Membership]) -> int:
        """Replace the group edges that one source asserts; returns how many changed."""

    def add_membership(self, tenant_id: str, membership: Membership) -> bool:
        """Add one group edge asserted by the operator; False when it was there."""

    def remove_membership(self, tenant_id: str, membership: Membership) -> bool:
        """Remove one group edge whoever asserted it; False when there was none."""

    def ensure_users(self, tenant_id: str, user_ids: Iterable[str], source_id: str = "") -> None:
        """Register people, so that they may ask, because a source names them. Who was removed stays removed."""

    def admit_users(self, tenant_id: str, user_ids: Iterable[str]) -> None:
        """Register people because the operator says so, those included who had been removed."""

    def remove_user(self, tenant_id: str, user_id: str) -> bool:
        """Refuse a person from the next request on and take them out of every group, whoever says they belong there;
        False when that was done before. Raises NotFound for who was never registered.

        Until `admit_users` no source brings them back: edges that name them are left out of `set_memberships`, and
        `add_membership` raises Conflict(code="user.removed"). Access profiles keep naming them.
        """

    def tombstone(self, document_id: str) -> tuple[str, ...]:
        """Hide a document at once and queue its deletion; returns the chunk ids to delete."""

    def count_edges(self, source_id: str) -> dict[EdgeState, int]:
        """Count the edges of a source's shown documents by where they lead; states without any are left out."""

    def list_edges(
        self, source_id: str, states: Collection[EdgeState] = (), limit: int | None = None
    ) -> list[ResolvedEdge]:
        """List the edges of a source's shown documents, of some states or of all, by document and place in it.

        For operators: readers may not see every document, so nothing of this may reach them.
        """


@dataclass(frozen=True, slots=True)
class Push:
    """One verified push that nobody acted on yet. Without ids it says that access changed."""

    push_id: str
    changed_ids: tuple[str, ...]


class PushQueue(Protocol):
    """The catalog's record of pushes: who receives them writes it, who reads sources again empties it."""

    def source(self, source_id: str) -> SourceConfig | None:
        """Read a source of any tenant; None when there is none."""

    def record(self, source_id: str, push_id: str, changed_ids: Sequence[str]) -> bool:
        """Record a push; False when it is known already."""

    def waiting(self, source_id: str) -> list[Push]:
        """List a source's oldest waiting pushes; a batch at most."""

    def waiting_sources(self) -> list[str]:
        """List the sources whose pushes wait, in order."""

    def settle(self, source_id: str, push_ids: Collection[str]) -> None:
        """Note that pushes were acted on; forget old ones, and all but the newest runs."""


class IndexWriter(Protocol):
    """The vector index, for writing."""

    def ensure(self, embedding_model_version: str, dimension: int) -> None:
        """Create the index and its payload indexes before the first point; raises Misconfigured if they differ."""

    def upsert(self, points: Sequence[IndexPoint]) -> None:
        """Insert or replace points; returns when a search sees them."""

    def delete_chunks(self, chunk_ids: Sequence[str]) -> None:
        """Delete points by id. An empty selector raises InputError(code="selector.empty")."""

    def delete_document(self, document_id: str) -> None:
        """Delete every point of a document."""

    def set_profile(self, document_id: str, profile_id: int) -> None:
        """Change the access profile on every point of a document, without touching its content."""

    def count(self, tenant_id: str) -> int:
        """Count a tenant's points exactly."""

    def optimize(self) -> None:
        """Build graphs and drop deleted points now; a server does it by itself."""


class ObjectStore(Protocol):
    """Raw payloads by SHA-256."""

    def put(self, content: bytes) -> str:
        """Store bytes once; returns their SHA-256 hex."""

    def get(self, sha256: str) -> bytes:
        """Load bytes and verify their hash; raises NotFound or Corrupt."""

    def delete(self, sha256: str) -> None:
        """Delete an object; missing ones are fine."""
