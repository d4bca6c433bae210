"""The tools' shapes: what an agent may send, and what it gets.

`search` and `fetch` have the names and keys that MCP hosts look for (`results` of `id`, `title`, `url`, `text`; one
document with `id`, `title`, `text`, `url`, `metadata`); what Cortex adds stands beside them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from pydantic import Field

from cortex import api
from cortex.documents import Anchor, source_link
from cortex.evidence import Answer, Citation, Fragment, Hit, SearchResult
from serve_apps import shapes

_UNSUPPORTED = "The passages found do not carry an answer: say that nothing was found rather than guess."
_NOTHING = "Nothing was found in what this person may see."
_ABSTAINED = "Not answered: the evidence does not support an answer."


class AskArguments(api.Model):
    """What `ask` takes: a question, and what to narrow it to."""

    query: api.QueryText = Field(description="the question or the words to look for, in any language")
    collections: list[api.Name] = Field(
        default_factory=list, max_length=50, description="look only into these collections"
    )
    source_types: list[api.Name] = Field(
        default_factory=list, max_length=50, description="look only into these kinds of source, such as slack"
    )
    updated_after: datetime | None = Field(default=None, description="only what changed at or after it")
    updated_before: datetime | None = Field(default=None, description="only what changed before it")


class SearchArguments(AskArguments):
    """What `search` takes."""

    limit: int = Field(default=10, ge=1, le=50, description="passages wanted")


class FetchArguments(api.Model):
    """What `fetch` takes."""

    id: api.Name = Field(description="an id that search or ask returned, or next_id of a page")


class PlaceModel(api.Model):
    """Where a text stands: its source, and the bytes and the anchor of it there."""

    source_type: str
    collection: str
    permalink: str
    anchor: api.AnchorModel
    byte_start: int
    byte_end: int
    author: str
    updated_at: datetime | None


class PassageModel(api.Model):
    """One numbered piece of evidence; `duplicate_ids` name other documents that say the same."""

    id: str
    title: str
    url: str
    text: str
    number: int
    citation: PlaceModel
    duplicate_ids: list[str]


class SearchResults(api.Model):
    """What `search` gives: best first. `notes` say in words what `support` and `degraded` say in values."""

    results: list[PassageModel]
    support: api.SupportModel
    degraded: list[api.DegradedModel]
    notes: list[str]
    trace_id: str


class FetchedDocument(api.Model):
    """What `fetch` gives: one page of a document; most have one page only."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str]
    citation: PlaceModel
    page: int
    n_pages: int
    previous_id: str | None
    next_id: str | None


class QuoteModel(api.Model):
    """One citation of an answer, by the number that stands in its text."""

    number: int
    id: str
    title: str
    url: str
    text: str
    citation: PlaceModel


class CitedAnswer(api.Model):
    """What `ask` gives; an abstention cites nothing."""

    answer: str
    abstained: bool
    mode: str
    citations: list[QuoteModel]
    degraded: list[api.DegradedModel]
    notes: list[str]
    answer_id: str
    trace_id: str


def search_request(arguments: AskArguments) -> api.SearchRequest:
    """State the same question as /v1/search takes it."""
    narrowed = arguments.model_dump(exclude={"limit"})
    if isinstance(arguments, SearchArguments):
        narrowed["k"] = arguments.limit
    return api.SearchRequest(**narrowed)


def search_results(found: SearchResult) -> SearchResults:
    """State what a search found."""
    response = shapes.search_response(found)
    notes = [] if found.support.is_sufficient else [_UNSUPPORTED if found.fragments else _NOTHING]
    return SearchResults(
        results=[_passage(fragment) for fragment in found.fragments],
        support=response.support,
        degraded=response.degraded,
        notes=notes + _degraded(response.degraded),
        trace_id=found.trace_id,
    )


def cited_answer(found: SearchResult, answer: Answer, answer_id: str) -> CitedAnswer:
    """State an answer with where its citations stand."""
    done = shapes.done(found, answer, answer_id)
    evidence = {fragment.number: fragment for fragment in found.fragments}
    return CitedAnswer(
        answer=done.answer,
        abstained=done.abstained,
        mode=done.mode,
        citations=[_quote(each, evidence[each.number]) for each in answer.citations],
        degraded=done.degraded,
        notes=[_ABSTAINED] * done.abstained + _degraded(done.degraded),
        answer_id=answer_id,
        trace_id=done.trace_id,
    )


def fetched(passage_id: str, hits: list[Hit], page_chars: int) -> FetchedDocument:
    """State the page of a document on which a passage stands; `hits` are all its chunks in order, at least one."""
    pages = paginate(hits, page_chars)
    number = _page_of(pages, split_id(passage_id)[1])
    page, first = pages[number], hits[0]
    asked = next((hit for hit in page if passage_id == make_id(hit.document_id, hit.ordinal)), None)
    return FetchedDocument(
        id=passage_id,
        title=first.title,
        text="\n\n".join(hit.text for hit in page),
        url=_link(asked) if asked else first.permalink,
        metadata=_metadata(first),
        citation=_place(page[0], _span(page), page[0].byte_start, page[-1].byte_end),
        page=number + 1,
        n_pages=len(pages),
        previous_id=make_id(first.document_id, pages[number - 1][0].ordinal) if number else None,
        next_id=make_id(first.document_id, pages[number + 1][0].ordinal) if page is not pages[-1] else None,
    )


def make_id(document_id: str, ordinal: int) -> str:
    """Name a passage: its document, and which of the document's chunks it is."""
    return f"{document_id}:{ordinal}"


def split_id(passage_id: str) -> tuple[str, int]:
    """Read a passage's name; a document's own id stands for its beginning."""
    document_id, mark, ordinal = passage_id.rpartition(":")
    if mark and ordinal.isascii() and ordinal.isdigit():
        return document_id, int(ordinal)
    return passage_id, 0


def paginate(hits: list[Hit], page_chars: int) -> list[list[Hit]]:
    """Cut a document between chunks into pages of at most so many characters, at least one chunk each."""
    pages: list[list[Hit]] = []
    room = 0
    for hit in hits:
        if not pages or len(hit.text) > room:
            pages.append([])
            room = page_chars
        pages[-1].append(hit)
        room -= len(hit.text) + 2
    return pages


def _page_of(pages: list[list[Hit]], ordinal: int) -> int:
    """Find the page of a chunk; a document that has become shorter since is opened at its end."""
    return max(number for number, page in enumerate(pages) if number == 0 or page[0].ordinal <= ordinal)


def _passage(value: Fragment) -> PassageModel:
    return PassageModel(
        id=make_id(value.hit.document_id, value.hit.ordinal),
        title=value.hit.title,
        url=source_link(value.hit.permalink, value.anchor.kind, value.anchor.fragment),
        text=value.text,
        number=value.number,
        citation=_place(value.hit, value.anchor, value.byte_start, value.byte_end),
        duplicate_ids=list(value.duplicate_ids),
    )


def _quote(value: Citation, evidence: Fragment) -> QuoteModel:
    passage = _passage(evidence)
    return QuoteModel(
        number=value.number,
        id=passage.id,
        title=value.title,
        url=source_link(value.permalink, value.anchor.kind, value.anchor.fragment),
        text=value.quote,
        citation=passage.citation,
    )


def _place(hit: Hit, anchor: Anchor, byte_start: int, byte_end: int) -> PlaceModel:
    return PlaceModel(
        source_type=hit.source_type,
        collection=hit.collection,
        permalink=hit.permalink,
        anchor=shapes.anchor(anchor),
        byte_start=byte_start,
        byte_end=byte_end,
        author=hit.author,
        updated_at=hit.updated_at,
    )


def _metadata(hit: Hit) -> dict[str, str]:
    """What hosts show beside a document, as text."""
    known = {
        "document_id": hit.document_id,
        "source_type": hit.source_type,
        "collection": hit.collection,
        "author": hit.author,
        "updated_at": hit.updated_at.isoformat() if hit.updated_at else "",
    }
    return {name: value for name, value in known.items() if value}


def _span(hits: list[Hit]) -> Anchor:
    """Span the anchors of chunks in a row; chunks of several sheets or kinds have none in common."""
    first = hits[0].anchor
    if any(hit.anchor.scope != first.scope for hit in hits):
        return Anchor()
    return replace(first, end=max(hit.anchor.end for hit in hits))


def _link(hit: Hit) -> str:
    return source_link(hit.permalink, hit.anchor.kind, hit.anchor.fragment)


def _degraded(degraded: list[api.DegradedModel]) -> list[str]:
    return [f"Degraded, {each.part}: {each.reason}" for each in degraded]
