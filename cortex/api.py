"""The HTTP API's shapes: what the ingress serves and what clients send and read."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

NO_NUL = r"^[^\x00]*$"  # PostgreSQL's text cannot hold U+0000

Lane = Literal["dense", "bm25"]
QueryText = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100_000, pattern=NO_NUL)
]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)]
UserId = Annotated[str, StringConstraints(min_length=1, max_length=320, pattern=NO_NUL)]

# Names the person that a service with the scope `act` asks for, percent-encoded (RFC 3986).
ACT_FOR = "cortex-act-for"


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SearchRequest(Model):
    """POST /v1/search and /v1/answer. Length limits beyond these are settings and give 413."""

    query: QueryText
    k: int = Field(default=10, ge=1, le=100, description="evidence fragments wanted")
    depth: int = Field(default=50, ge=1, le=500, description="hits wanted before assembly")
    collections: list[Name] = Field(default_factory=list, max_length=50)
    source_types: list[Name] = Field(default_factory=list, max_length=50)
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    lanes: tuple[Lane, ...] = Field(default=("dense", "bm25"), min_length=1, max_length=2)
    audience: list[UserId] | None = Field(
        default=None,
        min_length=1,
        max_length=1_000,
        description="everyone else who will read it: nothing is found that one of them may not open. Only for services "
        "that act for a person; 403 `audience.unknown` when somebody is not known here",
    )


class AnswerRequest(SearchRequest):
    stream: bool = Field(
        default=False, description="true: text/event-stream with evidence, token, citation, done"
    )


class AnchorModel(Model):
    kind: str
    start: int
    end: int
    label: str
    fragment: str


class LanesModel(Model):
    dense_score: float | None
    dense_rank: int | None
    bm25_score: float | None
    bm25_rank: int | None
    rerank_score: float | None


class HitModel(Model):
    chunk_id: str
    document_id: str
    title: str
    score: float
    permalink: str
    anchor: AnchorModel
    text: str
    heading_path: list[str]
    source_type: str
    collection: str
    author: str
    updated_at: datetime | None
    lanes: LanesModel


class FragmentModel(Model):
    number: int
    fragment_id: str
    document_id: str
    title: str
    permalink: str
    anchor: AnchorModel
    text: str
    duplicate_ids: list[str]
    lanes: LanesModel
    score: float
    source_type: str
    updated_at: datetime | None


class SupportModel(Model):
    top_cosine: float | None
    term_share: float
    probability: float
    is_sufficient: bool


class DegradedModel(Model):
    part: str
    code: str
    reason: str


class SearchResponse(Model):
    hits: list[HitModel]
    evidence: list[FragmentModel]
    support: SupportModel
    degraded: list[DegradedModel]
    trace_id: str
    timings_ms: dict[str, float]


class CitationModel(Model):
    number: int
    fragment_id: str
    document_id: str
    title: str
    permalink: str
    anchor: AnchorModel
    quote: str


class AnswerResponse(SearchResponse):
    """`mode`: extractive, generated or abstained. An abstention has no citations and no evidence is claimed."""

    answer_id: str
    answer: str
    citations: list[CitationModel]
    abstained: bool
    mode: str
    model: str
    follow_ups: list[str]


class TokenModel(Model):
    """The data of an SSE `token` event: the next piece of the answer's text."""

    text: str


class DoneModel(Model):
    """The data of an SSE `done` event: the whole answer; its evidence came in the `evidence` event."""

    answer_id: str
    answer: str
    citations: list[CitationModel]
    abstained: bool
    mode: str
    model: str
    follow_ups: list[str]
    degraded: list[DegradedModel]
    trace_id: str
    timings_ms: dict[str, float]


class DocumentChunkModel(Model):
    chunk_id: str
    ordinal: int
    text: str
    anchor: AnchorModel
    heading_path: list[str]


class DocumentResponse(Model):
    """GET /v1/documents/{document_id}: 404 when unknown or not visible, alike."""

    document_id: str
    title: str
    source_type: str
    collection: str
    permalink: str
    author: str
    updated_at: datetime | None
    chunks: list[DocumentChunkModel]


class FeedbackRequest(Model):
    """POST /v1/feedback"""

    answer_id: str = Field(max_length=64, pattern=NO_NUL)
    helpful: bool
    comment: str = Field(default="", max_length=2_000, pattern=NO_NUL)


class SourceRequest(Model):
    """POST /v1/sources (scope `operate`): add a folder of this machine as a source and start loading it."""

    path: str = Field(min_length=1, max_length=4_096, pattern=NO_NUL)
    collection: str = Field(default="default", max_length=100, pattern=r"^[\w.-]+$")


class SourcesResponse(Model):
    """GET /v1/sources (scope `operate`)."""

    sources: list[SourceModel]


class SourceModel(Model):
    source_id: str
    source_type: str
    name: str
    collection: str
    n_documents: int
    run: RunModel | None = None


class RunModel(Model):
    """A sync run as counted in the catalog. `status`: running, succeeded, failed, stopped. A running one has a pace."""

    run_id: str
    status: str
    started_at: datetime
    finished_at: datetime | None
    counts: dict[str, int]
    failures: list[FailureModel]
    skipped: list[SkippedModel] = []
    chunks_per_s: float | None = None
    remaining_s: float | None = None


class FailureModel(Model):
    path: str
    code: str
    reason: str


class SkippedModel(Model):
    """What a source holds and was left out on purpose: how many of a kind, why, and where one of them is."""

    code: str
    reason: str
    n: int
    example: str


class SessionRequest(Model):
    """POST /v1/session: trade a one-time code or a token for an HttpOnly, SameSite=Strict cookie.

    `person` instead switches a signed-in browser to another person; only demo homes allow it.
    """

    code: str = Field(default="", max_length=4_096, pattern=NO_NUL)
    person: str = Field(default="", max_length=320, pattern=NO_NUL)


class SessionResponse(Model):
    """GET /v1/session; 204 when nobody is signed in. `people` lists whom a demo home may switch to; empty elsewhere."""

    user_id: str
    tenant_id: str
    scopes: list[str]
    people: list[str]
    is_demo: bool


class Problem(BaseModel):
    """RFC 9457 problem details with our stable code and remedy (application/problem+json)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    remedy: str
    hint: str = ""
    trace_id: str = ""


SourcesResponse.model_rebuild()
SourceModel.model_rebuild()
RunModel.model_rebuild()
