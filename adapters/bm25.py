"""BM25 as sparse vectors: documents carry saturated term weights, the index multiplies the IDF (Robertson and Zaragoza 2009)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from adapters.terms import split_terms, topic_terms
from cortex.chunks import SparseVector
from cortex.settings import Settings


class Bm25Encoder:
    """A LexicalEncoder.

    Average length is a constant, so that documents the reader may not see cannot move a score. Term ids are 32-bit
    hashes: among a million distinct terms one in 4,300 shares its id with another, which costs a little precision
    and needs no dictionary.
    """

    version = "terms-1"  # part of what a re-index must compare: change it with any change of `adapters.terms`

    def __init__(self, *, k1: float, b: float, average_tokens: float) -> None:
        self._k1 = k1
        self._b = b
        self._average_tokens = average_tokens

    @classmethod
    def from_settings(cls, settings: Settings) -> Bm25Encoder:
        """Build the encoder with the constants of the settings."""
        return cls(k1=settings.bm25_k1, b=settings.bm25_b, average_tokens=settings.bm25_average_tokens)

    def encode_document(self, text: str) -> SparseVector:
        """Weigh a passage's terms: tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))."""
        terms = list(split_terms(text))
        length = sum(term.length for term in terms)
        norm = self._k1 * (1 - self._b + self._b * length / self._average_tokens)
        counts = Counter(term.text for term in terms)
        return _sparse((term_id(term), tf * (self._k1 + 1) / (tf + norm)) for term, tf in counts.items())

    def encode_query(self, text: str) -> SparseVector:
        """Weigh a question's terms, 1 for each occurrence of a word; empty when nothing can be tokenised.

        Stop words weigh nothing unless the question holds nothing else. Counting repeats is Okapi's query saturation
        with k3 = infinity: it changes nothing for short questions and carries long ones.
        """
        terms = list(split_terms(text))
        has_topic = any(term.query_weight == 1 for term in terms)
        weights: dict[str, float] = {}
        for term in terms:
            weights[term.text] = weights.get(term.text, 0.0) + (term.query_weight if has_topic else 1.0)
        return _sparse((term_id(term), weight) for term, weight in weights.items() if weight)

    def terms(self, text: str) -> list[str]:
        """List the normalised terms of a text, repeats kept, stop words only where there is nothing else."""
        terms = list(split_terms(text))
        return [term.text for term in terms if term.query_weight == 1] or [term.text for term in terms]

    def distinct_terms(self, text: str) -> frozenset[str]:
        """Return what `terms` lists, each once."""
        return topic_terms(text) or frozenset(self.terms(text))


@lru_cache(maxsize=200_000)
def term_id(term: str) -> int:
    """Hash a term to its uint32 id, the same in every process and release."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=4).digest(), "little")


def _sparse(weights: Iterable[tuple[int, float]]) -> SparseVector:
    """Order by id; of two terms that share one, the heavier weight stays."""
    merged: dict[int, float] = {}
    for index, value in weights:
        merged[index] = max(value, merged.get(index, 0.0))
    indices = sorted(merged)
    return SparseVector(tuple(indices), tuple(merged[index] for index in indices))
