"""The ports of the query path over stages: what the path holds in the staged placement instead of adapters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cortex.evidence import Answer, Candidate, Hit, Question, SearchResult
from cortex.ports.models import Message
from cortex.ports.query import IndexQuery, QueryCatalog
from cortex.principals import Permit, Principal
from retrieval.fuse import Fusion
from retrieval.recheck import Ranking
from retrieval.understand import LanePlan
from retrieval.wording import Wording
from serve_apps.handles import StageClient


class RemoteUnderstanding:
    """Port Understanding."""

    def __init__(self, stage: StageClient) -> None:
        self._stage = stage

    async def understand(self, question: Question) -> LanePlan:
        """Choose lanes and weights for a question."""
        lanes: LanePlan = await self._stage.ask("understand", question)
        return lanes


class RemoteEmbedder:
    """Port QuestionEmbedder."""

    def __init__(self, stage: StageClient) -> None:
        self._stage = stage

    async def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions: float32[n, d], unit rows."""
        rows: NDArray[np.float32] = await self._stage.ask("embed_queries", list(texts))
        return rows

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32[n, d], unit rows, in the order given."""
        rows: NDArray[np.float32] = await self._stage.ask("embed_documents", list(texts))
        return rows


class RemoteIndex:
    """Port SearchIndex."""

    def __init__(self, stage: StageClient) -> None:
        self._stage = stage

    async def search(self, query: IndexQuery) -> list[Candidate]:
        """Return fused candidates, best first, ties by chunk id."""
        found: list[Candidate] = await self._stage.ask("search", query)
        return found

    async def ping(self) -> None:
        """Raise Unavailable unless the index answers."""
        await self._stage.ask("ping")


class RemoteReranker:
    """Port PassageReranker."""

    def __init__(self, stage: StageClient) -> None:
        self._stage = stage

    async def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages: float32[n], higher is better."""
        scores: NDArray[np.float32] = await self._stage.ask("score", question, list(passages))
        return scores


class RemoteChecker:
    """Port PermissionChecker."""

    def __init__(self, recheck: StageClient) -> None:
        self._recheck = recheck

    async def allowed(self, principal: Principal, document_ids: Sequence[str], token: str) -> frozenset[str]:
        """Return those documents the principal may view, at least as fresh as `token`."""
        allowed: frozenset[str] = await self._recheck.ask("allowed", principal, list(document_ids), token)
        return allowed

    async def ping(self) -> None:
        """Raise ChecksUnavailable unless SpiceDB answers and is loaded."""
        await self._recheck.ask("ping")


class RemoteReaders:
    """Port Readers: the whole recheck of a question is one call, and only what is shown comes back."""

    def __init__(self, recheck: StageClient) -> None:
        self._recheck = recheck

    def open(self, permit: Permit, wording: Wording) -> RemoteReader:
        """Begin for one reader and one question."""
        return RemoteReader(self._recheck, permit, wording.text)


class RemoteReader:
    """Port Reader."""

    def __init__(self, recheck: StageClient, permit: Permit, text: str) -> None:
        self._recheck = recheck
        self._permit = permit
        self._text = text

    async def rank(self, candidates: Sequence[Candidate], fusion: Fusion, depth: int) -> Ranking:
        """Fuse the candidates that may be seen, and return the best `depth`, each authorised."""
        ranking: Ranking = await self._recheck.ask(
            "rank", list(candidates), self._permit, self._text, fusion, depth
        )
        return ranking


class RemoteGenerator:
    """Port Generator. The model's name is a setting, the same in every process."""

    def __init__(self, stage: StageClient, model: str) -> None:
        self._stage = stage
        self.model = model

    def stream(self, messages: Sequence[Message]) -> AsyncGenerator[str, None]:
        """Stream the answer's text pieces; closing it ends the model's work."""
        return self._stage.stream("stream", list(messages))


class StagedCatalog:
    """Port QueryCatalog: who asks is the permissions stage's, what is shown the recheck stage's.

    What is written is written here: a write is not sent again when a replica is lost, so it goes no such way.
    """

    def __init__(self, permissions: StageClient, recheck: StageClient, own: QueryCatalog) -> None:
        self._permissions = permissions
        self._recheck = recheck
        self._own = own

    async def permit(self, principal: Principal) -> Permit:
        """Expand a principal to its access profiles at the newest access revision."""
        permit: Permit = await self._permissions.ask("permit", principal)
        return permit

    async def fresh_permit(self, principal: Principal) -> Permit:
        """Expand a principal to its permit, bound to the token of the newest permission write."""
        permit: Permit = await self._permissions.ask("fresh_permit", principal)
        return permit

    async def permission_token(self) -> str:
        """Return the SpiceDB token of the newest permission write that SpiceDB acknowledged."""
        token: str = await self._permissions.ask("permission_token")
        return token

    async def hydrate(self, candidates: Sequence[Candidate], permit: Permit) -> list[Hit]:
        """Load the candidates that are current, not deleted and within the permit, in the candidates' order."""
        hits: list[Hit] = await self._recheck.ask("hydrate", list(candidates), permit)
        return hits

    async def document_hits(self, document_id: str, permit: Permit) -> list[Hit]:
        """Load all chunks of one visible document in order; empty when unknown or not visible."""
        hits: list[Hit] = await self._recheck.ask("document_hits", document_id, permit)
        return hits

    async def record_answer(
        self, principal: Principal, question: str, result: SearchResult, answer: Answer
    ) -> str:
        """Store an answer with its citations for audit and feedback; returns the answer id."""
        return await self._own.record_answer(principal, question, result, answer)

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        """Store a thumb; only the asker's own answer, else NotFound."""
        await self._own.record_feedback(principal, answer_id, is_helpful, comment)

    async def audit(self, principal: Principal, action: str, fields: Mapping[str, Any]) -> None:
        """Append one audit row."""
        await self._own.audit(principal, action, fields)

    async def ping(self) -> None:
        """Raise Unavailable unless the catalog answers."""
        await self._own.ping()
