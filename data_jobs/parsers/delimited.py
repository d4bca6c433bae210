"""Delimited text (CSV, TSV, pipes, semicolons): one block per record, with column names and line anchors."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from cortex.documents import Anchor, ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.decode import decode
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.tables import Row, add_table, has_header, is_number

_DELIMITERS = (",", ";", "\t", "|", ":", "^", "~")
_SAMPLE_LINES = 60
_MAX_CELL_CHARS = 1_000_000


def parse_delimited(content: bytes, name: str) -> ParsedBody:
    """Parse a table of records; the delimiter is the one that cuts the first lines most evenly."""
    text = decode(content)
    skipped = 0
    delimiter = ""
    if text[:5].lower().startswith("sep=") and text[5:6] == "\n":  # a spreadsheet's own hint
        delimiter, text, skipped = text[4], text[6:], 1
    rows = list(_records(text, delimiter or _delimiter(text, name), skipped))
    builder = BodyBuilder()
    add_table(builder, rows, 1 if _is_header_first(rows) else 0)
    return builder.finish()


def _records(text: str, delimiter: str, skipped: int) -> Iterator[Row]:
    csv.field_size_limit(_MAX_CELL_CHARS)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter, skipinitialspace=True)
    line = 0
    try:
        for cells in reader:
            first, line = line + 1, reader.line_num
            if any(cells):
                yield Row(tuple(cells), Anchor("line", first + skipped, line + skipped))
    except csv.Error as error:
        raise unparsable(FailureCode.CORRUPT, f"record at line {line + 1} is malformed: {error}") from error


def _delimiter(text: str, name: str) -> str:
    """Choose the delimiter whose records agree best in width over the first lines; a comma when none cuts anything."""
    if name.lower().endswith((".tsv", ".tab")) and "\t" in text:
        return "\t"
    sample = list(islice(io.StringIO(text), _SAMPLE_LINES))
    scores = {delimiter: _evenness(sample, delimiter) for delimiter in _DELIMITERS}
    best = max(scores, key=lambda delimiter: scores[delimiter])  # the first of equals: they are listed by use
    return best if scores[best] > 0 else ","


def _evenness(lines: list[str], delimiter: str) -> float:
    try:
        records = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
    except csv.Error:
        return 0.0
    widths = Counter(len(record) for record in records if any(record))
    if not widths:
        return 0.0
    width, count = widths.most_common(1)[0]
    share = count / widths.total()
    # Colons and carets occur inside cells; they must cut every line alike to count.
    is_rare = delimiter in ":^~"
    return 0.0 if width < 2 or (is_rare and share < 1) else share - (0.5 if is_rare else 0.0)


def _is_header_first(rows: list[Row]) -> bool:
    """Records mostly start with a header; not if it holds a number, a blank or a repeat."""
    if len(rows) < 2:
        return False
    first = [cell.strip() for cell in rows[0].cells]
    if has_header([row.cells for row in rows[:50]]):
        return True
    return all(first) and len(set(first)) == len(first) and not any(map(is_number, first))
