"""What the HTTP layer needs of everything behind it: the query path, the sources' desk, and readiness.

The fused placement gives it plain objects of one process; a staged one gives it handles; tests give it twins.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cortex.api import SourceModel
from cortex.evidence import Answer, AnswerEvent, Hit, Question, SearchResult
from cortex.principals import Principal
from serve_apps.metrics import StageMetrics


class QueryService(Protocol):
    """The query path. Every method expands the principal anew and raises only `CortexError`s."""

    async def admit(self, principal: Principal) -> None:
        """Raise Forbidden unless the principal is a registered person of the tenant, Unauthenticated if removed."""

    async def search(self, principal: Principal, question: Question) -> SearchResult:
        """Find evidence that the principal may see."""

    def answer(self, principal: Principal, question: Question) -> AsyncIterator[AnswerEvent]:
        """Answer from that evidence: evidence once, tokens and citations, done once. Closing it stops the work."""

    async def document(self, principal: Principal, document_id: str) -> list[Hit]:
        """Load all chunks of one document, rechecked; NotFound when unknown or not visible, alike."""

    async def record_answer(
        self, principal: Principal, question: Question, result: SearchResult, answer: Answer
    ) -> str:
        """Store an answer for audit and feedback; returns its id."""

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        """Store a thumb on the principal's own answer."""

    async def ready(self, *, by_words: bool = False) -> None:
        """Run a real query through index, catalog and checker; raises Unavailable with the part's name.

        By words alone it asks no encoder, so one that rests (`min_replicas: 0`) is not woken.
        """


class SourceDesk(Protocol):
    """Where an operator adds a source and watches it load."""

    async def sources(self, tenant_id: str) -> list[SourceModel]:
        """List the tenant's sources with their last runs."""

    async def add_folder(self, principal: Principal, path: str, collection: str) -> SourceModel:
        """Register a folder of this machine and start loading it."""


class PushDesk(Protocol):
    """Where a source's own pushes arrive."""

    async def receive(self, source_id: str, headers: Mapping[str, str], body: bytes) -> str:
        """Take a signed push and return what its sender waits to read; raises Unauthenticated for any other."""


async def _nothing() -> None:
    """Close nothing."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What one ingress serves; without a desk for pushes every push is refused. Over stages, with the figures of their calls."""

    queries: QueryService
    desk: SourceDesk
    close: Callable[[], Awaitable[None]] = _nothing
    pushes: PushDesk | None = None
    stages: StageMetrics | None = None
