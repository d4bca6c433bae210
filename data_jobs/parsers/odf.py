"""OpenDocument files (.odt, .ods, .odp): headings, paragraphs, lists, tables, sheets and slides of `content.xml`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cortex.documents import Anchor, BlockKind, ParsedBody
from data_jobs.parsers.archive import Archive, attribute, child, descendants, local
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.dates import parse_date
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.sheet_rows import SheetRow, add_sheet
from data_jobs.parsers.tables import Row, add_table, has_header, one_line

_MAX_REPEATS = 1_000  # of one cell or row: empty rest of a sheet is written as one repeated row
_MAX_DEPTH = 60
_MARKS = {"s": " ", "tab": "\t", "line-break": "\n"}
_LEFT_OUT = frozenset({"annotation", "tracked-changes", "note", "notes", "forms", "sequence-decls"})


def parse_odf(archive: Archive, name: str) -> ParsedBody:
    """Parse an OpenDocument package."""
    manifest = archive.xml_or_none("META-INF/manifest.xml")
    if manifest is not None and next(descendants(manifest, "encryption-data"), None) is not None:
        raise unparsable(FailureCode.ENCRYPTED, "it is protected by a password", "remove the password")
    body = child(archive.xml("content.xml"), "body")
    builder = BodyBuilder()
    for part in body if body is not None else ():
        _Reader(builder, local(part)).add(part, 0)
    return _finish(archive, builder)


class _Reader:
    def __init__(self, builder: BodyBuilder, kind: str) -> None:
        self._builder = builder
        self._kind = kind  # text, spreadsheet or presentation
        self._anchor = Anchor()
        self._slide = 0

    def add(self, element: Any, depth: int) -> None:
        """Add everything below an element."""
        for part in element if depth < _MAX_DEPTH else ():
            name = local(part)
            if name in _LEFT_OUT:
                continue
            if name == "h":
                level = attribute(part, "outline-level")
                self._builder.heading(text_of(part), int(level) if level.isdigit() else 1, self._anchor)
            elif name == "p":
                self._builder.add(BlockKind.PARAGRAPH, text_of(part), self._anchor)
            elif name == "list":
                self._list(part, 0)
            elif name == "table" and self._kind == "spreadsheet":
                add_sheet(self._builder, attribute(part, "name"), _sheet_rows(part))
            elif name == "table":
                self._table(part)
            elif name == "page":
                self._page(part, depth)
            else:
                self.add(part, depth + 1)

    def _page(self, page: Any, depth: int) -> None:
        self._slide += 1
        self._anchor = Anchor("slide", self._slide, self._slide)
        title = next((e for e in descendants(page, "frame") if attribute(e, "class") == "title"), None)
        self._builder.heading(
            _joined(title) if title is not None else f"Slide {self._slide}", 1, self._anchor
        )
        for part in page:
            if part is not title and local(part) != "notes":
                self.add([part] if local(part) == "p" else part, depth + 1)
        for notes in (part for part in page if local(part) == "notes"):
            if text := _joined(notes):
                self._builder.add(BlockKind.PARAGRAPH, f"Notes: {text}", self._anchor)

    def _list(self, listing: Any, depth: int) -> None:
        for item in listing if depth < _MAX_DEPTH else ():
            marker = "  " * min(depth, 11) + "- "
            for part in item:
                if local(part) == "list":
                    self._list(part, depth + 1)
                elif local(part) == "h":
                    level = attribute(part, "outline-level")
                    self._builder.heading(text_of(part), int(level) if level.isdigit() else 1, self._anchor)
                elif text := one_line(text_of(part)):
                    self._builder.add(BlockKind.LIST, marker + text, self._anchor)
                    marker = " " * len(marker)

    def _table(self, table: Any) -> None:
        rows = [
            [_joined(cell) for cell in row for _ in range(_repeats(cell, "columns"))] for row in _rows(table)
        ]
        rows = [row for row in rows if any(row)]
        n_marked = sum(1 for header in descendants(table, "table-header-rows") for _ in header)
        n_header = n_marked or (1 if has_header(rows) else 0)
        add_table(
            self._builder,
            [Row(tuple(row), self._anchor) for row in rows],
            n_header if n_header < len(rows) else 0,
        )


def text_of(element: Any) -> str:
    """Return the text of a paragraph; notes and comments inside are left out."""
    parts = [element.text or ""]
    for part in element:
        name = local(part)
        if name in _MARKS:
            count = attribute(part, "c")
            parts.append(_MARKS[name] * (min(int(count), 100) if count.isdigit() else 1))
        elif name not in _LEFT_OUT:
            parts.append(text_of(part))
        parts.append(part.tail or "")
    return "".join(parts)


def _joined(element: Any) -> str:
    return one_line(" ".join(text_of(p) for p in descendants(element, "p", "h")))


def _rows(table: Any) -> Iterator[Any]:
    for part in table:
        if local(part) == "table-row":
            yield part
        elif local(part) in ("table-header-rows", "table-rows", "table-row-group"):
            yield from _rows(part)


def _sheet_rows(table: Any) -> Iterator[SheetRow]:
    number = 0
    for row in _rows(table):
        cells: dict[int, str] = {}
        column = 0
        for cell in row:
            n = _repeats(cell, "columns")
            if text := _joined(cell):
                cells |= {column + i: text for i in range(min(n, _MAX_REPEATS))}
            column += n
        n_rows = _repeats(row, "rows")
        for i in range(min(n_rows, _MAX_REPEATS) if cells else 0):
            yield SheetRow(number + i + 1, cells)
        number += n_rows


def _repeats(element: Any, what: str) -> int:
    count = attribute(element, f"number-{what}-repeated")
    return min(int(count), 2_000_000) if count.isdigit() and count != "0" else 1


def _finish(archive: Archive, builder: BodyBuilder) -> ParsedBody:
    root = archive.xml_or_none("meta.xml")
    found = {local(e): (e.text or "").strip() for e in descendants(root, "*")} if root is not None else {}
    return builder.finish(
        title=found.get("title", ""),
        author=found.get("creator", "") or found.get("initial-creator", ""),
        language=found.get("language", "")[:2].lower(),
        created_at=parse_date(found.get("creation-date", "")),
        updated_at=parse_date(found.get("date", "")),
        meta={name: found[name] for name in ("subject", "keyword", "description") if found.get(name)},
    )
