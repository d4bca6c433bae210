"""What surrounds the cells of a sheet: merged areas, comments and their replies, texts of drawn shapes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from data_jobs.parsers.archive import attribute, child, descendants
from data_jobs.parsers.ooxml import Package, comment_text, drawing_texts
from data_jobs.parsers.xlsx_values import rich_text

_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_MERGE = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]{1,3}\d{1,7}):([A-Z]{1,3}\d{1,7})"')
_MAX_MERGED_CELLS = 2_000  # of one area; larger ones are decoration
_MAX_MERGES = 20_000


class Merges:
    """The merged areas of a sheet, whose text is stored in their first cell only; used while rows come in order."""

    def __init__(self, content: bytes) -> None:
        self._areas: dict[int, list[tuple[int, int, int]]] = defaultdict(
            list
        )  # row -> (column, lead row, lead column)
        self._leads: dict[tuple[int, int], str] = {}
        at = content.rfind(b"sheetData>")
        for n, match in enumerate(_MERGE.finditer(content, max(at, 0))):
            if n >= _MAX_MERGES:
                break
            self._add(*(cell_position(reference.decode()) or (0, 0) for reference in match.groups()))

    def _add(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        (top, left), (bottom, right) = first, last
        if (bottom - top + 1) * (right - left + 1) <= _MAX_MERGED_CELLS:
            for row in range(top, bottom + 1):
                self._areas[row] += [(column, top, left) for column in range(left, right + 1)]

    def fill(self, row: int, cells: dict[int, str]) -> dict[int, str]:
        """Put texts from above into `cells`; return those that only spread sideways."""
        spread = {}
        for column, lead_row, lead_column in self._areas.get(row, ()):
            lead = (lead_row, lead_column)
            if row == lead_row and column == lead_column:
                self._leads[lead] = cells.get(column, "")
            elif column == lead_column and (text := self._leads.get(lead)):
                cells.setdefault(column, text)
            elif (text := self._leads.get(lead)) and column not in cells:
                spread[column] = text
        return spread


@dataclass(frozen=True, slots=True)
class Note:
    """A text beside the cells and the row it belongs to."""

    row: int
    text: str
    author: str = ""


def sheet_notes(package: Package, part: str) -> list[Note]:
    """Return comments, threads and shape texts of a sheet."""
    return [*_threads(package, part), *_comments(package, part), *_shapes(package, part)]


def cell_position(reference: str) -> tuple[int, int] | None:
    """Read `B7` as row 7 (1-based) and column 1 (0-based)."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    column = 0
    for letter in match.group(1):
        column = column * 26 + ord(letter) - 64
    return int(match.group(2)), column - 1


def _threads(package: Package, part: str) -> Iterator[Note]:
    people = {
        attribute(person, "id"): attribute(person, "displayName")
        for root in package.related(package.main_part, "person")
        for person in root
    }
    for root in package.related(part, "threadedComment"):
        for comment in root:
            text = child(comment, "text")
            author = people.get(attribute(comment, "personId"), "")
            said = (text.text or "") if text is not None else ""
            yield from _note(attribute(comment, "ref"), author, attribute(comment, "dT"), said)


def _comments(package: Package, part: str) -> Iterator[Note]:
    for root in package.related(part, "comments"):
        authors = [author.text or "" for author in descendants(root, "author")]
        for comment in descendants(root, "comment"):
            index = attribute(comment, "authorId")
            author = authors[int(index)] if index.isdigit() and int(index) < len(authors) else ""
            if not author.startswith("tc="):  # the stand-in for a thread, which was read already
                yield from _note(attribute(comment, "ref"), author, "", rich_text(comment))


def _note(reference: str, author: str, date: str, text: str) -> Iterator[Note]:
    position = cell_position(reference)
    if position is not None and text.strip():
        yield Note(position[0], f"{reference}: {comment_text(author, date, text)}", author)


def _shapes(package: Package, part: str) -> Iterator[Note]:
    for root in package.related(part, "drawing"):
        for anchor in root:
            start = child(anchor, "from", "row")
            row = int(start.text) + 1 if start is not None and (start.text or "").isdigit() else 1
            for text in drawing_texts(anchor):
                yield Note(row, text)
