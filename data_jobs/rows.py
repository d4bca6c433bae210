"""The row that travels through the stages: one document on its way, or the reason why it stays behind."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cortex.chunks import Chunk, ChunkVectors
from cortex.documents import Acl, Document, Item, ParsedBody
from cortex.ports.connectors import FetchFailure
from cortex.ports.ingest import KnownDocument

# The content is known to hold no text that we can read; other failures may pass with the next run.
LASTING_FAILURES = frozenset(
    f"document.{name}" for name in ("encrypted", "corrupt", "no_text", "empty", "unsupported", "too_large")
)


@dataclass(frozen=True, slots=True)
class Row:
    """One document between listing and index. Each stage fills its columns; text is dropped once it is chunked.

    `known` is what the catalog held of it at the start of the run. `failure` says why it stays behind.
    """

    item: Item
    acl: Acl
    fingerprint: str
    known: KnownDocument | None = None
    content: bytes | None = None
    content_sha256: str = ""
    parsed: ParsedBody | None = None
    document: Document | None = None
    signature: bytes = b""
    chunks: tuple[Chunk, ...] = ()
    vectors: tuple[ChunkVectors, ...] = ()
    n_chunks: int = 0
    is_unchanged: bool = False
    failure: FetchFailure | None = None

    @property
    def is_going_on(self) -> bool:
        """Whether later stages have work to do on it."""
        return self.failure is None and not self.is_unchanged

    def failed(self, code: str, reason: str) -> Row:
        """Return the row with the reason why it stays behind, and without its load."""
        failure = FetchFailure(self.item.external_id, code, reason)
        return replace(self.lightened(), failure=failure)

    def lightened(self) -> Row:
        """Return the row without text and vectors: what remains says what became of it."""
        item = replace(self.item, content=b"") if self.item.content else self.item
        return replace(self, item=item, content=None, parsed=None, chunks=(), vectors=())
