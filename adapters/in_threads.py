"""Models of this process as the query side awaits them: each run in a thread, so that other requests go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cortex.ports.models import Embedder, Reranker


class ThreadedEmbedder:
    """Port QuestionEmbedder over an encoder of this process."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions: float32[n, d], unit rows."""
        return await asyncio.to_thread(self._embedder.embed_queries, texts)

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32[n, d], unit rows, in the order given."""
        return await asyncio.to_thread(self._embedder.embed_documents, texts)


class ThreadedReranker:
    """Port PassageReranker over a cross-encoder of this process."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker

    async def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages: float32[n], higher is better."""
        return await asyncio.to_thread(self._reranker.score, question, passages)
