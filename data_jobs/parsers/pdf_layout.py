"""PDF lines -> blocks: paragraphs by spacing and indentation, lists by their bullets, headings by size, weight and bookmarks.

Lines that repeat at the top or bottom of most pages (running heads, page numbers) are left out after the first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from cortex.documents import Anchor, BlockKind
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.pdf_text import SOFT_HYPHEN

Outline = dict[tuple[int, str], int]  # (page number, title in lower case) -> depth

_BULLET = re.compile(r"(?:[•◦▪‣●○■□➢✓∙·*–-]|\(?(?:\d{1,3}|[a-z]|[ivx]{1,4})[.)])\s+(?=\S)")
_NUMBERED = re.compile(
    r"(?:(?:chapter|section|part|appendix)\s+)?(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+\S", re.IGNORECASE
)
_SENTENCE_END = (".", "!", "?", ":", ";", "。", "！", "？", "؟", ".”", '."')
_DIGITS = re.compile(r"\d+")
_MAX_HEADING_CHARS, _MAX_HEADING_LINES = 200, 3
_LARGER = 1.1  # times the body's size: the least that readers notice as a heading
_MARGIN = 0.1  # share of the page's height where running heads stand
_SHORT = 0.15  # share of a block's width by which a line is short on purpose


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a page: its text and box in points from the page's lower left corner."""

    text: str
    left: float
    bottom: float
    right: float
    top: float
    is_bold: bool = False
    ends_in_space: bool = False

    @property
    def size(self) -> float:
        """Height of a character's cell, rounded so that fonts of one size agree."""
        return round((self.top - self.bottom) * 2) / 2


@dataclass(frozen=True, slots=True)
class Page:
    """The lines of one page in drawing order."""

    number: int
    height: float
    lines: tuple[Line, ...]


@dataclass(slots=True)
class _Group:
    """Lines that form one block."""

    lines: list[Line]
    page: int
    _leading: float = field(default=0.0, init=False)

    def takes(self, line: Line) -> bool:
        """Say whether a line continues this block."""
        last = self.lines[-1]
        size = max(last.size, line.size, 1.0)
        step = last.bottom - line.bottom
        if abs(step) < 0.35 * size:  # the same row, cut by a wide gap
            return True
        is_alike = abs(last.size - line.size) <= 0.2 * size and last.is_bold == line.is_bold
        if not is_alike or step < 0 or _BULLET.match(line.text):
            return False
        overlap = min(last.right, line.right) - max(last.left, line.left)
        if overlap <= 0 or step > (1.35 * self._leading if self._leading else 1.75 * size):
            return False
        return not self._starts_paragraph(line, last, size)

    def append(self, line: Line) -> None:
        """Add a line; the first distance between two rows is the block's leading."""
        step = self.lines[-1].bottom - line.bottom
        if not self._leading and step > 0.35 * self.lines[-1].size:
            self._leading = step
        self.lines.append(line)

    def _starts_paragraph(self, line: Line, last: Line, size: float) -> bool:
        """Recognise an indented first line after a finished sentence."""
        is_indented = line.left > last.left + 0.7 * size and len(self.lines) > 1
        left = min(one.left for one in self.lines[1:] or self.lines)
        return is_indented and last.left <= left + 0.3 * size and last.text.endswith(_SENTENCE_END)

    @property
    def text(self) -> str:
        """Join the lines: hyphens undone; a line that is short on purpose (a row, an address) keeps its end."""
        left, right = min(line.left for line in self.lines), max(line.right for line in self.lines)
        parts: list[str] = []
        for line, following in zip(self.lines, [*self.lines[1:], None], strict=True):
            text = line.text
            if following is None:
                parts.append(text.rstrip(SOFT_HYPHEN))
            elif text.endswith(SOFT_HYPHEN) or _is_hyphenated(text, following.text):
                parts.append(text[:-1])
            else:
                is_row = line.bottom - following.bottom > 0.35 * line.size
                is_short = right - line.right > _SHORT * (right - left) and is_row
                parts += [text, "\n" if is_short else self._joint(line, following)]
        return "".join(parts)

    def _joint(self, line: Line, following: Line) -> str:
        """Say what joins two lines: a space, or nothing where the script breaks lines inside words.

        Korean does either; where some lines end in a space of their own, those without one break a word.
        """
        before, after = line.text[-1], following.text[0]
        if _is_unspaced(before) and _is_unspaced(after):
            return ""
        if _is_hangul(before) and _is_hangul(after) and not line.ends_in_space:
            return "" if any(one.ends_in_space for one in self.lines) else " "
        return " "

    @property
    def size(self) -> float:
        return float(median(line.size for line in self.lines))

    @property
    def is_bold(self) -> bool:
        return all(line.is_bold for line in self.lines)


def add_pages(builder: BodyBuilder, pages: Sequence[Page], outline: Outline) -> str:
    """Add the blocks of all pages; returns the title found on the first page, or an empty string."""
    groups = list(_groups(pages, _running_lines(pages)))
    styles = _Styles(groups, outline)
    for group in groups:
        text = group.text
        anchor = Anchor("page", group.page, group.page)
        if level := styles.heading_level(group, text):
            builder.heading(text, level, anchor)
        elif _BULLET.match(text):
            builder.add(BlockKind.LIST, text, anchor)
        else:
            builder.add(BlockKind.PARAGRAPH, text, anchor)
    return styles.title


class _Styles:
    """What the sizes and weights of a document's blocks mean: which are headings, and of which level."""

    def __init__(self, groups: Sequence[_Group], outline: Outline) -> None:
        self._outline = outline
        by_size: Counter[float] = Counter()
        n_bold = 0
        for group in groups:
            n_chars = sum(len(line.text) for line in group.lines)
            by_size[group.size] += n_chars
            n_bold += n_chars if group.is_bold else 0
        self._body = max(by_size, key=lambda size: by_size[size], default=0.0)
        self._bold_means = n_bold < 0.3 * by_size.total()
        larger = {g.size for g in groups if g.size >= _LARGER * self._body and _is_heading_like(g, g.text)}
        self._levels = {size: min(rank, 4) for rank, size in enumerate(sorted(larger, reverse=True), start=1)}
        self.title = self._find_title(groups)

    def heading_level(self, group: _Group, text: str) -> int:
        """Return the level of a heading, 0 for other blocks."""
        key = (group.page, " ".join(text.lower().split()))
        if key in self._outline:
            return self._outline[key]
        if not _is_heading_like(group, text):
            return 0
        is_larger = group.size in self._levels
        is_bold = self._bold_means and group.is_bold and group.size >= self._body and len(group.lines) == 1
        if not (is_larger or (is_bold and not text.endswith((".", ",")))):
            return 0
        numbered = _NUMBERED.match(text)
        if _BULLET.match(text) and numbered is None:
            return 0
        if numbered is not None:
            return min(numbered.group(1).count(".") + 1, 6)
        return self._levels.get(group.size, min(len(self._levels) + 1, 5))

    def _find_title(self, groups: Sequence[_Group]) -> str:
        """Choose the first heading of page one, unless a much larger one follows."""
        found = [group for group in groups if group.page == 1 and self.heading_level(group, group.text)]
        if not found:
            return ""
        largest = max(found, key=lambda group: group.size)
        best = largest if largest.size > 1.3 * found[0].size else found[0]
        return " ".join(best.text.split())


def _groups(pages: Sequence[Page], running: frozenset[str]) -> Iterator[_Group]:
    seen: set[str] = set()
    for page in pages:
        group: _Group | None = None
        for line in page.lines:
            key = _running_key(line, page.height)
            if key in running and (key in seen or not _DIGITS.sub("", line.text).strip()):
                continue
            seen.add(key)
            if group is not None and group.takes(line):
                group.append(line)
                continue
            if group is not None:
                yield group
            group = _Group([line], page.number)
        if group is not None:
            yield group


def _running_lines(pages: Sequence[Page]) -> frozenset[str]:
    """Find the lines at page edges that stand, apart from their digits, on at least three and on a third of the pages."""
    counts: Counter[str] = Counter()
    for page in pages:
        counts.update({key for line in page.lines if (key := _running_key(line, page.height))})
    return frozenset(key for key, n in counts.items() if n >= max(3, len(pages) / 3))


def _running_key(line: Line, height: float) -> str:
    """Name a line at the top or bottom edge of a page by its text without numbers; empty for lines between."""
    if line.bottom > (1 - _MARGIN) * height:
        return "top " + _DIGITS.sub("#", line.text)
    if line.top < _MARGIN * height:
        return "bottom " + _DIGITS.sub("#", line.text)
    return ""


def _is_heading_like(group: _Group, text: str) -> bool:
    is_short = len(text) <= _MAX_HEADING_CHARS and len(group.lines) <= _MAX_HEADING_LINES
    return is_short and sum(character.isalpha() for character in text) >= max(2, len(text) / 3)


def _is_unspaced(character: str) -> bool:
    """Say whether a character is Chinese or Japanese: Han, Kana or their punctuation."""
    return (
        "\u3000" <= character <= "\u30ff"
        or "\u3400" <= character <= "\u9fff"
        or "\uff00" <= character <= "\uffef"
    )


def _is_hangul(character: str) -> bool:
    return "\uac00" <= character <= "\ud7a3"


def _is_hyphenated(text: str, following: str) -> bool:
    return text.endswith("-") and text[-2:-1].isalpha() and following[:1].islower()
