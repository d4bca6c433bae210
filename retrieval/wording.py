"""Wording: how much of a question's own words passages contain, words weighted by how rare they are among them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cortex.evidence import Hit
from cortex.ports.models import LexicalEncoder
from retrieval.understand import unspaced_share


class Wording:
    """The terms of one question, held against hits. A hit's terms are read once."""

    def __init__(self, lexical: LexicalEncoder, text: str) -> None:
        self.text = text
        self._lexical = lexical
        self.terms = tuple(dict.fromkeys(lexical.terms(text)))
        self.is_unspaced = unspaced_share(text) > 0.5
        self._passages: dict[str, frozenset[str]] = {}

    def shares(self, hits: Sequence[Hit]) -> list[float]:
        """Return each hit's share in [0, 1] of the question's terms, weighted by rarity among these hits."""
        passages = [self._passage(hit) for hit in hits]
        rarity = rarities(self.terms, passages)
        return [term_share(rarity, passage) for passage in passages]

    def _passage(self, hit: Hit) -> frozenset[str]:
        if hit.chunk_id not in self._passages:
            searched = "\n".join((hit.title, *hit.heading_path, hit.text))
            self._passages[hit.chunk_id] = self._lexical.distinct_terms(searched)
        return self._passages[hit.chunk_id]


def rarities(wanted: Sequence[str], passages: Sequence[frozenset[str]]) -> dict[str, float]:
    """Weigh each distinct wanted term by its rarity among passages: ln((n + 1) / (df + 0.5)).

    A term in none of them is the rarest.
    """
    return {
        term: math.log((len(passages) + 1) / (sum(term in terms for terms in passages) + 0.5))
        for term in dict.fromkeys(wanted)
    }


def term_share(rarity: Mapping[str, float], passage: frozenset[str]) -> float:
    """Return the share in [0, 1] of the terms, by rarity, that a passage contains; 0 when there are none."""
    total = sum(rarity.values())
    return sum(weight for term, weight in rarity.items() if term in passage) / total if total else 0.0
