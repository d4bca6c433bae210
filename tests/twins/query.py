"""In-memory twins of the query ports over one small world, for unit tests of the query path."""

from __future__ import annotations

import asyncio
import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortex.chunks import SparseVector
from cortex.documents import Anchor
from cortex.errors import ChecksUnavailable, CortexError, Forbidden
from cortex.evidence import Answer, Candidate, Fragment, Hit, LaneScores, SearchResult
from cortex.ports import IndexQuery
from cortex.principals import Permit, Principal
from retrieval.path import Parts
from retrieval.plan import Plan

TENANT = "acme"


def person(user_id: str) -> Principal:
    return Principal(TENANT, user_id)


@dataclass(slots=True)
class TwinWorld:
    """Documents as lists of chunk texts, who may see them, and every way in which an engine may lag or fail.

    `viewers` is what SpiceDB knows; `shown` what the catalog's rows say (default: the same); `indexed` what the index
    payload says (default: what the catalog says).
    """

    documents: Mapping[str, Sequence[str]]
    viewers: Mapping[str, frozenset[str]]
    shown: Mapping[str, frozenset[str]] = field(default_factory=dict)
    indexed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    failures: dict[str, CortexError] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    checked: list[str] = field(default_factory=list)

    def only(self, user_id: str) -> TwinWorld:
        """The world that physically holds no more than one user may see."""
        seen = [name for name in self.documents if user_id in self.viewers[name]]
        return TwinWorld(
            {name: self.documents[name] for name in seen}, {name: self.viewers[name] for name in seen}
        )

    def enter(self, call: str) -> None:
        """Count a call, and fail it when told to."""
        self.calls[call] += 1
        if call in self.failures:
            raise self.failures[call]

    def profiles(self) -> dict[frozenset[str], int]:
        sets = {*self.viewers.values(), *self.shown.values(), *self.indexed.values()}
        return {users: number for number, users in enumerate(sorted(sets, key=sorted), start=1)}

    def hits(self) -> list[Hit]:
        return [
            hit(f"{name}#{ordinal}", text, document_id=name, ordinal=ordinal, title=name)
            for name, texts in self.documents.items()
            for ordinal, text in enumerate(texts)
        ]

    def parts(self, plan: Plan | None = None, **others: Any) -> Parts:
        """The parts of a query path over this world."""
        return Parts(
            catalog=TwinCatalog(self),
            index=TwinIndex(self),
            checker=TwinChecker(self),
            embedder=TwinEmbedder(self),
            lexical=TwinLexical(),
            plan=plan or Plan(),
            **others,
        )


def hit(chunk_id: str, text: str, *, document_id: str = "", ordinal: int = 0, **others: Any) -> Hit:
    """A hit with plain values for all that a test does not speak of; its chunks adjoin by ordinal."""
    start = ordinal * 10_000
    values: dict[str, Any] = {
        "source_id": "files", "source_type": "files", "collection": "default", "title": "", "heading_path": (),
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
    return Fragment(source.chunk_id, number, source, text, source.anchor)


class TwinLexical:
    """Lower-case words and pairs of ideographs; every weight 1."""

    version = "twin"

    def terms(self, text: str) -> list[str]:
        words = re.findall(r"[^\W_\u3040-\u30ff\u4e00-\u9fff]+", text.casefold())
        runs = re.findall(r"[\u3040-\u30ff\u4e00-\u9fff]+", text)
        return words + [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]

    def encode_query(self, text: str) -> SparseVector:
        ids = sorted({zlib.crc32(term.encode()) for term in self.terms(text)})
        return SparseVector(tuple(ids), (1.0,) * len(ids))

    encode_document = encode_query


class TwinEmbedder:
    """Hashed bags of words as unit rows."""

    version = "twin"
    dimension = 64

    def __init__(self, world: TwinWorld | None = None) -> None:
        self._world = world

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if self._world:
            self._world.enter("embed")
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for term in TwinLexical().terms(text):
                row[zlib.crc32(term.encode()) % self.dimension] += 1
            row /= max(float(np.linalg.norm(row)), 1e-9)
        return rows

    embed_queries = embed_documents

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class TwinIndex:
    """Exact dense search and BM25 whose IDF counts what the permit lets through, fused by weighted RRF."""

    def __init__(self, world: TwinWorld) -> None:
        self._world = world

    async def search(self, query: IndexQuery) -> list[Candidate]:
        self._world.enter("search")
        self._world.enter(
            "dense+bm25" if query.dense is not None and query.sparse is not None else "one lane"
        )
        if query.dense is not None:
            self._world.enter("dense lane")
        if query.sparse is not None:
            self._world.enter("bm25 lane")
        visible = [
            each for each in self._world.hits() if self._profile(each.document_id) in query.permit.profile_ids
        ]
        dense = self._rank(self._cosines(visible, query), query.lane_limit)
        bm25 = self._rank(self._term_scores(visible, query), query.lane_limit)
        found = [
            Candidate(
                each.chunk_id,
                each.document_id,
                _share(dense, each, query.weight_dense, query.fusion_k)
                + _share(bm25, each, query.weight_bm25, query.fusion_k),
                LaneScores(*dense.get(each.chunk_id, (None, None)), *bm25.get(each.chunk_id, (None, None))),
            )
            for each in visible
            if each.chunk_id in dense or each.chunk_id in bm25
        ]
        found.sort(key=lambda each: (-each.score, each.chunk_id))
        return found[query.offset : query.offset + query.limit]

    async def ping(self) -> None:
        self._world.enter("ping")

    def _profile(self, name: str) -> int:
        world = self._world
        return world.profiles()[world.indexed.get(name, world.shown.get(name, world.viewers[name]))]

    def _cosines(self, visible: Sequence[Hit], query: IndexQuery) -> dict[str, float]:
        if query.dense is None or not visible:
            return {}
        scores = TwinEmbedder().embed_documents([each.text for each in visible]) @ query.dense
        return {each.chunk_id: round(float(score), 6) for each, score in zip(visible, scores, strict=True)}

    def _term_scores(self, visible: Sequence[Hit], query: IndexQuery) -> dict[str, float]:
        if query.sparse is None:
            return {}
        held = {each.chunk_id: set(TwinLexical().encode_document(each.text).indices) for each in visible}
        df = Counter(term for terms in held.values() for term in terms)
        idf = {t: math.log(1 + (len(held) - df[t] + 0.5) / (df[t] + 0.5)) for t in query.sparse.indices}
        scores = {chunk_id: sum(idf[t] for t in idf if t in terms) for chunk_id, terms in held.items()}
        return {chunk_id: score for chunk_id, score in scores.items() if score > 0}

    def _rank(self, scores: Mapping[str, float], limit: int) -> dict[str, tuple[float, int]]:
        ordered = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))[:limit]
        return {chunk_id: (scores[chunk_id], rank) for rank, chunk_id in enumerate(ordered, start=1)}


def _share(lane: Mapping[str, tuple[float, int]], each: Hit, weight: float, k: int) -> float:
    return weight / (k + lane[each.chunk_id][1]) if each.chunk_id in lane else 0.0


class TwinCatalog:
    """The catalog's rows as this moment shows them."""

    def __init__(self, world: TwinWorld) -> None:
        self._world = world

    async def permit(self, principal: Principal) -> Permit:
        self._world.enter("permit")
        await asyncio.sleep(0)
        users = frozenset().union(*self._world.viewers.values(), *self._world.shown.values(), {"nobody"})
        if principal.user_id not in users:
            raise Forbidden("unknown user", code="user.unknown")
        profiles = self._world.profiles()
        mine = sorted(number for users, number in profiles.items() if principal.user_id in users)
        return Permit(principal, tuple(mine), 1, "stale")

    async def permission_token(self) -> str:
        self._world.enter("token")
        return "newest"

    async def hydrate(self, candidates: Sequence[Candidate], permit: Permit) -> list[Hit]:
        self._world.enter("hydrate")
        world, profiles = self._world, self._world.profiles()
        rows = {each.chunk_id: each for each in world.hits()}
        return [
            replace(row, score=candidate.score, lanes=candidate.lanes)
            for candidate in candidates
            if (row := rows.get(candidate.chunk_id))
            and profiles[world.shown.get(row.document_id, world.viewers[row.document_id])]
            in permit.profile_ids
        ]

    async def document_hits(self, document_id: str, permit: Permit) -> list[Hit]:
        raise NotImplementedError

    async def record_answer(
        self, principal: Principal, question: str, result: SearchResult, answer: Answer
    ) -> str:
        raise NotImplementedError

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        raise NotImplementedError

    async def audit(self, principal: Principal, action: str, fields: Mapping[str, Any]) -> None:
        raise NotImplementedError

    async def ping(self) -> None:
        self._world.enter("ping")


class TwinChecker:
    """SpiceDB: the truth about who may view what; it must be asked at the newest token."""

    def __init__(self, world: TwinWorld) -> None:
        self._world = world

    async def allowed(self, principal: Principal, document_ids: Sequence[str], token: str) -> frozenset[str]:
        self._world.enter("check")
        if token != "newest":
            raise ChecksUnavailable(f"asked at token {token}")
        self._world.checked.extend(document_ids)
        return frozenset(name for name in document_ids if principal.user_id in self._world.viewers[name])

    async def ping(self) -> None:
        self._world.enter("ping")
