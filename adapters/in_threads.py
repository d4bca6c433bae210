"""Models of this process as the query side awaits them: each run in a thread, so that other requests go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray
from opentelemetry.trace import Span

from cortex.ports.models import Embedder, Reranker
from cortex.telemetry import span


class ThreadedEmbedder:
    """Port QuestionEmbedder over an encoder of this process."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions: float32[n, d], unit rows."""
        with self._embedding(len(texts)):
            return await asyncio.to_thread(self._embedder.embed_queries, texts)

    async def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32[n, d], unit rows, in the order given."""
        with self._embedding(len(texts)):
            return await asyncio.to_thread(self._embedder.embed_documents, texts)

    def _embedding(self, n_texts: int) -> AbstractContextManager[Span]:
        model = self._embedder.version
        described = {"gen_ai.embeddings.dimension.count": self._embedder.dimension}
        return span(f"embeddings {model}", {**_running("embeddings", model, n_texts), **described})


class ThreadedReranker:
    """Port PassageReranker over a cross-encoder of this process."""

    def __init__(self, reranker: Reranker) -> None:
        self._reranker = reranker

    async def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages: float32[n], higher is better."""
        model = self._reranker.name
        with span(f"rerank {model}", _running("rerank", model, len(passages))):
            return await asyncio.to_thread(self._reranker.score, question, passages)


def _running(operation: str, model: str, n_texts: int) -> dict[str, str | int]:
    """Describe a run of a model of this process by OpenTelemetry's names for generative AI."""
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "cortex",
        "gen_ai.request.model": model,
        "cortex.texts": n_texts,
    }
