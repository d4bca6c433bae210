"""Ports of the query side, asynchronous: the index, the catalog and SpiceDB as a question reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cortex.chunks import SparseVector
from cortex.evidence import Answer, Candidate, Filters, Hit, SearchResult
from cortex.principals import Permit, Principal


@dataclass(frozen=True, slots=True)
class IndexQuery:
    """One hybrid query. The permit's profiles filter every lane and are the corpus of the BM25 IDF.

    Weights and `fusion_k` are those of weighted reciprocal rank fusion: sum of weight / (fusion_k + rank). Each lane
    is read `lane_limit` deep; `limit` and `offset` cut the fused list.
    """

    permit: Permit
    dense: NDArray[np.float32] | None
    sparse: SparseVector | None
    filters: Filters
    limit: int
    offset: int = 0
    weight_dense: float = 1.0
    weight_bm25: float = 1.0
    fusion_k: int = 10
    lane_limit: int = 100


class SearchIndex(Protocol):
    """The vector index, for reading."""

    async def search(self, query: IndexQuery) -> list[Candidate]:
        """Return fused candidates, best first, ties by chunk id, each with its lane scores and ranks.

        A lane whose vector is None does not run. An empty permit gives an empty list without a call. Raises
        Unavailable(code="index.missing") before anything was loaded.
        """

    async def ping(self) -> None:
        """Raise Unavailable unless the index answers."""


class QueryCatalog(Protocol):
    """The catalog, for reading at query time."""

    async def permit(self, principal: Principal) -> Permit:
        """Expand a principal to its access profiles at the newest access revision; unknown users get the tenant's
        everyone-profiles only if the user is registered, else raise Forbidden(code="user.unknown").

        Who was removed is Unauthenticated(code="user.removed"), and so are, after a return, what vouched for them before
        (code="token.revoked"). With readers, the profiles are those that every one of them has too; a reader who would
        be refused as a principal makes it Forbidden(code="audience.unknown")."""

    async def fresh_permit(self, principal: Principal) -> Permit:
        """Expand a principal to its permit, bound to the token of the newest permission write.

        Both are read after the call, so a removal acknowledged before it is always seen. Raises what `permit` and
        `permission_token` raise."""

    async def hydrate(self, candidates: Sequence[Candidate], permit: Permit) -> list[Hit]:
        """Load the candidates that are current, not deleted and within the permit, in the candidates' order."""

    async def document_hits(self, document_id: str, permit: Permit) -> list[Hit]:
        """Load all chunks of one visible document in order; empty when unknown or not visible."""

    async def permission_token(self) -> str:
        """Return the SpiceDB token of the newest permission write that SpiceDB acknowledged.

        Raises ChecksUnavailable when writes wait that SpiceDB has not seen.
        """

    async def record_answer(
        self, principal: Principal, question: str, result: SearchResult, answer: Answer
    ) -> str:
        """Store an answer with its citations for audit and feedback; returns the answer id."""

    async def record_feedback(
        self, principal: Principal, answer_id: str, is_helpful: bool, comment: str
    ) -> None:
        """Store a thumb; only the asker's own answer, else NotFound."""

    async def audit(self, principal: Principal, action: str, fields: Mapping[str, Any]) -> None:
        """Append one audit row."""

    async def ping(self) -> None:
        """Raise Unavailable unless the catalog answers."""


class PermissionChecker(Protocol):
    """SpiceDB, for checks."""

    async def allowed(self, principal: Principal, document_ids: Sequence[str], token: str) -> frozenset[str]:
        """Return those documents that the principal and every reader may view, at least as fresh as `token`.

        Raises ChecksUnavailable.
        """

    async def ping(self) -> None:
        """Raise ChecksUnavailable unless SpiceDB answers and is loaded."""


class QuestionEmbedder(Protocol):
    """A dense encoder as a question meets it: awaited, wherever the model runs."""

    async def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions: float32[n, d], unit rows."""

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32[n, d], unit rows, in the order given."""


class PassageReranker(Protocol):
    """A cross-encoder as a question meets it: awaited, wherever the model runs."""

    async def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages: float32[n], higher is better."""
