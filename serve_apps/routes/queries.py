"""Questions: search, answers (whole or streamed), documents and feedback."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from cortex import api
from cortex.errors import CortexError, Forbidden, TimedOut, TooLarge, Unavailable
from cortex.evidence import Answer, AnswerEvent, AnswerEventKind, Hit, Question, SearchResult
from cortex.principals import Principal
from cortex.settings import Settings
from cortex.telemetry import event, new_trace_id
from serve_apps import shapes
from serve_apps.account import account
from serve_apps.identity import Identity
from serve_apps.metrics import Metrics
from serve_apps.problems import Unexpected, problem
from serve_apps.service import QueryService
from serve_apps.stream import EventStream, sse


def query_routes(
    queries: QueryService, identity: Identity, settings: Settings, metrics: Metrics
) -> APIRouter:
    """Make the routes that ask."""
    router = APIRouter(prefix="/v1", tags=["questions"])
    asker, admitted = Depends(identity.needs("search")), Depends(identity.admitted("search"))
    desk = AnswerDesk(queries, settings, metrics)

    @router.post("/search", response_model=api.SearchResponse, summary="Find evidence")
    async def search(request: api.SearchRequest, principal: Principal = asker) -> Response:
        """Hits and numbered evidence that the caller may see, best first, with why each one ranked."""
        return _json(shapes.search_response(await desk.search(principal, request)))

    @router.post("/answer", response_model=api.AnswerResponse, summary="Answer with citations")
    async def answer(body: api.AnswerRequest, request: Request, principal: Principal = asker) -> Response:
        """A short answer in which every claim cites the evidence, or an abstention.

        With `stream: true` or `Accept: text/event-stream`, server-sent events: `evidence` (as /v1/search), `token`,
        `citation`, `done`; or `error`, a problem document, if it fails on the way. Closing the connection stops it.
        """
        question, reader = desk.question(body), desk.reader(principal, body)
        if body.stream or "text/event-stream" in request.headers.get("accept", ""):
            pieces = desk.stream(reader, question)
            return EventStream(await anext(pieces), pieces)
        return _json(shapes.answer_response(*await desk.whole(reader, question)))

    @router.get("/documents/{document_id}", response_model=api.DocumentResponse, summary="Open a document")
    async def document(document_id: str, principal: Principal = asker) -> Response:
        """The text of one document in chunks; 404 when it is unknown or not visible to the caller, alike."""
        return _json(shapes.document_response(await desk.document(principal, document_id)))

    @router.post("/feedback", status_code=204, summary="Rate an answer")
    async def feedback(body: api.FeedbackRequest, principal: Principal = admitted) -> None:
        """A thumb, with a comment if there is something to say, on an answer that the caller got."""
        await queries.record_feedback(principal, body.answer_id, body.helpful, body.comment)

    return router


class AnswerDesk:
    """Answers questions for every surface: searches, opens documents; begins, streams or gathers an answer and records it."""

    def __init__(self, queries: QueryService, settings: Settings, metrics: Metrics) -> None:
        self._queries = queries
        self._settings = settings
        self._metrics = metrics

    def question(self, request: api.SearchRequest) -> Question:
        """Read a request as a question, if it is no longer than the settings allow."""
        if len(request.query) > self._settings.max_query_chars:
            raise TooLarge(
                f"the question is longer than {self._settings.max_query_chars} characters",
                code="query.too_large",
                hint="ask a shorter question",
            )
        return shapes.question(request, new_trace_id())

    async def search(self, principal: Principal, request: api.SearchRequest) -> SearchResult:
        """Find evidence within the time limit."""
        question, reader = self.question(request), self.reader(principal, request)
        async with _within(self._settings.request_timeout_s, "search"):
            result = await self._queries.search(reader, question)
        self._found(result)
        return result

    async def document(self, principal: Principal, document_id: str) -> list[Hit]:
        """Load one document within the time limit."""
        async with _within(self._settings.request_timeout_s, "document"):
            return await self._queries.document(principal, document_id)

    def reader(self, principal: Principal, request: api.SearchRequest) -> Principal:
        """Add to who asks those who will read along. Only services may: else people could learn what others may open."""
        if request.audience is None:
            return principal
        if not principal.actor:
            raise Forbidden(
                "only a service that acts for a person may name an audience", code="audience.forbidden"
            )
        readers = tuple(each for each in dict.fromkeys(request.audience) if each != principal.user_id)
        if len(readers) >= self._settings.audience_limit:
            raise TooLarge(
                f"the audience is larger than {self._settings.audience_limit} people",
                code="audience.too_large",
                hint="ask for the person alone",
            )
        return replace(principal, readers=readers)

    async def whole(self, principal: Principal, question: Question) -> tuple[SearchResult, Answer, str]:
        """Gather an answer to its end and record it: what it rests on, itself, and its id."""
        events, result = await self._begin(principal, question)
        async with aclosing(events):
            async for each in events:
                if each.kind is AnswerEventKind.DONE and each.answer is not None:
                    final = each.result or result
                    return final, each.answer, await self._record(principal, question, final, each.answer)
        raise Unavailable("the answer ended early", code="answer.incomplete")

    async def stream(self, principal: Principal, question: Question) -> AsyncGenerator[bytes, None]:
        """Write the answer's events as they come. An error before the first is raised, so that it still gets its own HTTP
        status; one on the way becomes the last event.
        """
        events, result = await self._begin(principal, question)
        async with aclosing(events):
            yield sse("evidence", shapes.search_response(result))
            try:
                async for each in events:
                    yield await self._piece(principal, question, each, result)
            except CortexError as error:
                account().fail(error)
                yield sse("error", problem(error))
            except Exception as error:  # noqa: BLE001 - outermost: the status line is sent, only an event can tell
                account().fail(Unexpected("unexpected"))
                failed = type(error).__name__
                event("answer.fail", level=logging.ERROR, error=failed, trace_id=question.trace_id)
                yield sse("error", problem(Unexpected("unexpected")))

    async def _begin(
        self, principal: Principal, question: Question
    ) -> tuple[AsyncGenerator[AnswerEvent, None], SearchResult]:
        """Wait for the evidence; who gets the events behind it closes them."""
        events = self._watched(self._queries.answer(principal, question))
        async with _within(self._settings.request_timeout_s, "search"):
            first = await anext(events, None)
        if first is None or first.result is None:
            await events.aclose()
            raise Unavailable("the query path sent no evidence", code="answer.empty")
        self._found(first.result)
        return events, first.result

    async def _piece(
        self, principal: Principal, question: Question, each: AnswerEvent, result: SearchResult
    ) -> bytes:
        data: BaseModel
        if each.citation is not None:
            data = shapes.citation(each.citation)
        elif each.answer is not None:
            final = each.result or result
            answer_id = await self._record(principal, question, final, each.answer)
            data = shapes.done(final, each.answer, answer_id)
        else:
            data = api.TokenModel(text=each.token)
        return sse(each.kind.value, data)

    def _found(self, result: SearchResult) -> None:
        self._metrics.search(result)
        account().search(result)

    async def _watched(self, events: AsyncIterator[AnswerEvent]) -> AsyncGenerator[AnswerEvent, None]:
        """Pass an answer's events on, and take the time to its first word."""
        asked_s, is_first = time.perf_counter(), True
        try:
            async for each in events:
                if is_first and each.kind is AnswerEventKind.TOKEN:
                    is_first, seconds = False, time.perf_counter() - asked_s
                    self._metrics.first_token(seconds)
                    account().first_token_ms = round(seconds * 1000, 1)
                yield each
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    async def _record(
        self, principal: Principal, question: Question, result: SearchResult, answer: Answer
    ) -> str:
        self._metrics.answer(answer, result)
        account().answer(answer)
        return await self._queries.record_answer(principal, question, result, answer)


class _within:  # noqa: N801 - reads as a word: `async with _within(30, "search")`
    """Limit a step's time; past it the step is cancelled and TimedOut raised."""

    def __init__(self, limit_s: float, step: str) -> None:
        self._timeout = asyncio.timeout(limit_s)
        self._step = step

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *failure: object) -> None:
        try:
            await self._timeout.__aexit__(*failure)  # type: ignore[arg-type]
        except TimeoutError as error:
            raise TimedOut(f"the {self._step} took too long", hint="ask again, or ask less") from error


def _json(model: BaseModel) -> Response:
    """Serialise once, in Rust; FastAPI would validate a second time."""
    return Response(
        model.model_dump_json(), media_type="application/json", headers={"cache-control": "no-store"}
    )
