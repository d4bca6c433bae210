"""Resemblance of two texts by their shingles, computed on the fly from nothing but the texts (Broder 1997)."""

from __future__ import annotations

import re
import unicodedata
from math import ceil

_WORD = re.compile(r"\w+")
_N_WORDS = 3
_N_CHARACTERS = 5
_ROUNDING = 1e-9


def fold(text: str) -> str:
    """Fold a text to what counts when two are compared: compatibility form, case and white space evened out."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def shingles(folded: str) -> frozenset[int]:
    """Return the hashed shingles of a folded text: three words, or five characters where words are not spaced."""
    words = _WORD.findall(folded)
    if len(words) * 12 < len(folded) or len(words) < _N_WORDS:
        letters = "".join(words)
        return frozenset(
            hash(letters[at : at + _N_CHARACTERS]) for at in range(max(1, len(letters) - _N_CHARACTERS + 1))
        )
    return frozenset(map(hash, zip(words, words[1:], words[2:], strict=False)))


def resemblance(one: frozenset[int], other: frozenset[int]) -> float:
    """Return the Jaccard similarity of two shingle sets; 1 for two empty ones."""
    if not one and not other:
        return 1.0
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared)


class Resembling:
    """Finds, among the sets given so far, the first one that is as similar to a new one as the threshold.

    Two sets whose Jaccard similarity is `threshold` or more share a member among the first
    `size - ceil(threshold * size) + 1` members of each, in any order that is the same for both (prefix filtering: Chaudhuri,
    Ganti and Kaushik 2006). Only those members are indexed, so that most sets are never compared.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._sets: list[frozenset[int]] = []
        self._by_member: dict[int, list[int]] = {}

    def find_or_add(self, members: frozenset[int]) -> int | None:
        """Return the number of the first set that `members` resembles, from 0; None when added as a new one (never empty)."""
        prefix = self._prefix(members)
        near = sorted({number for member in prefix for number in self._by_member.get(member, ())})
        for number in near:
            if resemblance(members, self._sets[number]) >= self._threshold:
                return number
        for member in prefix:
            self._by_member.setdefault(member, []).append(len(self._sets))
        self._sets.append(members)
        return None

    def _prefix(self, members: frozenset[int]) -> list[int]:
        n_must_share = ceil(self._threshold * len(members) - _ROUNDING)
        return sorted(members)[: len(members) - n_must_share + 1]
