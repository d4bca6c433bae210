"""Tables, row by row: each row says its column names, so that it means something alone (`Region: West | Q1: 12`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cortex.documents import Anchor, BlockKind
from data_jobs.parsers.body import NOWHERE, BodyBuilder

_NUMBER = re.compile(r"[-+(]?[$€£¥]?\s?\d[\d\s.,:/%'-]*\)?(?:[eE][-+]?\d+)?\s?[%$€£¥]?")
_MAX_NAME_CHARS = 80  # longer cells are prose, not column names


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table and where it stands."""

    cells: tuple[str, ...]
    anchor: Anchor = NOWHERE


def add_table(builder: BodyBuilder, rows: Sequence[Row], n_header_rows: int) -> None:
    """Add a table: first the header as it stands, then each row with its column names; empty cells are left out."""
    header, data = rows[:n_header_rows], rows[n_header_rows:]
    for row in header:
        builder.add(BlockKind.TABLE_ROW, " | ".join(filter(None, map(one_line, row.cells))), row.anchor)
    names = column_names(header)
    for row in data:
        builder.add(BlockKind.TABLE_ROW, row_text(row.cells, names), row.anchor)


def column_names(header: Sequence[Row]) -> tuple[str, ...]:
    """Join the header rows of each column, top to bottom, without repeats (`2024 Q1`)."""
    width = max((len(row.cells) for row in header), default=0)
    columns = ([one_line(row.cells[i]) for row in header if i < len(row.cells)] for i in range(width))
    return tuple(column_name(column) for column in columns)


def column_name(texts: Iterable[str]) -> str:
    """Join what stands above one column; cut short, since every row repeats it."""
    return " ".join(dict.fromkeys(filter(None, texts)))[:_MAX_NAME_CHARS]


def row_text(cells: Sequence[str], names: Sequence[str]) -> str:
    """Write one row as `name: value | name: value`; a cell without a name, or equal to it, stands alone."""
    parts = []
    for i, cell in enumerate(cells):
        value = one_line(cell)
        name = names[i] if i < len(names) else ""
        if value:
            parts.append(f"{name}: {value}" if name and name != value else value)
    return " | ".join(parts)


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Guess whether the first row names the columns: several short, distinct, non-numeric cells over other rows.

    Two columns without a number below are as likely pairs of key and value, so they get no header.
    """
    if len(rows) < 2:
        return False
    first = [cell.strip() for cell in rows[0] if cell.strip()]
    width = max(len(row) for row in rows)
    is_named = len(first) >= 2 and len(first) >= 0.6 * width and len(set(first)) == len(first)
    if not is_named or any(is_number(cell) or len(cell) > _MAX_NAME_CHARS for cell in first):
        return False
    return len(first) > 2 or any(is_number(cell.strip()) for row in rows[1:50] for cell in row)


def is_number(cell: str) -> bool:
    """Say whether a cell is an amount, a percentage, a date in digits or a time."""
    return _NUMBER.fullmatch(cell) is not None


def one_line(cell: str) -> str:
    """Write a cell's text on one line."""
    return " ".join(cell.split())
