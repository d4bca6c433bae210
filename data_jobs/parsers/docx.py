"""Word documents (.docx, .docm; strict too): headings, numbered lists, tables row by row, notes, comments, text boxes.

Deleted text and field codes are left out, inserted text is kept. Word files have no pages until they are laid out, so
blocks carry no anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cortex.documents import BlockKind, ParsedBody
from data_jobs.parsers.archive import Archive, attribute, child, descendants, local
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.docx_math import math_text
from data_jobs.parsers.docx_styles import Numbering, Styles
from data_jobs.parsers.ooxml import Package, comment_text, drawing_texts
from data_jobs.parsers.ooxml_charts import add_charts
from data_jobs.parsers.tables import Row, add_table, has_header

# Wrappers around blocks or runs whose content counts as if they were not there.
_TRANSPARENT = frozenset(
    {"sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag", "hyperlink", "AlternateContent", "Choice", "fldSimple",
     "dir", "bdo", "body", "altChunk", "p", "r"}
)  # fmt: skip
_MAX_SPAN = 100
_CHECKBOXES = str.maketrans({"☒": "[x]", "☑": "[x]", "☐": "[ ]"})


def parse_docx(archive: Archive, name: str) -> ParsedBody:
    """Parse a word processing package."""
    package = Package(archive)
    return _Reader(package).read()


class _Reader:
    def __init__(self, package: Package) -> None:
        self._package = package
        self._main = package.main_part
        self._builder = BodyBuilder()
        self._styles = Styles(next(iter(package.related(self._main, "styles")), None))
        self._numbering = Numbering(next(iter(package.related(self._main, "numbering")), None))
        self._title = ""

    def read(self) -> ParsedBody:
        """Read the body, then what hangs on it: notes, comments; headers and footers go to the metadata."""
        root = self._package.archive.xml(self._main)
        body = child(root, "body")
        self._blocks(body if body is not None else ())
        add_charts(self._builder, self._package, self._main)
        self._notes("footnotes", "footnote", "Footnotes")
        self._notes("endnotes", "endnote", "Endnotes")
        self._comments()
        meta = {kind: text for kind in ("header", "footer") if (text := self._margins(kind))}
        return self._package.finish(self._builder, self._title, meta)

    def _blocks(self, elements: Iterable[Any]) -> None:
        for element in elements:
            name = local(element)
            if name == "p":
                self._paragraph(element)
            elif name == "tbl":
                self._table(element)
            elif name in _TRANSPARENT:
                self._blocks(element)

    def _paragraph(self, paragraph: Any) -> None:
        style = self._styles.of(paragraph)
        text = paragraph_text(paragraph)
        marker = self._numbering.marker(paragraph, style) if text.strip() else ""
        if style.heading_level:
            self._title = self._title or (text if style.is_title else "")
            self._builder.heading(
                f"{marker.strip()} {text}" if _is_numbered(marker) else text, style.heading_level
            )
        elif marker:
            self._builder.add(BlockKind.LIST, marker + " ".join(text.split()))
        else:
            self._builder.add(BlockKind.CODE if style.is_code else BlockKind.PARAGRAPH, text)
        for box in _text_boxes(paragraph):
            self._blocks(box)
        for graphic in descendants(paragraph, "graphicData"):
            self._shapes(graphic)

    def _shapes(self, graphic: Any) -> None:
        """Add the texts of drawn shapes and diagrams that are DrawingML, not Word paragraphs."""
        for text in drawing_texts(graphic) if next(descendants(graphic, "txbxContent"), None) is None else ():
            self._builder.add(BlockKind.PARAGRAPH, text)

    def _table(self, table: Any) -> None:
        rows = list(_rows(table))
        if (len(rows) == 1 and len(rows[0]) == 1) or all(len(row) <= 1 for row in rows):
            for cell in (cell for row in rows for cell in row):  # a frame around ordinary blocks
                self._blocks(cell)
            return
        grid = _grid(rows)
        add_table(self._builder, [Row(tuple(cells)) for cells in grid], _header_rows(table, grid))

    def _notes(self, kind: str, tag: str, title: str) -> None:
        notes = []
        for root in self._package.related(self._main, kind):
            for note in root:
                is_mark = attribute(note, "type") in (
                    "separator",
                    "continuationSeparator",
                    "continuationNotice",
                )
                text = _joined(note)
                if local(note) == tag and text and not is_mark:
                    notes.append(f"[{attribute(note, 'id')}] {text}")
        if notes:
            self._builder.heading(title, 1)
            for text in notes:
                self._builder.add(BlockKind.LIST, text)

    def _comments(self) -> None:
        found = [
            (attribute(comment, "author"), attribute(comment, "date"), _joined(comment))
            for root in self._package.related(self._main, "comments")
            for comment in root
        ]
        if any(text for _, _, text in found):
            self._builder.heading("Comments", 1)
        for author, date, text in found:
            if text:
                self._builder.add(BlockKind.TURN, comment_text(author, date, text), speaker=author)

    def _margins(self, kind: str) -> str:
        texts = (_joined(root) for root in self._package.related(self._main, kind))
        return " · ".join(dict.fromkeys(filter(None, texts)))[:500]


def paragraph_text(paragraph: Any) -> str:
    """Return what a reader sees of a paragraph, its text boxes left out."""
    parts: list[str] = []
    _collect(paragraph, parts)
    return "".join(parts)


def _collect(element: Any, parts: list[str]) -> None:
    for part in element:
        match local(part):
            case "t":
                parts.append((part.text or "").translate(_CHECKBOXES))
            case "tab" | "ptab":
                parts.append("\t")
            case "br" | "cr":
                parts.append("\n")
            case "noBreakHyphen":
                parts.append("-")
            case "footnoteReference" | "endnoteReference":
                parts.append(f"[{attribute(part, 'id')}]")
            case "oMath" | "oMathPara":
                parts.append(math_text(part))
            case "ruby":
                base = child(part, "rubyBase")
                _collect(base if base is not None else (), parts)
            case name if name in _TRANSPARENT:
                _collect(part, parts)


def _text_boxes(paragraph: Any) -> Iterator[Any]:
    """Yield the contents of text boxes drawn at a paragraph; the fallback copies for old programs are left out."""
    for box in descendants(paragraph, "txbxContent"):
        ancestors = [local(up) for up in box.iterancestors()]
        depth = ancestors.index("p") if "p" in ancestors else 0
        if "Fallback" not in ancestors and "txbxContent" not in ancestors[:depth]:
            yield box


def _rows(table: Any) -> Iterator[list[Any]]:
    for element in table:
        name = local(element)
        if name == "tr":
            yield list(_cells(element))
        elif name in _TRANSPARENT:
            yield from _rows(element)


def _cells(row: Any) -> Iterator[Any]:
    for element in row:
        if local(element) == "tc":
            yield element
        elif local(element) in _TRANSPARENT:
            yield from _cells(element)


def _grid(rows: list[list[Any]]) -> list[list[str]]:
    """Lay cells out by column: a wide cell stands in its first column, a tall one in each of its rows."""
    grid: list[list[str]] = []
    for row in rows:
        cells: list[str] = []
        for cell in row:
            merge = child(cell, "tcPr", "vMerge")
            is_continued = merge is not None and attribute(merge, "val") != "restart"
            above = grid[-1][len(cells)] if grid and len(cells) < len(grid[-1]) else ""
            cells.append(above if is_continued else _joined(cell))
            span = child(cell, "tcPr", "gridSpan")
            width = attribute(span, "val") if span is not None else "1"
            cells += [""] * (min(int(width), _MAX_SPAN) - 1 if width.isdigit() else 0)
        grid.append(cells)
    return grid


def _header_rows(table: Any, grid: list[list[str]]) -> int:
    marked = 0
    for element in table:
        if local(element) == "tr":
            if child(element, "trPr", "tblHeader") is None:
                break
            marked += 1
    if marked:
        return marked if marked < len(grid) else 0
    return 1 if has_header(grid) else 0


def _joined(element: Any) -> str:
    """Return the paragraphs below an element as one line of text, nested tables and math included."""
    texts = (paragraph_text(p) for p in descendants(element, "p") if local(p.getparent()) != "Fallback")
    return " ".join(" ".join(texts).split())


def _is_numbered(marker: str) -> bool:
    return any(character.isalnum() for character in marker)
