"""Plain text: paragraphs between blank lines, with line anchors; the body is the file's own text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from cortex.documents import Anchor, Block, BlockKind, ParsedBody
from data_jobs.parsers.body import Span, cut
from data_jobs.parsers.decode import decode

# A log or data file without blank lines would be one block; anchors should stay precise to a screenful.
MAX_BLOCK_CHARS = 4_000
# Longer first lines are sentences, and titles that fill a screen help nobody.
MAX_TITLE_CHARS = 80
_LETTERS_OF_A_TITLE = 0.6  # of its characters: dates, numbers and rules of dashes have fewer
_NO_TITLE = re.compile(r"[\n\t=]| {3}|://|[.,;:…。、，；：]$")
_PARAGRAPH = re.compile(r"[^\n]*\S[^\n]*(?:\n[^\n]*\S[^\n]*)*")


def parse_text(content: bytes, name: str) -> ParsedBody:
    """Parse prose: every run of non-blank lines is a paragraph; a first one that looks like a title is the title."""
    body = decode(content)
    parsed = cut(body, paragraphs(body, BlockKind.PARAGRAPH, LineIndex(body)))
    return replace(parsed, title=_title(parsed.blocks))


def parse_data(content: bytes, name: str) -> ParsedBody:
    """Parse configuration and data files (JSON, YAML, TOML, INI, XML, logs): the same, as code."""
    body = decode(content)
    return cut(body, paragraphs(body, BlockKind.CODE, LineIndex(body)))


class LineIndex:
    """Says on which lines of a text a span of characters lies."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def anchor(self, start: int, end: int) -> Anchor:
        """Return the line anchor of a half-open, non-empty span."""
        return Anchor("line", self.line(start), self.line(end - 1))

    def line(self, position: int) -> int:
        """Return the 1-based line of a character."""
        return bisect_left(self._ends, position) + 1


def paragraphs(
    body: str, kind: BlockKind, lines: LineIndex, start: int = 0, end: int | None = None
) -> Iterator[Span]:
    """Yield the paragraphs of `body[start:end]` as spans; a long one is cut at line ends."""
    for match in _PARAGRAPH.finditer(body, start, len(body) if end is None else end):
        for first, last in _pieces(body, *match.span()):
            yield Span(kind, first, last, lines.anchor(first, last))


def _title(blocks: tuple[Block, ...]) -> str:
    """Return the first paragraph if it is one short line of words without an end mark, and something follows it."""
    line = blocks[0].text.strip() if len(blocks) > 1 else ""
    n_letters = sum(character.isalpha() for character in line)
    is_title = (
        len(line) <= MAX_TITLE_CHARS
        and not _NO_TITLE.search(line)
        and n_letters > _LETTERS_OF_A_TITLE * len(line.replace(" ", ""))
    )
    return line if is_title else ""


def _pieces(body: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_BLOCK_CHARS:
        split = body.rfind("\n", start + 1, start + MAX_BLOCK_CHARS)
        if split < 0:
            split = body.find("\n", start + MAX_BLOCK_CHARS, end)
        if split < 0:
            break
        yield start, split
        start = split + 1
    yield start, end
