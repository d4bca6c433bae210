"""Exact bodies: the file's own text is the body, so that every span of it is the same span of the file's bytes.

A file that is not clean UTF-8 (another encoding, control characters, bare carriage returns) has no such text: its
body is what was decoded, and the spans are of that.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from typing import Any

from cortex.documents import Anchor, Block, BlockKind, ParsedBody
from data_jobs.parsers.body import BodyBuilder, clean
from data_jobs.parsers.decode import decode

_MARK = "\ufeff"
_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[^\n]*(?:\n|\Z)")
_HEADING_MARKS = re.compile(r"[\s>]*(?:(?:[-*+]|\d+[.)])[ \t]+)*(?:#{1,6}|\*+)?[ \t]*")
_BYTES_EVERY = 256  # characters between two known byte offsets


def exact_text(content: bytes) -> tuple[str, bool]:
    """Decode a file, and say whether the text is exactly its bytes."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return decode(content), False
    plain = text.removeprefix(_MARK)
    is_exact = clean(plain) == plain.replace("\r\n", "\n")
    return (text, True) if is_exact else (decode(content), False)


class ByteOffsets:
    """Turns character positions of a text into offsets in its UTF-8 bytes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_ascii = text.isascii()
        starts = range(0, 0 if self._is_ascii else len(text), _BYTES_EVERY)
        sizes = (len(text[start : start + _BYTES_EVERY].encode()) for start in starts)
        self._known = [0, *accumulate(sizes)]

    def __getitem__(self, position: int) -> int:
        if self._is_ascii:
            return position
        start = position - position % _BYTES_EVERY
        return self._known[start // _BYTES_EVERY] + len(self._text[start:position].encode())


class ExactBuilder(BodyBuilder):
    """Builds blocks as every parser does, but of each keeps the lines that it stands on, as they are.

    `stand_in` is the span that becomes the only block of a note without a body: its title.
    """

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.bytes_at = ByteOffsets(source)
        self.stand_in: tuple[int, int] | None = None
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", source)), len(source)]
        self._at = 0

    def lines(self, first: int, last: int) -> tuple[int, int]:
        """Return the half-open character span of some lines, 1-based and inclusive."""
        n_lines = len(self._line_starts) - 1
        return self._line_starts[min(first - 1, n_lines)], self._line_starts[min(last, n_lines)]

    def heading(self, text: str, level: int, anchor: Anchor = Anchor()) -> None:
        """Add a heading as it is written, without its marks; the title stays the plain text."""
        self.first_heading = self.first_heading or " ".join(text.split())
        start, end = self._heading_span(text, anchor)
        super().heading(self.source[start:end], level, anchor)

    def finish(self, **found: Any) -> ParsedBody:
        """Return the source as the body, with its blocks."""
        if not self._blocks and self.stand_in:
            start, end = self.stand_in
            line = self.source.count("\n", 0, start) + 1
            self._keep(BlockKind.HEADING, start, end, Anchor("line", line, line), level=1)
        return replace(super().finish(**found), body=self.source)

    def _append(self, kind: BlockKind, text: str, anchor: Anchor, *, level: int = 0, **_: str) -> None:
        if anchor.kind != "line":
            return
        if kind is BlockKind.HEADING:
            start, end = self._heading_span(text, anchor)
        else:
            start, end = self._trimmed(kind, *self.lines(anchor.start, anchor.end))
        if start < end:
            self._keep(kind, start, end, anchor, level)

    def _keep(self, kind: BlockKind, start: int, end: int, anchor: Anchor, level: int = 0) -> None:
        text = self.source[start:end]
        self._at = end
        span = self.bytes_at[start], self.bytes_at[end]
        self._blocks.append(Block(kind, text, *span, anchor, self._path, level))

    def _trimmed(self, kind: BlockKind, start: int, end: int) -> tuple[int, int]:
        """Leave out what an earlier block has, fences, and space around; indentation stays."""
        start = max(start, self._at)
        if kind is BlockKind.CODE and (fence := _FENCE.match(self.source, start, end)):
            start = fence.end()
            last = self.source.rfind("\n", start, end - 1) + 1
            end = last if last and _FENCE.match(self.source, last, end) else end
            end = start if start < end and last == 0 and _FENCE.match(self.source, start, end) else end
        text = self.source[start:end]
        end = start + len(text.rstrip())
        blank = re.match(r"(?:[ \t]*\r?\n|\ufeff)*", text)
        start += blank.end() if blank else 0
        return start, end

    def _heading_span(self, text: str, anchor: Anchor) -> tuple[int, int]:
        """Find a heading's text on its lines; where it is marked up, the line without its leading marks."""
        start, end = self.lines(anchor.start, anchor.end)
        start = max(start, self._at)
        found = self.source.find(text, start, end)
        if found >= 0:
            return found, found + len(text)
        first_end = self.source.find("\n", start, end)
        line = self.source[start : end if first_end < 0 else first_end]
        marks = _HEADING_MARKS.match(line)
        shown = line.rstrip().rstrip("#").rstrip()
        begin = marks.end() if marks else 0
        return start + min(begin, len(shown)), start + len(shown)
