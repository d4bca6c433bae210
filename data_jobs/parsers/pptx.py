"""Presentations (.pptx, .pptm, .ppsx): per slide its title, texts, tables, charts, notes and comments, anchored `slide=n`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cortex.documents import Anchor, BlockKind, ParsedBody
from data_jobs.parsers.archive import Archive, attribute, child, descendants, local
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.ooxml import Package, comment_text, drawing_text, drawing_texts
from data_jobs.parsers.ooxml_charts import add_chart
from data_jobs.parsers.tables import Row, add_table, has_header

_TITLES = frozenset({"title", "ctrTitle"})
# Placeholders that repeat on every slide and say nothing about it.
_FURNITURE = frozenset({"sldNum", "dt", "ftr", "hdr"})
_MAX_GROUP_DEPTH = 30


def parse_pptx(archive: Archive, name: str) -> ParsedBody:
    """Parse a presentation package; slides come in the order they are shown, hidden ones included."""
    package = Package(archive)
    return _Reader(package).read()


class _Reader:
    def __init__(self, package: Package) -> None:
        self._package = package
        self._builder = BodyBuilder()
        self._anchor = Anchor()

    def read(self) -> ParsedBody:
        """Read all slides."""
        hidden = []
        for number, part in enumerate(self._slide_parts(), start=1):
            root = self._package.archive.xml(part)
            self._anchor = Anchor("slide", number, number)
            self._slide(root, part, number)
            if attribute(root, "show") in ("0", "false"):
                hidden.append(str(number))
        return self._package.finish(
            self._builder, meta={"hidden_slides": ", ".join(hidden)} if hidden else {}
        )

    def _slide_parts(self) -> list[str]:
        main = self._package.main_part
        targets = {relation.relation_id: relation.target for relation in self._package.relations(main)}
        listed = child(self._package.archive.xml(main), "sldIdLst")
        ids = [_relation_id(slide) for slide in (listed if listed is not None else ())]
        return [targets[i] for i in ids if i in targets and targets[i] in self._package.archive]

    def _slide(self, root: Any, part: str, number: int) -> None:
        tree = child(root, "cSld", "spTree")
        shapes = list(_shapes(tree if tree is not None else (), 0))
        title = next((" ".join(_lines(shape)) for shape in shapes if _placeholder(shape) in _TITLES), "")
        self._builder.heading(title.strip() or f"Slide {number}", 1, self._anchor)
        for shape in shapes:
            if _placeholder(shape) not in _TITLES | _FURNITURE:
                self._shape(shape, part)
        self._notes(part)
        self._comments(part)

    def _shape(self, shape: Any, part: str) -> None:
        body = child(shape, "txBody")
        if body is not None:
            self._texts(body, is_list=_placeholder(shape) in ("", "body", "obj") and len(_lines(shape)) > 1)
            return
        table = next(descendants(shape, "tbl"), None)
        if table is not None:
            self._table(table)
        elif local(shape) == "graphicFrame":
            self._related_drawing(shape, part)

    def _texts(self, body: Any, is_list: bool) -> None:
        for paragraph in descendants(body, "p"):
            text = " ".join(drawing_text(paragraph).split(" "))
            level = attribute(child(paragraph, "pPr"), "lvl") if child(paragraph, "pPr") is not None else ""
            if is_list and text.strip():
                indent = "  " * (int(level) if level in set("123456789") else 0)
                self._builder.add(BlockKind.LIST, f"{indent}- {' '.join(text.split())}", self._anchor)
            else:
                self._builder.add(BlockKind.PARAGRAPH, text, self._anchor)

    def _table(self, table: Any) -> None:
        rows: list[list[str]] = []
        for row in (e for e in table if local(e) == "tr"):
            cells = []
            for column, cell in enumerate(e for e in row if local(e) == "tc"):
                is_below = attribute(cell, "vMerge") in ("1", "true") and rows and column < len(rows[-1])
                cells.append(rows[-1][column] if is_below else " ".join(drawing_texts(cell)))
            rows.append(cells)
        properties = child(table, "tblPr")
        is_marked = properties is not None and attribute(properties, "firstRow") in ("1", "true")
        n_header = 1 if len(rows) > 1 and (is_marked or has_header(rows)) else 0
        add_table(self._builder, [Row(tuple(cells), self._anchor) for cells in rows], n_header)

    def _related_drawing(self, frame: Any, part: str) -> None:
        """Add the texts of a chart or a diagram, which live in parts of their own."""
        used = {
            value for element in frame.iter() for key, value in element.attrib.items() if _is_relation(key)
        }
        for relation in self._package.relations(part):
            if relation.relation_id not in used or relation.target not in self._package.archive:
                continue
            if relation.kind == "chart":
                add_chart(self._builder, self._package.archive.xml(relation.target), self._anchor)
            elif relation.kind == "diagramData":
                for text in drawing_texts(self._package.archive.xml(relation.target)):
                    self._builder.add(BlockKind.LIST, f"- {text}", self._anchor)

    def _notes(self, part: str) -> None:
        for root in self._package.related(part, "notesSlide"):
            tree = child(root, "cSld", "spTree")
            for shape in _shapes(tree if tree is not None else (), 0):
                if _placeholder(shape) == "body" and (text := "\n".join(_lines(shape))):
                    self._builder.add(BlockKind.PARAGRAPH, f"Notes: {text}", self._anchor)

    def _comments(self, part: str) -> None:
        authors = {
            attribute(author, "id"): attribute(author, "name")
            for root in (
                *self._package.related(self._package.main_part, "commentAuthors"),
                *self._package.related(self._package.main_part, "authors"),
            )
            for author in root
        }
        for root in self._package.related(part, "comments"):
            for comment in descendants(root, "cm"):
                author = authors.get(attribute(comment, "authorId"), "")
                plain = child(comment, "text")
                text = (plain.text or "") if plain is not None else " ".join(drawing_texts(comment))
                if text.strip():
                    date = attribute(comment, "dt") or attribute(comment, "created")
                    line = comment_text(author, date, text)
                    self._builder.add(BlockKind.TURN, line, self._anchor, speaker=author)


def _shapes(tree: Iterable[Any], depth: int) -> Iterator[Any]:
    """Yield shapes in drawing order, groups opened."""
    for element in tree:
        name = local(element)
        if name in ("sp", "graphicFrame", "cxnSp", "pic"):
            yield element
        elif name in ("grpSp", "AlternateContent", "Choice") and depth < _MAX_GROUP_DEPTH:
            yield from _shapes(element, depth + 1)


def _placeholder(shape: Any) -> str:
    """Return the type of placeholder a shape fills: empty for free shapes, `obj` for untyped ones."""
    for properties in (e for e in shape if local(e).startswith("nv")):
        mark = child(properties, "nvPr", "ph")
        if mark is not None:
            return attribute(mark, "type") or "obj"
    return ""


def _lines(shape: Any) -> list[str]:
    body = child(shape, "txBody")
    return drawing_texts(body) if body is not None else []


def _relation_id(element: Any) -> str:
    return next((str(value) for key, value in element.attrib.items() if _is_relation(key)), "")


def _is_relation(key: str) -> bool:
    return "/relationships}" in key
