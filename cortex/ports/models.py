"""Ports of models: encoders, rerankers and generators, which both sides use alike."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cortex.chunks import SparseVector


class TokenCounter(Protocol):
    """What chunking asks of a dense text encoder: its tokenizer alone, which loads in a fraction of the time."""

    version: str  # the encoder's: changes when the vectors would, by model, quantisation, pooling or prefix

    def count_tokens(self, text: str) -> int:
        """Count the model's tokens in a text, special tokens not included."""


class Embedder(TokenCounter, Protocol):
    """A dense text encoder."""

    dimension: int
    is_on_gpu: bool

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed passages: float32[n, d], unit rows, in the order given. Batches are length-sorted inside."""

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed questions: float32[n, d], unit rows."""


class LexicalEncoder(Protocol):
    """A BM25 term encoder; the index applies IDF."""

    version: str

    def encode_document(self, text: str) -> SparseVector:
        """Weigh a passage's terms: tf saturation and length normalisation by constants."""

    def encode_query(self, text: str) -> SparseVector:
        """Weigh a question's terms (1 for each occurrence); empty when nothing can be tokenised."""

    def terms(self, text: str) -> list[str]:
        """List the normalised terms of a text, repeats kept."""

    def distinct_terms(self, text: str) -> frozenset[str]:
        """Return what `terms` lists, each once, in a fraction of the time."""


class Reranker(Protocol):
    """A cross-encoder."""

    name: str

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """Score passages: float32[n], higher is better."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message: `role` is system, user or assistant."""

    role: str
    content: str


class Generator(Protocol):
    """A model that speaks the OpenAI chat API."""

    model: str

    def stream(self, messages: Sequence[Message]) -> AsyncGenerator[str, None]:
        """Stream the answer's text pieces; raises Unavailable or TimedOut. Closing it ends the request."""
