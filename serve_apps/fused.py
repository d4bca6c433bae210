"""The query path as the HTTP layer asks it: the same functions over the same ports, whatever the ports lead to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
from numpy.typing import NDArray

from cortex.errors import NotFound, TimedOut, Unavailable
from cortex.evidence import Answer, AnswerEvent, Filters, Hit, Question, SearchResult
from cortex.ports.query import IndexQuery
from cortex.principals import Permit, Principal
from retrieval.path import Parts, answer, search

# Nobody holds this profile, so the readiness query runs whole and can show nothing.
_NO_PROFILE = (2**31 - 1,)
_NO_DOCUMENT = "00000000-0000-0000-0000-000000000000"


class FusedQueries:
    """Port QueryService over the functions of the query path."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def admit(self, principal: Principal) -> None:
        """Raise Forbidden unless the principal is a registered person of the tenant, Unauthenticated if removed."""
        await self._parts.catalog.permit(principal)

    async def search(self, principal: Principal, question: Question) -> SearchResult:
        """Find evidence that the principal may see."""
        return await search(self._parts, principal, question)

    def answer(self, principal: Principal, question: Question) -> AsyncIterator[AnswerEvent]:
        """Answer from that evidence."""
        return answer(self._parts, principal, question)

    async def document(self, principal: Principal, document_id: str) -> list[Hit]:
        """Load all chunks of one document: the catalog's filter first, then SpiceDB at the newest token."""
        catalog = self._parts.catalog
        permit = await catalog.fresh_permit(principal)
        hits = await catalog.document_hits(document_id, permit)
        if not hits or not await self._parts.checker.allowed(principal, [document_id], permit.token):
            raise NotFound("there is no such document, or you may not open it", code="document.not_found")
        return hits

    async def record_answer(
        self, principal: Principal, question: Question, result: SearchResult, answer: Answer
    ) -> str:
        """Store an answer for audit and feedback."""
        return await self._parts.catalog.record_answer(principal, question.text, result, answer)

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        """Store a thumb on the principal's own answer."""
        await self._parts.catalog.record_feedback(principal, answer_id, is_helpful, comment)

    async def ready(self, *, by_words: bool = False) -> None:
        """Embed, search, load and check for a principal who may see nothing; raises what the first failing part raises.

        Without the embedding model, words alone are searched: questions are then answered so too, and say it.
        `by_words` leaves it alone from the start.
        """
        parts, nobody = self._parts, Principal("readiness", "readiness")
        token = await parts.catalog.permission_token()
        permit = Permit(nobody, _NO_PROFILE, 0, token)
        dense = None if by_words else await self._dense("ready")
        sparse = parts.lexical.encode_query("ready")
        candidates = await parts.index.search(IndexQuery(permit, dense, sparse, Filters(), limit=1))
        await parts.catalog.hydrate(candidates, permit)
        await parts.checker.ping()
        await parts.checker.allowed(nobody, [_NO_DOCUMENT], token)

    async def _dense(self, text: str) -> NDArray[np.float32] | None:
        try:
            rows = await self._parts.embedder.embed_queries([text])
        except (Unavailable, TimedOut):
            return None
        row: NDArray[np.float32] = rows[0]
        return row
