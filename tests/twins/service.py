"""Twin of the query path and the sources' desk: a few documents, four people, words that overlap; no engine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cortex.api import FailureModel, RunModel, SourceModel
from cortex.documents import Anchor
from cortex.errors import CortexError, Forbidden, InputError, NotFound, Unauthenticated
from cortex.evidence import (
    Answer,
    AnswerEvent,
    AnswerEventKind,
    Citation,
    Degraded,
    Fragment,
    Hit,
    LaneScores,
    Question,
    SearchResult,
    Support,
)
from cortex.principals import Principal
from cortex.settings import Settings
from serve_apps.service import Backend

ADA, BEN, CLEO = "ada@example.com", "ben@example.com", "cleo@example.com"
EVERYONE = frozenset({ADA, BEN, CLEO})


@dataclass(frozen=True, slots=True)
class TwinDocument:
    """One document of the twin: its chunks and who may see it."""

    document_id: str
    title: str
    source_type: str
    collection: str
    chunks: tuple[str, ...]
    viewers: frozenset[str] = EVERYONE
    heading: tuple[str, ...] = ()


LIBRARY = (
    TwinDocument(
        "6f0d9a54-0000-5000-8000-000000000001",
        "Travel policy",
        "files",
        "handbook",
        (
            "Travel is booked by the person who travels. Book trains up to 1,200 km and flights beyond that.",
            "Hotels are paid up to 140 EUR a night; in London and Zurich up to 210 EUR. Breakfast may be added.",
            "Receipts are due within 30 days. The finance team pays travel claims every second Friday.",
        ),
        heading=("Handbook", "Travel"),
    ),
    TwinDocument(
        "6f0d9a54-0000-5000-8000-000000000002",
        "Salary bands 2026",
        "files",
        "people",
        (
            "The salary band of a senior engineer runs from 82,000 to 104,000 EUR a year.",
            "Salary reviews happen every April; a manager proposes, the people team decides.",
        ),
        viewers=frozenset({ADA}),
        heading=("People", "Compensation"),
    ),
    TwinDocument(
        "6f0d9a54-0000-5000-8000-000000000003",
        "#ops-incidents: checkout was slow",
        "chat",
        "ops",
        (
            "Noor: the checkout was slow from 09:12 to 09:40, the connection pool of the payments service was exhausted.",
            "Ivo: we raised the pool from 20 to 60 and added an alert at 80 % use. <script>alert('x')</script>",
        ),
    ),
    TwinDocument(
        "6f0d9a54-0000-5000-8000-000000000004",
        "経費精算の手引き",
        "files",
        "handbook",
        ("領収書は三十日以内に提出してください。経理部が隔週の金曜日に支払います。",),
    ),
)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower())) - {
        "the",
        "a",
        "is",
        "of",
        "how",
        "what",
        "are",
        "was",
        "why",
        "to",
    }


def _hit(document: TwinDocument, ordinal: int, score: float, lanes: LaneScores) -> Hit:
    start = 1 + 12 * ordinal
    return Hit(
        chunk_id=f"{document.document_id[:-2]}{ordinal:02d}",
        document_id=document.document_id,
        source_id="source-1",
        source_type=document.source_type,
        collection=document.collection,
        title=document.title,
        text=document.chunks[ordinal],
        heading_path=document.heading,
        anchor=Anchor("line", start, start + 8),
        permalink=f"https://wiki.example.com/{document.document_id[-1]}",
        score=score,
        lanes=lanes,
        ordinal=ordinal,
        byte_start=0,
        byte_end=len(document.chunks[ordinal].encode()),
        group_id="",
        content_sha256="",
        profile_id=1,
        author="Noor",
        updated_at=datetime(2026, 3, 4, 9, 30, tzinfo=UTC),
    )


@dataclass
class TwinService:
    """A query path over the library. `token_delay_s` slows the stream; `fail_with` breaks it after one token."""

    token_delay_s: float = 0.0
    search_delay_s: float = 0.0
    fail_with: Exception | None = None
    not_ready: CortexError | None = None
    degraded: tuple[Degraded, ...] = ()
    n_cancelled: int = 0
    answers: dict[str, str] = field(default_factory=dict)
    thumbs: list[tuple[str, bool, str]] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    services: set[str] = field(default_factory=set)
    asked: list[tuple[Principal, str]] = field(default_factory=list)

    async def admit(self, principal: Principal) -> None:
        if principal.user_id in self.removed:
            raise Unauthenticated("this account was removed", code="user.removed")
        if principal.user_id not in EVERYONE | self.services:
            raise Forbidden("this person is not registered here", code="user.unknown")
        if {*principal.readers} & self.removed or not {*principal.readers} <= EVERYONE:
            raise Forbidden("a reader is not registered here", code="audience.unknown")

    async def search(self, principal: Principal, question: Question) -> SearchResult:
        self.asked.append((principal, question.text))
        await self.admit(principal)
        await asyncio.sleep(self.search_delay_s)
        hits = self._hits(principal, question)
        fragments = tuple(
            Fragment(
                f"fragment-{each.chunk_id}",
                number,
                each,
                each.text,
                each.anchor,
                each.byte_start,
                each.byte_end,
            )
            for number, each in enumerate(hits[: question.k], start=1)
        )
        cosine = hits[0].lanes.dense_score if hits else None
        share = (hits[0].lanes.bm25_score or 0.0) if hits else 0.0
        support = Support(cosine, min(share, 1.0), 0.9 if hits else 0.1, bool(hits))
        timings_ms = {"permit": 1.2, "search": 4.0, "recheck": 3.1, "total": 9.0}
        return SearchResult(tuple(hits), fragments, support, self.degraded, timings_ms, question.trace_id)

    async def answer(self, principal: Principal, question: Question) -> AsyncIterator[AnswerEvent]:
        result = await self.search(principal, question)
        yield AnswerEvent(AnswerEventKind.EVIDENCE, result=result)
        answer = _answer(result)
        try:
            for token in re.findall(r"\S+\s*", answer.text):
                await asyncio.sleep(self.token_delay_s)
                yield AnswerEvent(AnswerEventKind.TOKEN, token=token)
                if self.fail_with is not None:
                    raise self.fail_with
        except (asyncio.CancelledError, GeneratorExit):
            self.n_cancelled += 1
            raise
        for citation in answer.citations:
            yield AnswerEvent(AnswerEventKind.CITATION, citation=citation)
        yield AnswerEvent(AnswerEventKind.DONE, answer=answer)

    async def document(self, principal: Principal, document_id: str) -> list[Hit]:
        await self.admit(principal)
        for each in LIBRARY:
            if each.document_id == document_id and {principal.user_id, *principal.readers} <= each.viewers:
                return [_hit(each, ordinal, 0.0, LaneScores()) for ordinal in range(len(each.chunks))]
        raise NotFound("there is no such document", code="document.not_found")

    async def record_answer(
        self, principal: Principal, question: Question, result: SearchResult, answer: Answer
    ) -> str:
        answer_id = f"answer-{len(self.answers) + 1}"
        self.answers[answer_id] = principal.user_id
        return answer_id

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        if self.answers.get(answer_id) != principal.user_id:
            raise NotFound("there is no such answer", code="answer.not_found")
        self.thumbs.append((answer_id, is_helpful, comment))

    async def ready(self, *, by_words: bool = False) -> None:
        if self.not_ready is not None:
            raise self.not_ready

    def _hits(self, principal: Principal, question: Question) -> list[Hit]:
        wanted, filters = _words(question.text), question.filters
        scored = [
            (len(wanted & _words(f"{each.title} {text}")) / max(len(wanted), 1), each, ordinal)
            for each in LIBRARY
            if {principal.user_id, *principal.readers} <= each.viewers
            and (not filters.collections or each.collection in filters.collections)
            and (not filters.source_types or each.source_type in filters.source_types)
            for ordinal, text in enumerate(each.chunks)
        ]
        best = sorted((s for s in scored if s[0] > 0.15), key=lambda s: (-s[0], s[1].document_id, s[2]))
        return [
            _hit(document, ordinal, score / rank, LaneScores(0.3 + score / 2, rank, score, rank + rank % 2))
            for rank, (score, document, ordinal) in enumerate(best, start=1)
        ]


def _answer(result: SearchResult) -> Answer:
    if not result.support.is_sufficient:
        text = "I could not find this in what you may see."
        return Answer(text, (), True, "abstained")
    cited = result.fragments[:2]
    citations = tuple(
        Citation(
            each.number,
            each.fragment_id,
            each.hit.document_id,
            each.hit.title,
            each.hit.permalink,
            each.anchor,
            each.text,
        )
        for each in cited
    )
    text = " ".join(f"{each.text} [{each.number}]" for each in cited)
    return Answer(
        text, citations, False, "extractive", follow_ups=("When are receipts due?", "Who pays claims?")
    )


@dataclass
class TwinDesk:
    """A sources' desk whose folders load one step per look."""

    folders: dict[str, SourceModel] = field(default_factory=dict)

    async def sources(self, tenant_id: str) -> list[SourceModel]:
        shown = list(self.folders.values())
        self.folders = {name: _advance(source) for name, source in self.folders.items()}
        return shown

    async def add_folder(self, principal: Principal, path: str, collection: str) -> SourceModel:
        if not path.startswith("/"):
            raise InputError("the folder must be an absolute path", code="folder.relative")
        source = SourceModel(
            source_id=f"source-{len(self.folders) + 1}",
            source_type="files",
            name=path,
            collection=collection,
            n_documents=0,
            run=_run(0, 12),
        )
        self.folders[path] = source
        return source


def _advance(source: SourceModel) -> SourceModel:
    assert source.run is not None
    indexed = min(source.run.counts["indexed"] + 4, 11)
    return source.model_copy(update={"run": _run(indexed, 12), "n_documents": indexed})


def _run(indexed: int, total: int) -> RunModel:
    is_over = indexed >= total - 1
    failure = FailureModel(
        path="scans/old-invoice.pdf", code="document.encrypted", reason="the PDF needs a password"
    )
    return RunModel(
        run_id="run-1",
        status="succeeded" if is_over else "running",
        started_at=datetime(2026, 11, 29, 10, 0, tzinfo=UTC),
        finished_at=datetime(2026, 11, 29, 10, 1, tzinfo=UTC) if is_over else None,
        counts={"indexed": indexed, "unchanged": 0, "removed": 0, "failed": int(is_over), "total": total},
        failures=[failure] if is_over else [],
    )


async def open_backend(settings: Settings) -> Backend:
    """Open the twin as a whole backend, for a real Serve app without engines."""
    return Backend(TwinService(token_delay_s=0.05), TwinDesk())
