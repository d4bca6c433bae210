"""Resemblance of two texts by their shingles, computed on the fly from nothing but the texts (Broder 1997)."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\w+")
_N_WORDS = 3
_N_CHARACTERS = 5


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


def could_resemble(one: frozenset[int], other: frozenset[int], threshold: float) -> bool:
    """Say from the sizes alone whether two sets can be as similar as the threshold."""
    smaller, larger = sorted((len(one), len(other)))
    return smaller >= threshold * larger
