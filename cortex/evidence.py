"""Evidence: what a search finds, what an answer cites, and what happened on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from cortex.crossing import crossing
from cortex.documents import Anchor


@crossing
@dataclass(frozen=True, slots=True)
class LaneScores:
    """One candidate's place in each lane: `score` higher is better, `rank` 1-based; None where it did not appear."""

    dense_score: float | None = None
    dense_rank: int | None = None
    bm25_score: float | None = None
    bm25_rank: int | None = None
    rerank_score: float | None = None


@crossing
@dataclass(frozen=True, slots=True)
class Candidate:
    """One chunk as the index returns it, before any recheck."""

    chunk_id: str
    document_id: str
    score: float
    lanes: LaneScores = LaneScores()


@crossing
@dataclass(frozen=True, slots=True)
class Hit:
    """One chunk that passed every check, with its text."""

    chunk_id: str
    document_id: str
    source_id: str
    source_type: str
    collection: str
    title: str
    text: str
    heading_path: tuple[str, ...]
    anchor: Anchor
    permalink: str
    score: float
    lanes: LaneScores
    ordinal: int
    byte_start: int
    byte_end: int
    group_id: str
    content_sha256: str
    profile_id: int
    author: str = ""
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """One piece of evidence as shown and cited: neighbouring hits of a document merged, near-duplicates removed.

    `number` is the citation number, 1-based. `byte_start` and `byte_end` span its hits in the document's body, half-open.
    `duplicate_ids` names the visible documents that say the same.
    """

    fragment_id: str
    number: int
    hit: Hit
    text: str
    anchor: Anchor
    byte_start: int
    byte_end: int
    duplicate_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Degraded:
    """One part that did not do its work: which, a stable code, and one sentence for the reader."""

    part: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Support:
    """How well the evidence supports an answer, from the lanes themselves and never from the fused score.

    `top_cosine` in [-1, 1] or None when the dense lane did not run; `term_share` in [0, 1] is the IDF-weighted share
    of the query's terms that the best fragments contain; `probability` is the calibrated chance of an answer.
    """

    top_cosine: float | None
    term_share: float
    probability: float
    is_sufficient: bool


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Everything one search found, in order, with what it cost and what was degraded."""

    hits: tuple[Hit, ...]
    fragments: tuple[Fragment, ...]
    support: Support
    degraded: tuple[Degraded, ...]
    timings_ms: Mapping[str, float]
    trace_id: str


@dataclass(frozen=True, slots=True)
class Citation:
    """One citation of an answer: the fragment's number and id, and where in the answer text it stands."""

    number: int
    fragment_id: str
    document_id: str
    title: str
    permalink: str
    anchor: Anchor
    quote: str


class AnswerEventKind(StrEnum):
    """What a streamed answer sends, in this order: evidence once, tokens and citations, done once."""

    EVIDENCE = "evidence"
    TOKEN = "token"  # noqa: S105 - an event name, no secret
    CITATION = "citation"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `mode` is `extractive`, `generated` or `abstained`; an abstention has no citations.

    `degraded` and `timings_ms` are those of writing the answer; the search has its own.
    """

    text: str
    citations: tuple[Citation, ...]
    is_abstained: bool
    mode: str
    model: str = ""
    follow_ups: tuple[str, ...] = ()
    degraded: tuple[Degraded, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnswerEvent:
    """One event of a streamed answer; exactly the field of its kind is set."""

    kind: AnswerEventKind
    result: SearchResult | None = None
    token: str = ""
    citation: Citation | None = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """What the asker narrows a search to; an empty tuple means no narrowing."""

    collections: tuple[str, ...] = ()
    source_types: tuple[str, ...] = ()
    updated_after: datetime | None = None
    updated_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One question with its limits: `k` fragments wanted, `depth` hits wanted before assembly."""

    text: str
    k: int = 10
    depth: int = 50
    filters: Filters = field(default_factory=Filters)
    lanes: tuple[str, ...] = ("dense", "bm25")
    trace_id: str = ""
