"""Cite: citation marks read out of a token stream, held against the evidence, and made into citations."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cortex.evidence import Citation, Fragment
from retrieval.resemble import fold
from retrieval.sentences import sentences

# A finished mark: [2], [1, 3], [2-4], also in CJK brackets; with the blanks before it, which go when it goes.
_MARK = re.compile(r"([ \t]*)[\[【]\s?(\d{1,4}(?:\s?[,;、–-]\s?\d{1,4}){0,15})\s?[\]】]")
# What may still become one: blanks at the end, or an open bracket with nothing but numbers behind it.
_UNFINISHED = re.compile(r"[ \t]*(?:[\[【][\d\s,;、–-]{0,120})?\Z")
_NUMBER = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")


class CitationReader:
    """Reads a stream of text pieces into text and citation numbers, whatever way the stream is cut.

    Only numbers of the evidence come out; a mark that names any other is taken out of the text, with the blanks
    before it. Valid marks come out as text (`[3]`) right before their number.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = frozenset(numbers)
        self._held = ""

    def feed(self, piece: str) -> list[str | int]:
        """Read one piece; what may still become a mark is held back for the next.

        A mark that the stream's end leaves unfinished never comes out.
        """
        text = self._held + piece
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished.group(0) if unfinished else ""
        return self._read(text[: len(text) - len(self._held)])

    def _read(self, text: str) -> list[str | int]:
        read: list[str | int] = []
        at = 0
        for match in _MARK.finditer(text):
            read.append(text[at : match.start()])
            at = match.end()
            for place, number in enumerate(n for n in _numbers(match.group(2)) if n in self._numbers):
                read += [f"{match.group(1) if place == 0 else ''}[{number}]", number]
        read.append(text[at:])
        return [each for each in read if each != ""]


class ThoughtFilter:
    """Leaves out what a reasoning model thinks aloud, between `<think>` and `</think>` at the start of its stream."""

    _OPEN, _CLOSE = "<think>", "</think>"

    def __init__(self) -> None:
        self._held: str | None = ""  # None: the answer has begun

    def feed(self, piece: str) -> str:
        """Pass on a piece, or as much of it as is no thought."""
        if self._held is None:
            return piece
        self._held += piece
        begun = self._held.lstrip()
        if begun.startswith(self._OPEN):
            _, closed, answer = begun.partition(self._CLOSE)
            self._held = None if closed else self._held
            return answer.lstrip()
        if self._OPEN.startswith(begun):
            return ""
        self._held = None
        return begun


def _numbers(listed: str) -> list[int]:
    """Read `1, 3-5` as 1, 3, 4, 5, each once; a range too long to be meant gives its ends."""
    found: dict[int, None] = {}
    for match in _NUMBER.finditer(listed):
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        found |= dict.fromkeys(range(first, last + 1) if 0 <= last - first < 20 else (first, last))
    return list(found)


def cite(fragment: Fragment, quote: str) -> Citation:
    """Make the citation of a fragment with the words that it is cited for."""
    hit = fragment.hit
    return Citation(
        number=fragment.number,
        fragment_id=fragment.fragment_id,
        document_id=hit.document_id,
        title=hit.title,
        permalink=hit.permalink,
        anchor=fragment.anchor,
        quote=quote,
    )


def best_quote(fragment: Fragment, claim: str) -> str:
    """Return the sentence of a fragment that shares most words with a claim, the first of equals."""
    claimed = frozenset(re.findall(r"\w+", fold(claim)))
    quoted = sentences(fragment.text) or [fragment.text]
    return max(quoted, key=lambda sentence: len(claimed & frozenset(re.findall(r"\w+", fold(sentence)))))
