"""Ports: where parts meet. Ingest ports are synchronous, query ports asynchronous; nothing is offered in both.

Every method raises only `CortexError`s. A port's twin for unit tests lives in `tests/twins/` and passes the same
contract suite as the real adapter.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cortex.chunks import Chunk, IndexPoint, SparseVector
from cortex.documents import Acl, Document, Item, Membership, ParsedBody
from cortex.edges import EdgeState, ResolvedEdge
from cortex.evidence import Answer, Candidate, Filters, Hit, SearchResult
from cortex.principals import Permit, Principal

# --------------------------------------------------------------------------------------------------- connectors


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """One configured source: its type, the name the operator gave it, and the connector's own options."""

    tenant_id: str
    source_id: str
    source_type: str
    name: str
    collection: str = "default"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """What a verified push says: these items changed or went away, or who belongs to what did.

    `push_id` is the sender's own id of it, the same when it is sent again. `reply` is what the sender waits to read.
    `EVERYTHING` among the changed ids means that only a whole load will do.
    """

    changed_ids: tuple[str, ...] = ()
    removed_ids: tuple[str, ...] = ()
    changes_access: bool = False
    push_id: str = ""
    reply: str = ""


EVERYTHING = "*"


@dataclass(frozen=True, slots=True)
class FetchFailure:
    """An entry that fetch could not list (unreadable directory, symlink loop): it goes to the report, not to the index."""

    external_id: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """What a source holds and is left out on purpose: how many of a kind, and why. Not a failure: nothing is missing.

    `example` is the place of one of them, for whoever wonders.
    """

    code: str
    reason: str
    n: int = 1
    example: str = ""


Fetched = Item | FetchFailure | Skipped


class Connector(Protocol):
    """A source system behind five verbs. Built with one `SourceConfig`; holds no state between calls."""

    source_type: ClassVar[str]

    def __init__(self, config: SourceConfig) -> None: ...

    def fetch(self, cursor: str) -> Iterator[Fetched]:
        """List items changed since `cursor` (empty: all), in a stable order, without reading their content."""

    def normalize(self, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
        """Make the document of a parsed item. Deterministic: the same input gives the same document."""

    def acls(self, item: Item) -> Acl:
        """Say who may view the item at its source; `NOBODY` when unsure."""

    def memberships(self) -> Iterable[Membership]:
        """List the group edges the source knows; empty where groups come from elsewhere."""

    def cursor(self, items: Sequence[Item]) -> str:
        """Return the cursor after these items, so that the next fetch neither loses nor repeats."""

    def webhook(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        """Verify and read a push; an unsigned or forged one raises Unauthenticated and yields nothing."""


class ContentReader(Protocol):
    """What a connector offers besides when it lists items without path and content, because fetching those costs."""

    def read(self, item: Item, max_bytes: int) -> bytes:
        """Return an item's content, in any process that built the connector; raises Unparsable with the reason."""


@runtime_checkable
class Refetcher(Protocol):
    """What a connector offers besides when its source can be asked for single items: what pushes name is then read alone."""

    def refetch(self, external_ids: Sequence[str]) -> Iterator[Fetched]:
        """List these items as they are now, and what belongs to them; one that is gone is left out."""


# ------------------------------------------------------------------------------------------------------- models


class TokenCounter(Protocol):
    """What chunking asks of a dense text encoder: its tokenizer alone, which loads in a fraction of the time."""

    version: str  # the encoder's: changes when the vectors would, by model, quantisation, pooling or prefix

    def count_tokens(self, text: str) -> int:
        """Count the model's tokens in a text, special tokens not included."""


class Embedder(TokenCounter, Protocol):
    """A dense text encoder."""

    dimension: int

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32[n, d], unit rows, in the order given. Batches are length-sorted inside."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions: float32[n, d], unit rows."""


class LexicalEncoder(Protocol):
    """A BM25 term encoder; the index applies IDF."""

    version: str

    def encode_document(self, text: str) -> SparseVector:
        """Weigh a passage's terms: tf saturation and length normalisation by constants."""

    def encode_query(self, text: str) -> SparseVector:
        """Weigh a question's terms (1 for each occurrence); empty when nothing can be tokenised."""

    def terms(self, text: str) -> list[str]:
        """List the normalised terms of a text, repeats kept."""


class Reranker(Protocol):
    """A cross-encoder."""

    name: str

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages: float32[n], higher is better."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message: `role` is system, user or assistant."""

    role: str
    content: str


class Generator(Protocol):
    """A model that speaks the OpenAI chat API."""

    model: str

    def stream(self, messages: Sequence[Message]) -> AsyncGenerator[str, None]:
        """Stream the answer's text pieces; raises Unavailable or TimedOut. Closing it ends the request."""


# ------------------------------------------------------------------------------------------------ query, asynchronous


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """One hybrid query. The permit's profiles filter every lane and are the corpus of the BM25 IDF.

    Weights and `fusion_k` are those of weighted reciprocal rank fusion: sum of weight / (fusion_k + rank). Each lane
    is read `lane_limit` deep; `limit` and `offset` cut the fused list.
    """

    permit: Permit
    dense: NDArray[np.float32] | None
    sparse: SparseVector | None
    filters: Filters
    limit: int
    offset: int = 0
    weight_dense: float = 1.0
    weight_bm25: float = 1.0
    fusion_k: int = 10
    lane_limit: int = 100


class SearchIndex(Protocol):
    """The vector index, for reading."""

    async def search(self, query: IndexQuery) -> list[Candidate]:
        """Return fused candidates, best first, ties by chunk id, each with its lane scores and ranks.

        A lane whose vector is None does not run. An empty permit gives an empty list without a call.
        """

    async def ping(self) -> None:
        """Raise Unavailable unless the index answers."""


class QueryCatalog(Protocol):
    """The catalog, for reading at query time."""

    async def permit(self, principal: Principal) -> Permit:
        """Expand a principal to its access profiles at the newest access revision; unknown users get the tenant's
        everyone-profiles only if the user is registered, else raise Forbidden(code="user.unknown").

        Who was removed is Unauthenticated(code="user.removed"), and so are, after a return, what vouched for them before
        (code="token.revoked")."""

    async def hydrate(self, candidates: Sequence[Candidate], permit: Permit) -> list[Hit]:
        """Load the candidates that are current, not deleted and within the permit, in the candidates' order."""

    async def document_hits(self, document_id: str, permit: Permit) -> list[Hit]:
        """Load all chunks of one visible document in order; empty when unknown or not visible."""

    async def permission_token(self) -> str:
        """Return the SpiceDB token of the newest permission write that SpiceDB acknowledged.

        Raises ChecksUnavailable when writes wait that SpiceDB has not seen.
        """

    async def record_answer(
        self, principal: Principal, question: str, result: SearchResult, answer: Answer
    ) -> str:
        """Store an answer with its citations for audit and feedback; returns the answer id."""

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        """Store a thumb; only the asker's own answer, else NotFound."""

    async def audit(self, principal: Principal, action: str, fields: Mapping[str, Any]) -> None:
        """Append one audit row."""

    async def ping(self) -> None:
        """Raise Unavailable unless the catalog answers."""


class PermissionChecker(Protocol):
    """SpiceDB, for checks."""

    async def allowed(self, principal: Principal, document_ids: Sequence[str], token: str) -> frozenset[str]:
        """Return those documents the principal may view, at least as fresh as `token`; raises ChecksUnavailable."""

    async def ping(self) -> None:
        """Raise ChecksUnavailable unless SpiceDB answers and is loaded."""


# ---------------------------------------------------------------------------------------------- ingest, synchronous


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


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """One queued side effect, in commit order: `topic` is tuples, chunks.obsolete, document.profile or content."""

    outbox_id: int
    topic: str
    key: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Relationship:
    """One permission tuple in SpiceDB's own words; ids already encoded by `cortex.ids.object_id`."""

    resource_type: str
    resource_id: str
    relation: str
    subject_type: str
    subject_id: str
    subject_relation: str = ""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What the outbox holds: counts, the newest waiting event (0: none), and since when the oldest waits."""

    n_waiting: int
    n_parked: int
    newest_id: int
    oldest_at: datetime | None


@dataclass(frozen=True, slots=True)
class MirrorSnapshot:
    """The whole tuple mirror at one instant, and the waiting events about tuples that it already contains."""

    outbox_ids: tuple[int, ...]
    relationships: Callable[[], Iterator[Relationship]]  # streams it, as often as it is called


class Outbox(Protocol):
    """The catalog's queue of side effects; one consumer at a time holds its lock."""

    def take(self, limit: int, topics: Sequence[str] = ()) -> list[OutboxEvent]:
        """Read the oldest unpublished events in order, of some topics or of all; empty when another consumer holds
        the lock."""

    def lock(self) -> bool:
        """Become the one consumer; False when another is."""

    def release(self) -> None:
        """Let another consumer in."""

    def acknowledge(self, outbox_ids: Sequence[int], permission_token: str = "") -> None:
        """Mark events done; a token given becomes the one that rechecks use."""

    def fail(self, outbox_id: int, reason: str, attempts_limit: int) -> bool:
        """Count a failed attempt; True when the event is now parked. A parked permission change keeps checks closed."""

    def unused_chunks(
        self, document_ids: Sequence[str], chunk_ids: Sequence[str]
    ) -> AbstractContextManager[list[str]]:
        """Give the chunk ids that no version uses, and keep their documents from being staged meanwhile."""

    def backlog(self, topics: Sequence[str] = ()) -> Backlog:
        """Count what waits and what is parked, of some topics or of all."""

    def waits_up_to(self, outbox_id: int, topics: Sequence[str] = ()) -> bool:
        """Say whether an event up to this one, of some topics or of any, still waits."""

    def prune(self) -> int:
        """Forget events that were done more than a day ago; returns how many."""

    def snapshot(self) -> AbstractContextManager[MirrorSnapshot]:
        """Read the mirror and the events it contains in one transaction, so that nothing falls in between."""

    def relationships(self, tenant_id: str = "") -> Iterator[Relationship]:
        """Stream the whole tuple mirror (all tenants when empty), for a reload."""

    def wait(self, timeout_s: float) -> bool:
        """Block until something is queued (LISTEN/NOTIFY) or the time is over."""


class RelationshipWriter(Protocol):
    """SpiceDB, for writes."""

    def write_schema(self) -> str:
        """Install the permission schema; returns a token."""

    def apply(self, touch: Sequence[Relationship], delete: Sequence[Relationship]) -> str:
        """Apply changes in one call of at most 1,000; returns the token."""

    def open_for_checks(self) -> None:
        """Tell an embedded engine that the reload is whole, so that it may serve; no-op on a server."""


class RelationshipReader(Protocol):
    """SpiceDB, to compare what it holds with the mirror."""

    def relationships(self) -> Iterator[Relationship]:
        """Stream every tuple in the words of the schema, in no order; raises Unavailable when it does not answer."""


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
