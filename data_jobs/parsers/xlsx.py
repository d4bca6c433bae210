"""Workbooks (.xlsx, .xlsm): every sheet row by row with column names, anchored `Sheet!row`; hidden sheets are named.

Sheets are streamed, so that only cells that exist cost anything, whatever dimension a file claims. Values are those
that the file caches; formulas are not computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cortex.documents import Anchor, BlockKind, ParsedBody
from data_jobs.parsers.archive import Archive, attribute, child, descendants, iterate_xml, local
from data_jobs.parsers.body import MAX_BODY_BYTES, BodyBuilder
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.ooxml import Package
from data_jobs.parsers.ooxml_charts import add_charts
from data_jobs.parsers.sheet_rows import SheetRow, add_sheet
from data_jobs.parsers.tables import one_line
from data_jobs.parsers.xlsx_sheets import Merges, cell_position, sheet_notes
from data_jobs.parsers.xlsx_values import CellFormats, cell_text, rich_text

_MAX_COLUMNS = 16_384  # the format's own limit


def parse_xlsx(archive: Archive, name: str) -> ParsedBody:
    """Parse a spreadsheet package."""
    return _Reader(Package(archive)).read()


class _Reader:
    def __init__(self, package: Package) -> None:
        self._package = package
        self._archive = package.archive
        self._builder = BodyBuilder()
        main = self._archive.xml(package.main_part)
        properties = child(main, "workbookPr")
        is_1904 = properties is not None and attribute(properties, "date1904") in ("1", "true")
        styles = next(iter(package.related(package.main_part, "styles")), None)
        self._formats = CellFormats(styles, is_1904)
        self._sheets = list(descendants(main, "sheet"))
        self._strings: list[str] | None = None
        self._n_chars = 0

    def read(self) -> ParsedBody:
        """Read all sheets in tab order."""
        relations = {r.relation_id: r for r in self._package.relations(self._package.main_part)}
        hidden = []
        for sheet in self._sheets:
            key = next((v for k, v in sheet.attrib.items() if k.endswith("}id")), "")
            relation = relations.get(key)
            if relation is None or relation.target not in self._archive:
                continue
            name = attribute(sheet, "name")
            if attribute(sheet, "state") in ("hidden", "veryHidden"):
                hidden.append(name)
            if relation.kind == "worksheet":
                self._sheet(name, relation.target)
            self._charts(name, relation.target)
        return self._package.finish(
            self._builder, meta={"hidden_sheets": ", ".join(hidden)} if hidden else {}
        )

    def _sheet(self, name: str, part: str) -> None:
        content = self._archive.read(part)
        add_sheet(self._builder, name, self._rows(content))
        for note in sheet_notes(self._package, part):
            anchor = Anchor("row", note.row, note.row, name)
            self._builder.add(BlockKind.PARAGRAPH, note.text, anchor, speaker=note.author)

    def _charts(self, name: str, part: str) -> None:
        """Add the charts drawn on a sheet; a chart sheet has nothing else."""
        for relation in self._package.relations(part):
            if relation.kind == "drawing":
                add_charts(self._builder, self._package, relation.target, Anchor("row", 1, 1, name))

    def _rows(self, content: bytes) -> Iterator[SheetRow]:
        merges = Merges(content)
        number = 0
        for row in iterate_xml(content, "row"):
            given = attribute(row, "r")
            number = int(given) if given.isdigit() and len(given) < 8 else number + 1
            cells = dict(self._cells(row))
            spread = merges.fill(number, cells)
            if cells:
                yield SheetRow(number, cells, spread)

    def _cells(self, row: Any) -> Iterator[tuple[int, str]]:
        column = -1
        for cell in row:
            if local(cell) != "c":
                continue
            position = cell_position(cell.get("r") or "")
            column = position[1] if position else column + 1
            if column < _MAX_COLUMNS and (text := cell_text(cell, self._shared, self._formats)):
                self._count(text)
                yield column, text

    def _count(self, text: str) -> None:
        """Stop early at a small file whose many cells all show one huge shared string."""
        self._n_chars += len(text)
        if self._n_chars > MAX_BODY_BYTES:
            raise unparsable(FailureCode.TOO_LARGE, f"its cells hold more than {MAX_BODY_BYTES:,} characters")

    def _shared(self, index: int) -> str:
        if self._strings is None:
            self._strings = self._shared_strings()
        return self._strings[index] if 0 <= index < len(self._strings) else ""

    def _shared_strings(self) -> list[str]:
        targets = [
            r.target for r in self._package.relations(self._package.main_part) if r.kind == "sharedStrings"
        ]
        if not targets or targets[0] not in self._archive:
            return []
        return [one_line(rich_text(item)) for item in iterate_xml(self._archive.read(targets[0]), "si")]
