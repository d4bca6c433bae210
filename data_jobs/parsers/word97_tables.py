"""The tables of a binary Word file: pieces of text (MS-DOC 2.9.177), paragraph properties (2.9.174) and styles (2.9.271)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

# Positions of (offset, length) pairs in the file information block.
_STYLES, _PARAGRAPHS, _PIECES = 0x00A2, 0x0102, 0x01A2
_PAGE_BYTES = 512
_IN_TABLE, _ENDS_ROW, _OUTLINE_LEVEL, _LIST = 0x2416, 0x2417, 0x2640, 0x460B
_OPERAND_BYTES = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}  # by the top three bits of a property code
_LONG_OPERAND = 0xD608
_MAX_BASED_ON = 20
_NO_STYLE = 0x0FFF


@dataclass(frozen=True, slots=True)
class Paragraph:
    """What the file says about one paragraph."""

    heading_level: int = 0
    in_table: bool = False
    ends_row: bool = False
    is_listed: bool = False


class Pieces:
    """The text of a document, stored in pieces of one- or two-byte characters all over the stream."""

    def __init__(self, stream: bytes, table: bytes) -> None:
        self._stream = stream
        self._starts: list[int] = []
        self._pieces: list[
            tuple[int, int, int, int]
        ] = []  # first and last character, offset, bytes per character
        clx = _part(stream, table, _PIECES)
        at = 0
        while clx[at] == 1:  # property modifications come first
            at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
        (length,) = struct.unpack_from("<I", clx, at + 1)
        plc = clx[at + 5 : at + 5 + length]
        n = (len(plc) - 4) // 12
        positions = struct.unpack_from(f"<{n + 1}I", plc)
        for i in range(n):
            (where,) = struct.unpack_from("<I", plc, 4 * (n + 1) + 8 * i + 2)
            is_narrow = bool(where & 0x40000000)
            offset = (where & 0x3FFFFFFF) // 2 if is_narrow else where & 0x3FFFFFFF
            if positions[i] < positions[i + 1]:
                self._starts.append(positions[i])
                self._pieces.append((positions[i], positions[i + 1], offset, 1 if is_narrow else 2))

    def text(self, start: int, end: int) -> str:
        """Return the characters of a half-open range of positions."""
        parts = []
        for first, last, offset, width in self._pieces:
            begin, stop = max(first, start), min(last, end)
            if begin < stop:
                raw = self._stream[offset + (begin - first) * width : offset + (stop - first) * width]
                parts.append(raw.decode("cp1252" if width == 1 else "utf-16-le", errors="replace"))
        return "".join(parts)

    def file_offset(self, position: int) -> int:
        """Say where in the stream the character at a position is stored."""
        first, _, offset, width = self._pieces[max(bisect_right(self._starts, position) - 1, 0)]
        return offset + (position - first) * width


class Styles:
    """Which styles are headings: the built-in ones have the numbers 1 to 9, others may be based on them."""

    def __init__(self, stream: bytes, table: bytes) -> None:
        sheet = _part(stream, table, _STYLES)
        self._bases: list[int] = []
        if len(sheet) < 4:
            return
        header, count = struct.unpack_from("<HH", sheet)
        at = header + 2
        for _ in range(count):
            if at + 2 > len(sheet):
                break
            (length,) = struct.unpack_from("<H", sheet, at)
            based_on = struct.unpack_from("<H", sheet, at + 4)[0] >> 4 if length >= 4 else _NO_STYLE
            self._bases.append(based_on)
            at += 2 + length + length % 2

    def heading_level(self, style: int) -> int:
        """Follow a style to the built-in heading it is based on; 0 if it is none."""
        for _ in range(_MAX_BASED_ON):
            if 1 <= style <= 9:
                return style
            if style >= len(self._bases):
                break
            style = self._bases[style]
        return 0


class Paragraphs:
    """Paragraph properties by the stream offset at which a paragraph ends."""

    def __init__(self, stream: bytes, table: bytes, styles: Styles) -> None:
        self._styles = styles
        found = sorted(self._read(stream, _part(stream, table, _PARAGRAPHS)), key=lambda run: run[0])
        self._starts = [start for start, _, _ in found]
        self._runs = found

    def at(self, offset: int) -> Paragraph:
        """Return the properties of the paragraph stored at an offset."""
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or offset >= self._runs[index][1]:
            return Paragraph()
        return self._runs[index][2]

    def _read(self, stream: bytes, plc: bytes) -> Iterator[tuple[int, int, Paragraph]]:
        n_pages = max((len(plc) - 4) // 8, 0)
        for number in struct.unpack_from(f"<{n_pages}I", plc, 4 * (n_pages + 1)) if n_pages else ():
            page = stream[(number & 0x3FFFFF) * _PAGE_BYTES :][:_PAGE_BYTES]
            if len(page) == _PAGE_BYTES:
                yield from self._read_page(page)

    def _read_page(self, page: bytes) -> Iterator[tuple[int, int, Paragraph]]:
        n = min(page[511], 29)  # no more fit on a page
        offsets = struct.unpack_from(f"<{n + 1}I", page)
        for i in range(n):
            at = page[4 * (n + 1) + 13 * i] * 2
            if at == 0 or at > 508:
                yield offsets[i], offsets[i + 1], Paragraph()
                continue
            # The length counts words: in its own byte less one half, or after a zero byte.
            size, at = (2 * page[at] - 1, at + 1) if page[at] else (2 * page[at + 1], at + 2)
            yield offsets[i], offsets[i + 1], self._paragraph(page[at : at + size])

    def _paragraph(self, properties: bytes) -> Paragraph:
        if len(properties) < 2:
            return Paragraph()
        (style,) = struct.unpack_from("<H", properties)
        found = dict(_modifiers(properties, 2))
        level = self._styles.heading_level(style)
        if not level and found.get(_OUTLINE_LEVEL, 9) < 9:
            level = found[_OUTLINE_LEVEL] + 1
        in_table, ends_row = bool(found.get(_IN_TABLE)), bool(found.get(_ENDS_ROW))
        return Paragraph(level, in_table, ends_row, bool(found.get(_LIST)))


def _modifiers(properties: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield (code, first byte or word of the operand) of each single property modifier."""
    while at + 3 <= len(properties):
        (code,) = struct.unpack_from("<H", properties, at)
        at += 2
        size = _OPERAND_BYTES.get(code >> 13)
        if size is None:
            size = 1 + (
                struct.unpack_from("<H", properties, at)[0] if code == _LONG_OPERAND else properties[at]
            )
        yield code, int.from_bytes(properties[at : at + min(size, 2)], "little")
        at += size


def _part(stream: bytes, table: bytes, at: int) -> bytes:
    offset, length = struct.unpack_from("<II", stream, at)
    return table[offset : offset + length]
