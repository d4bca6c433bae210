"""What line-oriented markup formats share: lines gathered into paragraphs, list items, rows and code with line anchors."""

from __future__ import annotations

import re

from cortex.documents import Anchor, BlockKind
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.tables import Row, add_table, has_header

_MAX_LIST_DEPTH = 12


class LineBlocks:
    """Gathers the lines of one file; a call that starts something else ends what was open."""

    def __init__(self, builder: BodyBuilder) -> None:
        self.builder = builder
        self._lines: list[str] = []
        self._marker = ""
        self._is_code = False
        self._first = 0
        self._last = 0
        self._rows: list[Row] = []

    def text(self, line: str, number: int) -> None:
        """Add a line of prose to the open paragraph or list item."""
        self._open(line, number, is_code=False)

    def code(self, line: str, number: int) -> None:
        """Add a line of code, kept as it stands."""
        self._open(line, number, is_code=True)

    def item(self, text: str, number: int, depth: int, marker: str) -> None:
        """Begin a list item of a depth from 0; the following lines of prose belong to it."""
        self.end()
        self._marker = "  " * min(depth, _MAX_LIST_DEPTH) + marker + " "
        self._open(text, number, is_code=False)

    def row(self, cells: list[str], number: int) -> None:
        """Add a table row; cells are already plain."""
        self._end_lines()
        if any(cells):
            self._rows.append(Row(tuple(cells), Anchor("line", number, number)))

    def heading(self, text: str, level: int, number: int) -> None:
        """Add a heading."""
        self.end()
        self.builder.heading(text, level, Anchor("line", number, number))

    def end(self, n_header_rows: int | None = None) -> None:
        """End what is open; a table takes that many header rows, or a guess."""
        self._end_lines()
        if self._rows:
            guess = 1 if has_header([row.cells for row in self._rows]) else 0
            add_table(self.builder, self._rows, guess if n_header_rows is None else n_header_rows)
            self._rows = []

    def _open(self, line: str, number: int, is_code: bool) -> None:
        if is_code != self._is_code or self._rows:
            self.end()
        if not self._lines:
            self._first, self._is_code = number, is_code
        self._lines.append(line)
        self._last = number

    def _end_lines(self) -> None:
        lines, self._lines = self._lines, []
        marker, self._marker = self._marker, ""
        if not lines:
            return
        anchor = Anchor("line", self._first, self._last)
        if self._is_code:
            self.builder.add(BlockKind.CODE, "\n".join(lines), anchor)
        elif marker:
            self.builder.add(BlockKind.LIST, marker + " ".join(line.strip() for line in lines), anchor)
        else:
            self.builder.add(BlockKind.PARAGRAPH, "\n".join(line.strip() for line in lines), anchor)


class ListDepth:
    """Turns the indentation of list items into depths from 0."""

    def __init__(self) -> None:
        self._indents: list[int] = []

    def of(self, indent: int) -> int:
        """Return the depth of an item with that indentation."""
        while self._indents and self._indents[-1] > indent:
            self._indents.pop()
        if not self._indents or self._indents[-1] < indent:
            self._indents.append(indent)
        return len(self._indents) - 1

    def reset(self) -> None:
        """Forget the open lists."""
        self._indents.clear()


def pipe_cells(line: str) -> list[str]:
    """Split `| a | b |` into its cells."""
    return [cell.strip() for cell in re.sub(r"^\s*\|?|\|?\s*$", "", line).split("|")]
