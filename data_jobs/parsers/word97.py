"""Word 97-2003 documents (MS-DOC): text, headings, list items and table rows, then notes and comments.

The text is put together from the piece table; paragraph properties (style, table, list) come from formatted disk
pages. Field codes are left out, their results kept.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from cortex.documents import BlockKind, ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.compound import CompoundFile
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.ole_properties import finish_with_properties
from data_jobs.parsers.tables import Row, add_table, has_header
from data_jobs.parsers.word97_tables import Paragraph, Paragraphs, Pieces, Styles

_WORD_97 = 0x00C1
_ENCRYPTED = 0x0100
# Where the file information block keeps its text lengths (MS-DOC 2.5.4): body, notes, headers, comments, end notes.
_BODY, _FOOTNOTES, _HEADERS, _COMMENTS, _ENDNOTES = 0x4C, 0x50, 0x54, 0x5C, 0x60
_MARKS = re.compile("[\r\x07\x0c\x13\x14\x15]")
_FIELD_START, _FIELD_RESULT, _FIELD_END, _CELL_END = "\x13", "\x14", "\x15", "\x07"
_SPECIAL = str.maketrans({"\x0b": "\n", "\x1e": "-", "\x1f": None, "\xa0": " "})


def parse_word97(compound: CompoundFile) -> ParsedBody:
    """Parse a binary Word document."""
    stream = compound.read("WordDocument")
    try:
        version, flags = struct.unpack_from("<2xH6xH", stream)
        if flags & _ENCRYPTED:
            raise unparsable(FailureCode.ENCRYPTED, "it is protected by a password", "remove the password")
        if version < _WORD_97:
            raise unparsable(FailureCode.UNSUPPORTED, "it is older than Word 97", "convert it to .docx")
        builder = BodyBuilder()
        _Reader(stream, compound, flags, builder).read()
    except (struct.error, IndexError) as error:
        raise unparsable(FailureCode.CORRUPT, "its tables are damaged", "convert it to .docx") from error
    return finish_with_properties(compound, builder)


class _Reader:
    def __init__(self, stream: bytes, compound: CompoundFile, flags: int, builder: BodyBuilder) -> None:
        table = compound.read("1Table" if flags & 0x0200 else "0Table")
        self._stream = stream
        self._pieces = Pieces(stream, table)
        self._paragraphs = Paragraphs(stream, table, Styles(stream, table))
        self._builder = builder
        self._rows: list[Row] = []
        self._cells: list[str] = []
        self._cell: list[str] = []

    def read(self) -> None:
        """Add the body, then notes and comments under headings of their own; headers and footers are left out."""
        body, notes, headers, comments, end_notes = (
            struct.unpack_from("<I", self._stream, at)[0]
            for at in (_BODY, _FOOTNOTES, _HEADERS, _COMMENTS, _ENDNOTES)
        )
        self._add(0, body)
        after = body + notes + headers
        for title, start, length in (
            ("Footnotes", body, notes),
            ("Comments", after, comments),
            ("Endnotes", after + comments, end_notes),
        ):
            texts = [text for text, _, _ in self._split(start, start + length) if text.strip()]
            if texts:
                self._builder.heading(title, 1)
            for text in texts:
                self._builder.add(BlockKind.LIST, text.strip())

    def _add(self, start: int, end: int) -> None:
        for text, mark, paragraph in self._split(start, end):
            if paragraph.ends_row:
                self._rows.append(Row(tuple(self._cells)))
                self._cells = []
            elif mark == _CELL_END:
                self._cells.append(" ".join([*self._cell, text]).strip())
                self._cell = []
            elif paragraph.in_table:
                self._cell.append(text)
            else:
                self._end_table()
                self._add_paragraph(text, paragraph)
        self._end_table()

    def _add_paragraph(self, text: str, paragraph: Paragraph) -> None:
        if paragraph.heading_level:
            self._builder.heading(text, paragraph.heading_level)
        elif paragraph.is_listed and text.strip():
            self._builder.add(BlockKind.LIST, f"- {text.strip()}")
        else:
            self._builder.add(BlockKind.PARAGRAPH, text)

    def _end_table(self) -> None:
        if self._cells or self._cell:  # a table cut off
            self._rows.append(Row((*self._cells, " ".join(self._cell))))
        if self._rows:
            add_table(self._builder, self._rows, 1 if has_header([row.cells for row in self._rows]) else 0)
        self._rows, self._cells, self._cell = [], [], []

    def _split(self, start: int, end: int) -> Iterator[tuple[str, str, Paragraph]]:
        """Yield (text, mark that ends it, properties) of each paragraph between two character positions."""
        text = self._pieces.text(start, end)
        parts: list[str] = []
        codes: list[bool] = []  # of each open field: are we in its code?
        at = 0
        for match in _MARKS.finditer(text):
            if not any(codes):
                parts.append(text[at : match.start()])
            at, mark = match.end(), match.group()
            if mark == _FIELD_START:
                codes.append(True)
            elif mark == _FIELD_RESULT and codes:
                codes[-1] = False
            elif mark == _FIELD_END and codes:
                codes.pop()
            elif mark not in (_FIELD_START, _FIELD_RESULT, _FIELD_END):
                where = self._pieces.file_offset(start + match.start())
                yield "".join(parts).translate(_SPECIAL), mark, self._paragraphs.at(where)
                parts = []
        parts.append("" if any(codes) else text[at:])
        if "".join(parts).strip():
            yield "".join(parts).translate(_SPECIAL), "\r", Paragraph()
