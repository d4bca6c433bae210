"""Units: the smallest spans that chunks are packed from; a block, or a piece of one that is too long.

A block is cut at sentence ends (code: at line ends), and what is still too long at the strongest boundary near its
middle: line, clause, space, and at last between any two characters that do not combine.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from cortex.documents import Anchor, Block, BlockKind, ParsedBody
from cortex.errors import Corrupt

CountTokens = Callable[[str], int]

# A word of any length may be one token (an unknown word is), yet nobody cites ten megabytes.
MAX_BYTES_PER_TOKEN = 16

_LINE_END = re.compile(r"\n+")
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])[.!?…]++["'”’»)\]]*+\s+  # Latin, Cyrillic, Greek …: stops, closing marks, space
      | [。！？｡．]+[”’」』）】]*\s*   # Chinese, Japanese: no space follows
      | [؟۔।॥።]+\s*                 # Arabic, Urdu, Devanagari, Ethiopic
      | \n+""",
    re.VERBOSE,
)
_BOUNDARIES = (
    re.compile(r"\n+"),
    re.compile(r"[;:,]\s+|[；：，、،؛]\s*|\s[-–—|]\s"),
    re.compile(r"\s+"),
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A span of the body, trimmed of space, within one block. `n_tokens` counts what the encoder will see of it."""

    block: Block
    text: str
    byte_start: int
    byte_end: int
    anchor: Anchor
    n_tokens: int


@dataclass(frozen=True, slots=True)
class UnitLimit:
    """What fits into one unit: tokens as `count_tokens` counts them, and bytes."""

    max_tokens: int
    count_tokens: CountTokens

    def measure(self, text: str) -> int | None:
        """Return the tokens of a text that fits, None for one that does not. A text far too long is not counted."""
        if len(text.encode()) > self.max_tokens * MAX_BYTES_PER_TOKEN:
            return None
        n_tokens = self.count_tokens(text)
        return n_tokens if n_tokens <= self.max_tokens else None


def units_of(parsed: ParsedBody, limit: UnitLimit) -> Iterator[Unit]:
    """Cut a body's blocks into units, in order; raises Corrupt when its blocks are no ordered spans of it."""
    encoded = parsed.body.encode()
    at = 0
    for block in parsed.blocks:
        if not at <= block.byte_start <= block.byte_end <= len(encoded):
            raise Corrupt("the blocks of a parsed body overlap or leave it", code="document.blocks")
        at = block.byte_end
        yield from _units_of_block(block, encoded[block.byte_start : at].decode("utf-8"), limit)


def spoken(block: Block, text: str) -> str:
    """Put the speaker in front of a turn's text, unless it says so itself."""
    if block.kind is not BlockKind.TURN or not block.speaker or text.startswith(block.speaker):
        return text
    return f"{block.speaker}: {text}"


def _units_of_block(block: Block, text: str, limit: UnitLimit) -> Iterator[Unit]:
    has_line_spans = block.anchor.kind == "line" and (
        block.anchor.end - block.anchor.start == text.count("\n")
    )
    byte_at, line = block.byte_start, block.anchor.start
    for piece, n_tokens in _pieces(block, text, limit):
        trimmed = piece.strip()
        if trimmed:
            n_before = piece.index(trimmed[0])
            start = byte_at + len(piece[:n_before].encode())
            anchor = block.anchor
            if has_line_spans:
                first = line + piece[:n_before].count("\n")
                anchor = replace(anchor, start=first, end=first + trimmed.count("\n"))
            yield Unit(block, trimmed, start, start + len(trimmed.encode()), anchor, n_tokens)
        byte_at += len(piece.encode())
        line += piece.count("\n")


def _pieces(block: Block, text: str, limit: UnitLimit) -> Iterator[tuple[str, int]]:
    """Yield contiguous pieces that together are the text, each with its tokens."""
    n_tokens = limit.measure(spoken(block, text))
    if n_tokens is not None:
        yield text, n_tokens
        return
    boundary = _LINE_END if block.kind is BlockKind.CODE else _SENTENCE_END
    for sentence in _split_after(boundary, text):
        yield from _halves(sentence, limit)


def _split_after(boundary: re.Pattern[str], text: str) -> Iterator[str]:
    start = 0
    for match in boundary.finditer(text):
        yield text[start : match.end()]
        start = match.end()
    if start < len(text):
        yield text[start:]


def _halves(text: str, limit: UnitLimit) -> Iterator[tuple[str, int]]:
    """Halve a text until every piece fits, or is one character."""
    stack = [text]
    while stack:
        piece = stack.pop()
        n_tokens = limit.measure(piece)
        if n_tokens is None:
            split = _middle(piece)
            if 0 < split < len(piece):
                stack += [piece[split:], piece[:split]]
                continue
            n_tokens = limit.count_tokens(piece)
        yield piece, n_tokens


def _middle(text: str) -> int:
    """Find the strongest boundary in the middle half of a text, the one nearest to the middle."""
    low, middle, high = len(text) // 4, len(text) // 2, len(text) - len(text) // 4
    for boundary in _BOUNDARIES:
        ends = (match.end() for match in boundary.finditer(text, low, high))
        nearest = min(ends, key=lambda end: abs(end - middle), default=0)
        if 0 < nearest < len(text):
            return nearest
    while 0 < middle < len(text) and _joins(text[middle - 1], text[middle]):
        middle += 1
    return middle


def _joins(before: str, after: str) -> bool:
    """Say whether two characters make one: combining marks, variation selectors, zero-width joiners."""
    return before == "\u200d" or after == "\u200d" or unicodedata.category(after) in ("Mn", "Me", "Mc")
