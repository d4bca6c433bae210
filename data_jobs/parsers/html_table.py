"""HTML tables: cells gathered into a grid (spans filled in), then added row by row with their column names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cortex.documents import Anchor, BlockKind
from data_jobs.parsers.body import NOWHERE, BodyBuilder
from data_jobs.parsers.tables import Row, add_table

_MAX_SPAN = 100  # browsers stop at 1,000; a larger one is an attack or a mistake
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")


def is_data_table(table: Any) -> bool:
    """Tell tables from layout: own header cells or a caption, or else neither nested tables nor headings inside."""
    if table.get("role") in ("presentation", "none"):
        return False
    if any(True for _ in _own_header_cells(table)) or table.find("caption") is not None:
        return True
    nested = (element for element in table.iter("table", *_HEADINGS) if element is not table)
    return next(nested, None) is None and len(table.findall(".//td")) > 1


def _own_header_cells(table: Any) -> Any:
    for section in table:
        rows = [section] if section.tag == "tr" else section if section.tag in ("thead", "tbody") else ()
        for row in rows:
            yield from (cell for cell in row if cell.tag == "th")


class HtmlTable:
    """One data table being read; nested tables become text of the cell that holds them."""

    def __init__(self) -> None:
        self._depth = 1
        self._rows: list[tuple[list[str], bool, int]] = []  # cells, is it a header row, source line
        self._row: list[str] | None = None
        self._line = 0
        self._is_header = True
        self._in_thead = False
        self._pending: dict[int, tuple[int, str]] = {}  # column -> rows still to fill, text
        self._caption = ""

    def open(self, element: Any, take: Callable[[], str]) -> None:
        """See an element begin; `take` returns and clears the inline text read so far."""
        tag = element.tag
        if tag == "table":
            self._depth += 1
        if self._depth > 1:
            return
        if tag == "thead":
            self._in_thead = True
        elif tag == "tr":
            take()
            self._row, self._line, self._is_header = [], element.sourceline or 0, True
        elif tag in ("td", "th", "caption"):
            take()

    def close(self, element: Any, take: Callable[[], str]) -> bool:
        """See an element end; True when it was the table itself."""
        tag = element.tag
        if tag == "table":
            self._depth -= 1
            return self._depth == 0
        if self._depth > 1:
            return False
        if tag in ("td", "th"):
            self._add_cell(element, " ".join(take().split()))
        elif tag == "tr":
            self._end_row()
        elif tag == "thead":
            self._in_thead = False
        elif tag == "caption":
            self._caption = " ".join(take().split())
        return False

    def add_to(self, builder: BodyBuilder, anchor: Anchor | None) -> None:
        """Add the caption and the rows; the leading rows of header cells name the columns."""
        rows = [
            Row(tuple(cells), anchor or Anchor("line", line, line))
            for cells, _, line in self._rows
            if any(cells)
        ]
        flags = [is_header for cells, is_header, _ in self._rows if any(cells)]
        n_header = next((i for i, is_header in enumerate(flags) if not is_header), len(flags))
        if self._caption:
            builder.add(BlockKind.PARAGRAPH, self._caption, rows[0].anchor if rows else anchor or NOWHERE)
        add_table(builder, rows, n_header if n_header < len(rows) else 0)

    def _add_cell(self, cell: Any, text: str) -> None:
        if self._row is None:
            self._row = []
        self._fill_pending()
        column = len(self._row)
        n_columns, n_rows = _span(cell, "colspan"), _span(cell, "rowspan")
        # Only the first column of a wide cell carries its text, unless it heads several columns.
        repeats = cell.tag == "th" or self._in_thead
        self._row += [text if repeats or i == 0 else "" for i in range(n_columns)]
        if n_rows > 1:
            for i in range(n_columns):
                self._pending[column + i] = (n_rows - 1, self._row[column + i])
        if cell.tag == "td" and not self._in_thead:
            self._is_header = False

    def _fill_pending(self) -> None:
        """Put the cells of earlier rows that reach down into this one."""
        row = self._row if self._row is not None else []
        while (column := len(row)) in self._pending:
            n_left, text = self._pending.pop(column)
            row.append(text)
            if n_left > 1:
                self._pending[column] = (n_left - 1, text)

    def _end_row(self) -> None:
        if self._row is not None:
            self._fill_pending()
            self._rows.append((self._row, self._is_header, self._line))
        self._row = None


def _span(cell: Any, name: str) -> int:
    value = cell.get(name) or "1"
    return min(max(int(value), 1), _MAX_SPAN) if value.isascii() and value.isdigit() and len(value) < 9 else 1
