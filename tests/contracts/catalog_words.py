"""Short words for tests of the catalog: people, groups, access lists, document versions, candidates."""

from __future__ import annotations

from cortex.chunks import Chunk
from cortex.documents import Acl, Anchor, Document, Grant, GrantKind, Membership
from cortex.evidence import Candidate, LaneScores
from cortex.ids import chunk_id, document_id, sha256_hex, source_id
from cortex.ports.connectors import SourceConfig
from cortex.ports.ingest import DocumentWrite
from cortex.principals import Principal

TENANT = "acme"
MODEL = "model-1"


def person(name: str, tenant_id: str = TENANT) -> Principal:
    return Principal(tenant_id, name)


def user(name: str) -> Grant:
    return Grant(GrantKind.USER, name)


def group(name: str) -> Grant:
    return Grant(GrantKind.GROUP, name)


def member(group_name: str, who: Grant) -> Membership:
    return Membership(group_name, who)


def acl(*viewers: Grant, denied: tuple[Grant, ...] = ()) -> Acl:
    return Acl(frozenset(viewers), frozenset(denied))


def source(name: str = "wiki", tenant_id: str = TENANT) -> SourceConfig:
    return SourceConfig(tenant_id, source_id(tenant_id, "files", name), "files", name)


def document(name: str, content: str, config: SourceConfig) -> Document:
    return Document(
        document_id=document_id(config.tenant_id, config.source_id, name),
        tenant_id=config.tenant_id,
        source_id=config.source_id,
        external_id=name,
        source_type="files",
        title=f"Title of {name}",
        media_type="text/plain",
        content_sha256=sha256_hex(content.encode()),
        permalink=f"file:///{name}",
    )


def version(
    name: str, content: str, config: SourceConfig | None = None, *, signature: bytes = b"", like: str = ""
) -> DocumentWrite:
    """A document version with one chunk per line."""
    made = document(name, content, config or source())
    chunks, start = [], 0
    for ordinal, line in enumerate(content.splitlines()):
        size = len(line.encode())
        chunks.append(
            Chunk(
                chunk_id=chunk_id(made.document_id, made.content_sha256, ordinal, MODEL),
                document_id=made.document_id,
                ordinal=ordinal,
                text=line,
                embed_text=line,
                byte_start=start,
                byte_end=start + size,
                anchor=Anchor("line", ordinal + 1, ordinal + 1),
                heading_path=("Top", f"Section {ordinal}"),
            )
        )
        start += size + 1
    return DocumentWrite(made, f"fingerprint of {content}", tuple(chunks), MODEL, like, signature)


def candidates(*writes: DocumentWrite) -> list[Candidate]:
    """One candidate for each chunk, best first."""
    chunks = [chunk for write in writes for chunk in write.chunks]
    return [
        Candidate(chunk.chunk_id, chunk.document_id, 1.0 - place / 100, LaneScores(dense_rank=place + 1))
        for place, chunk in enumerate(chunks)
    ]
