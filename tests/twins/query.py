"""A small world for unit tests of the query path: the twins of every part, filled, counted and made to lag or fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.bm25 import Bm25Encoder
from adapters.in_threads import ThreadedEmbedder
from cortex.chunks import Chunk, ChunkVectors, IndexPoint
from cortex.documents import Acl, Anchor, Document, Grant, GrantKind
from cortex.errors import ChecksUnavailable, CortexError
from cortex.evidence import Candidate, Fragment, Hit, LaneScores
from cortex.ports.connectors import SourceConfig
from cortex.ports.ingest import AclWrite, DocumentWrite
from cortex.ports.outbox import Relationship
from cortex.ports.query import IndexQuery
from cortex.principals import Permit, Principal
from retrieval.path import Parts
from retrieval.plan import Plan
from retrieval.understand import ByRules
from tests.twins.catalog import CatalogTwin
from tests.twins.embedder import HashingEmbedder
from tests.twins.index import MemoryIndex
from tests.twins.permissions import PermissionsTwin

TENANT, SOURCE = "acme", "files"
LEXICAL = Bm25Encoder(k1=0.9, b=0.4, average_tokens=120.0)


def person(user_id: str) -> Principal:
    return Principal(TENANT, user_id)


@dataclass(slots=True)
class TwinWorld:
    """Documents as lists of chunk texts, who may see them, and every way in which an engine may lag or fail.

    `viewers` is what SpiceDB knows; `shown` what the catalog's rows say (default: the same); `indexed` what the index
    payload says (default: what the catalog says). `failures` names calls that raise.
    """

    documents: Mapping[str, Sequence[str]]
    viewers: Mapping[str, frozenset[str]]
    shown: Mapping[str, frozenset[str]] = field(default_factory=dict)
    indexed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    failures: dict[str, CortexError] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    checked: list[str] = field(default_factory=list)

    def only(self, *user_ids: str) -> TwinWorld:
        """The world that physically holds no more than all of these users may see."""
        seen = [name for name in self.documents if {*user_ids} <= self.viewers[name]]
        return TwinWorld(
            {name: self.documents[name] for name in seen}, {name: self.viewers[name] for name in seen}
        )

    def parts(self, plan: Plan | None = None, **others: Any) -> Parts:
        """Fill the twins and make a query path of them."""
        catalog, permissions, index = CatalogTwin(), PermissionsTwin(is_open=True), MemoryIndex()
        catalog.ensure_source(SourceConfig(TENANT, SOURCE, "files", "files"))
        audiences = {*self.viewers.values(), *self.shown.values(), *self.indexed.values()}
        catalog.ensure_users(TENANT, sorted(frozenset().union(*audiences)))
        self._fill(catalog, permissions, index)
        return Parts(
            catalog=_Catalog(self, catalog),
            index=_Index(self, index),
            checker=_Checker(self, permissions),
            embedder=ThreadedEmbedder(_Embedder(self)),
            lexical=LEXICAL,
            understanding=ByRules(plan or Plan()),
            plan=plan or Plan(),
            **others,
        )

    def enter(self, call: str) -> None:
        """Count a call, and fail it when told to."""
        self.calls[call] += 1
        if call in self.failures:
            raise self.failures[call]

    def _fill(self, catalog: CatalogTwin, permissions: PermissionsTwin, index: MemoryIndex) -> None:
        """Publish the documents; SpiceDB gets the true viewers, the index the profiles that it lags behind with."""
        shown = {name: self.shown.get(name, viewers) for name, viewers in self.viewers.items()}
        profiles = self._grant(catalog, {name: self.indexed.get(name, shown[name]) for name in shown})
        self._grant(catalog, self.viewers)
        for name, texts in self.documents.items():
            write = _version(name, texts)
            catalog.stage_document(write)
            catalog.publish_document(name, write.document.content_sha256)
            index.upsert([_point(chunk, profiles[name]) for chunk in write.chunks])
        _deliver(catalog, permissions)
        self._grant(catalog, shown)
        _deliver(catalog, None)

    def _grant(self, catalog: CatalogTwin, viewers: Mapping[str, frozenset[str]]) -> dict[str, int]:
        grants = {
            name: Acl(frozenset(Grant(GrantKind.USER, user) for user in viewers[name])) for name in viewers
        }
        return catalog.set_acls(TENANT, SOURCE, [AclWrite(name, name, acl) for name, acl in grants.items()])


def _deliver(catalog: CatalogTwin, permissions: PermissionsTwin | None) -> None:
    """Do what the relay does with queued permission changes; without SpiceDB they are lost."""
    for event in catalog.take(1_000):
        if event.topic == "tuples" and permissions:
            touch, delete = (
                [Relationship(*row) for row in event.payload[side]] for side in ("touch", "delete")
            )
            permissions.apply(touch, delete)
        catalog.acknowledge([event.outbox_id], "newest")


def _version(name: str, texts: Sequence[str]) -> DocumentWrite:
    document = Document(
        document_id=name, tenant_id=TENANT, source_id=SOURCE, external_id=name, source_type="files", title=name,
        media_type="text/plain", content_sha256=f"sha-{name}", permalink=f"file:///{name}",
    )  # fmt: skip
    start, chunks = 0, []
    for ordinal, text in enumerate(texts):
        end = start + len(text.encode())
        line = Anchor("line", ordinal + 1, ordinal + 1)
        chunks.append(Chunk(f"{name}#{ordinal}", name, ordinal, text, text, start, end, line))
        start = end + 2
    return DocumentWrite(document, "", tuple(chunks), "twin")


def _point(chunk: Chunk, profile_id: int) -> IndexPoint:
    dense = HashingEmbedder().embed_documents([chunk.embed_text])[0]
    return IndexPoint(
        chunk_id=chunk.chunk_id, document_id=chunk.document_id, tenant_id=TENANT, profile_id=profile_id,
        source_id=SOURCE, source_type="files", collection="default", group_id="", updated_at=None,
        embedding_model_version="twin", vectors=ChunkVectors(dense, LEXICAL.encode_document(chunk.embed_text)),
    )  # fmt: skip


def hit(chunk_id: str, text: str, *, document_id: str = "", ordinal: int = 0, **others: Any) -> Hit:
    """A hit with plain values for all that a test does not speak of; its chunks adjoin by ordinal."""
    start = ordinal * 10_000
    values: dict[str, Any] = {
        "source_id": SOURCE, "source_type": "files", "collection": "default", "title": "", "heading_path": (),
        "anchor": Anchor("line", ordinal + 1, ordinal + 1), "permalink": f"file:///{document_id or chunk_id}",
        "score": 0.0, "lanes": LaneScores(), "byte_start": start, "byte_end": start + 9_998, "group_id": "",
        "content_sha256": "", "profile_id": 1,
    }  # fmt: skip
    return Hit(
        chunk_id=chunk_id,
        document_id=document_id or chunk_id,
        text=text,
        ordinal=ordinal,
        **(values | others),
    )


def fragment(number: int, text: str, **others: Any) -> Fragment:
    """A fragment of one hit."""
    source = hit(f"c{number}", text, **others)
    return Fragment(source.chunk_id, number, source, text, source.anchor, source.byte_start, source.byte_end)


class _Embedder(HashingEmbedder):
    def __init__(self, world: TwinWorld) -> None:
        self._world = world

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._world.enter("embed")
        return super().embed_documents(texts)


class _Index:
    """The index, counted; each lane can be broken by itself."""

    def __init__(self, world: TwinWorld, index: MemoryIndex) -> None:
        self._world = world
        self._reader = index.reader

    async def search(self, query: IndexQuery) -> list[Candidate]:
        self._world.enter("search")
        if query.dense is not None:
            self._world.enter("dense lane")
        if query.sparse is not None:
            self._world.enter("bm25 lane")
        return await self._reader.search(query)

    async def ping(self) -> None:
        await self._reader.ping()


class _Catalog(CatalogTwin):
    """The catalog, counted; its permits carry an old token, so that a search must ask for the newest."""

    def __init__(self, world: TwinWorld, filled: CatalogTwin) -> None:
        for name in CatalogTwin.__slots__:
            setattr(self, name, getattr(filled, name))
        self._world = world

    async def permit(self, principal: Principal) -> Permit:
        self._world.enter("permit")
        return replace(await CatalogTwin.permit(self, principal), token="old")

    async def permission_token(self) -> str:
        self._world.enter("token")
        return await CatalogTwin.permission_token(self)

    async def hydrate(self, candidates: Sequence[Candidate], permit: Permit) -> list[Hit]:
        self._world.enter("hydrate")
        return await CatalogTwin.hydrate(self, candidates, permit)


class _Checker:
    """SpiceDB, counted; it must be asked at the newest token."""

    def __init__(self, world: TwinWorld, permissions: PermissionsTwin) -> None:
        self._world = world
        self._permissions = permissions

    async def allowed(self, principal: Principal, document_ids: Sequence[str], token: str) -> frozenset[str]:
        self._world.enter("check")
        if token != "newest":
            raise ChecksUnavailable(f"asked at token {token}")
        self._world.checked.extend(document_ids)
        return await self._permissions.allowed(principal, document_ids, token)

    async def ping(self) -> None:
        await self._permissions.ping()
