"""Rows of a sheet -> blocks: runs of rows between blank ones are tables, their first row may name the columns.

A run without a header of its own takes the names of the one above it on the sheet, as sections of one table do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from cortex.documents import Anchor, BlockKind
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.tables import column_name, has_header, row_text

# A run is held in memory to find its header; beyond this the rest follows with the header found so far.
_MAX_RUN_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class SheetRow:
    """One row that has text: its 1-based number and its texts by 0-based column.

    `spread` holds the further columns of cells merged sideways: such a text heads all of them, but is data only once.
    """

    number: int
    cells: dict[int, str]
    spread: dict[int, str] = field(default_factory=dict)

    @property
    def wide(self) -> dict[int, str]:
        """Texts by column as they look on the sheet."""
        return self.cells | self.spread


def add_sheet(builder: BodyBuilder, name: str, rows: Iterable[SheetRow]) -> None:
    """Add a sheet under a heading with its name; an empty sheet adds nothing."""
    names: dict[int, str] = {}
    is_first = True
    last_number = -1
    for run in _runs(rows):
        if is_first:
            builder.heading(name, 1, Anchor("row", run[0].number, run[0].number, name))
            is_first = False
        is_continued = run[0].number == last_number + 1
        last_number = run[-1].number
        names = _add_run(builder, name, run, names, is_continued)


def _runs(rows: Iterable[SheetRow]) -> Iterator[list[SheetRow]]:
    run: list[SheetRow] = []
    for row in rows:
        if run and (row.number != run[-1].number + 1 or len(run) >= _MAX_RUN_ROWS):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _add_run(
    builder: BodyBuilder, sheet: str, run: list[SheetRow], names: dict[int, str], is_continued: bool
) -> dict[int, str]:
    """Add one run; returns the column names that hold after it."""
    if not is_continued:
        n_titles = _count_titles(run)
        for row in run[:n_titles]:
            builder.add(BlockKind.PARAGRAPH, " ".join(_distinct(row.cells.values())), _anchor(sheet, row))
        run = run[n_titles:]
        n_header = _count_header(run)
        for row in run[:n_header]:
            builder.add(BlockKind.TABLE_ROW, " | ".join(_distinct(row.cells.values())), _anchor(sheet, row))
        if n_header:
            names = _column_names(run[:n_header])
        elif not _is_covered(run, names):
            names = {}
        run = run[n_header:]
    for row in run:
        columns = sorted(row.cells)
        text = row_text([row.cells[c] for c in columns], [names.get(c, "") for c in columns])
        builder.add(BlockKind.TABLE_ROW, text, _anchor(sheet, row))
    return names


def _count_titles(run: list[SheetRow]) -> int:
    """Count the leading rows with one text (or one merged over all columns) above a wider table."""
    is_title = [len(set(row.cells.values())) == 1 for row in run]
    n = next((i for i, flag in enumerate(is_title) if not flag), 0)
    return n if n < len(run) else 0


def _count_header(run: list[SheetRow]) -> int:
    if not run:
        return 0
    grid = _grid(run[:50])
    if has_header(grid):
        return 1
    # A first row of groups over columns (`2024 | 2024 | 2025`), and the names below it.
    is_grouped = len(grid) > 2 and len(set(filter(None, grid[0]))) < len(list(filter(None, grid[0])))
    return 2 if is_grouped and has_header(grid[1:]) else 0


def _grid(run: list[SheetRow]) -> list[list[str]]:
    columns = sorted({column for row in run for column in row.wide})
    return [[row.wide.get(column, "") for column in columns] for row in run]


def _column_names(header: list[SheetRow]) -> dict[int, str]:
    columns = {column for row in header for column in row.wide}
    return {c: column_name(row.wide[c] for row in header if c in row.wide) for c in columns}


def _is_covered(run: list[SheetRow], names: dict[int, str]) -> bool:
    return all(column in names for row in run for column in row.cells)


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _anchor(sheet: str, row: SheetRow) -> Anchor:
    return Anchor("row", row.number, row.number, sheet)
