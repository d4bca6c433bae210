"""Between values and the HTTP API's shapes, both ways."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cortex import api
from cortex.documents import Anchor
from cortex.evidence import (
    Answer,
    Citation,
    Degraded,
    Filters,
    Fragment,
    Hit,
    LaneScores,
    Question,
    SearchResult,
    Support,
)


def question(request: api.SearchRequest, trace_id: str) -> Question:
    """Read a request as a question; an instant without a zone is UTC."""
    return Question(
        text=request.query,
        k=request.k,
        depth=request.depth,
        filters=Filters(
            collections=tuple(request.collections),
            source_types=tuple(request.source_types),
            updated_after=_aware(request.updated_after),
            updated_before=_aware(request.updated_before),
        ),
        lanes=tuple(dict.fromkeys(request.lanes)),
        trace_id=trace_id,
    )


def search_response(result: SearchResult) -> api.SearchResponse:
    """State a search's result."""
    return api.SearchResponse.model_validate(
        {
            **_evidence(result),
            "degraded": [_degraded(each) for each in result.degraded],
            "trace_id": result.trace_id,
            "timings_ms": _rounded(result),
        }
    )


def answer_response(result: SearchResult, answer: Answer, answer_id: str) -> api.AnswerResponse:
    """State an answer with everything it rests on."""
    return api.AnswerResponse.model_validate({**_evidence(result), **dict(done(result, answer, answer_id))})


def done(result: SearchResult, answer: Answer, answer_id: str) -> api.DoneModel:
    """State an answer without the evidence, which went ahead."""
    return api.DoneModel(
        answer_id=answer_id,
        answer=answer.text,
        citations=[citation(each) for each in answer.citations],
        abstained=answer.is_abstained,
        mode=answer.mode,
        model=answer.model,
        follow_ups=list(answer.follow_ups),
        degraded=[_degraded(each) for each in result.degraded],
        trace_id=result.trace_id,
        timings_ms=_rounded(result),
    )


def document_response(hits: list[Hit]) -> api.DocumentResponse:
    """State a document from its chunks, in order; there is at least one."""
    first = hits[0]
    return api.DocumentResponse(
        document_id=first.document_id,
        title=first.title,
        source_type=first.source_type,
        collection=first.collection,
        permalink=first.permalink,
        author=first.author,
        updated_at=first.updated_at,
        chunks=[
            api.DocumentChunkModel(
                chunk_id=each.chunk_id,
                ordinal=each.ordinal,
                text=each.text,
                anchor=anchor(each.anchor),
                heading_path=list(each.heading_path),
            )
            for each in hits
        ],
    )


def _evidence(result: SearchResult) -> dict[str, Any]:
    """State what was found, as fields: one validation of all takes half the time of a model for each."""
    return {
        "hits": [_hit(each) for each in result.hits],
        "evidence": [_fragment(each) for each in result.fragments],
        "support": _support(result.support),
    }


def _hit(value: Hit) -> dict[str, Any]:
    return {
        "chunk_id": value.chunk_id,
        "document_id": value.document_id,
        "title": value.title,
        "score": value.score,
        "permalink": value.permalink,
        "anchor": _anchor(value.anchor),
        "text": value.text,
        "heading_path": list(value.heading_path),
        "source_type": value.source_type,
        "collection": value.collection,
        "author": value.author,
        "updated_at": value.updated_at,
        "lanes": _lanes(value.lanes),
    }


def _fragment(value: Fragment) -> dict[str, Any]:
    return {
        "number": value.number,
        "fragment_id": value.fragment_id,
        "document_id": value.hit.document_id,
        "title": value.hit.title,
        "permalink": value.hit.permalink,
        "anchor": _anchor(value.anchor),
        "text": value.text,
        "duplicate_ids": list(value.duplicate_ids),
        "lanes": _lanes(value.hit.lanes),
        "score": value.hit.score,
        "source_type": value.hit.source_type,
        "updated_at": value.hit.updated_at,
    }


def citation(value: Citation) -> api.CitationModel:
    """State one citation."""
    return api.CitationModel(
        number=value.number,
        fragment_id=value.fragment_id,
        document_id=value.document_id,
        title=value.title,
        permalink=value.permalink,
        anchor=anchor(value.anchor),
        quote=value.quote,
    )


def anchor(value: Anchor) -> api.AnchorModel:
    """State one anchor, with its rendered fragment."""
    return api.AnchorModel.model_validate(_anchor(value))


def _anchor(value: Anchor) -> dict[str, Any]:
    return {
        "kind": value.kind,
        "start": value.start,
        "end": value.end,
        "label": value.label,
        "fragment": value.fragment,
    }


def _lanes(value: LaneScores) -> dict[str, Any]:
    return {
        "dense_score": value.dense_score,
        "dense_rank": value.dense_rank,
        "bm25_score": value.bm25_score,
        "bm25_rank": value.bm25_rank,
        "rerank_score": value.rerank_score,
    }


def _support(value: Support) -> api.SupportModel:
    return api.SupportModel(
        top_cosine=value.top_cosine,
        term_share=value.term_share,
        probability=value.probability,
        is_sufficient=value.is_sufficient,
    )


def _degraded(value: Degraded) -> api.DegradedModel:
    return api.DegradedModel(part=value.part, code=value.code, reason=value.reason)


def _rounded(result: SearchResult) -> dict[str, float]:
    return {name: round(time_ms, 2) for name, time_ms in result.timings_ms.items()}


def _aware(instant: datetime | None) -> datetime | None:
    return instant.replace(tzinfo=UTC) if instant and instant.tzinfo is None else instant
