"""Write text as a PDF (ISO 32000-1): A4 pages, Helvetica, headings, page numbers and an outline; same text, same bytes."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

_WIDTH, _HEIGHT = 595, 842  # A4 in points
_LEFT, _TOP, _BOTTOM = 64, 772, 76
_STYLES = {  # level: font, size, leading, space before, characters a line
    0: ("F1", 10.5, 15, 7, 90),
    1: ("F2", 17, 22, 0, 50),
    2: ("F2", 12.5, 17, 16, 70),
}


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    level: int
    y: float


def write_pdf(markdown: str, footer: str) -> bytes:
    """Lay out `#` and `##` headings and paragraphs; the footer stands beside the page number."""
    pages = _layout(markdown)
    title = next(line.text for line in pages[0] if line.level == 1)
    headings = [(line, number) for number, page in enumerate(pages) for line in page if line.level == 2]
    first_page, first_item = 6, 6 + 2 * len(pages)
    kids = " ".join(f"{first_page + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 5 0 R /PageMode /UseOutlines >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
        f"<< /Type /Outlines /First {first_item} 0 R /Last {first_item + len(headings) - 1} 0 R "
        f"/Count {len(headings)} >>".encode(),
    ]
    for number, page in enumerate(pages):
        objects += _page(page, f"{footer}   {number + 1} / {len(pages)}", first_page + 2 * number + 1)
    for index, (line, number) in enumerate(headings):
        objects.append(
            _outline_item(line, first_page + 2 * number, first_item + index, first_item, len(headings))
        )
    objects.append(b"<< /Title " + _string(title) + b" /Author " + _string("Tarnvik Instruments AS") + b" >>")
    return _file(objects)


def _layout(markdown: str) -> list[list[_Line]]:
    pages: list[list[_Line]] = [[]]
    y = float(_TOP)
    for paragraph in markdown.split("\n\n"):
        text = " ".join(paragraph.split())
        level = len(text) - len(text.lstrip("#"))
        _, _, leading, before, width = _STYLES[level]
        lines = textwrap.wrap(text.lstrip("# "), width)
        if y - before - leading * (len(lines) + 2 * level) < _BOTTOM:  # a heading stays with what follows
            pages.append([])
            y = float(_TOP)
        y -= before
        for line in lines:
            y -= leading
            pages[-1].append(_Line(line, level, y))
    return pages


def _page(lines: list[_Line], footer: str, content_id: int) -> list[bytes]:
    shown = [b"BT"]
    for line in [*lines, _Line(footer, 0, 44)]:
        font, size = _STYLES[line.level][:2]
        shown.append(
            f"/{font} {size} Tf 1 0 0 1 {_LEFT} {line.y:g} Tm ".encode() + _string(line.text) + b" Tj"
        )
    stream = b"\n".join([*shown, b"ET"])
    return [
        f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {_WIDTH} {_HEIGHT}] /Contents {content_id} 0 R "
        "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>".encode(),
        f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream",
    ]


def _outline_item(line: _Line, page_id: int, own_id: int, first_id: int, count: int) -> bytes:
    links = f"/Prev {own_id - 1} 0 R " if own_id > first_id else ""
    links += f"/Next {own_id + 1} 0 R " if own_id < first_id + count - 1 else ""
    target = f"/Parent 5 0 R {links}/Dest [{page_id} 0 R /XYZ 0 {line.y + 20:g} 0]"
    return b"<< /Title " + _string(line.text) + b" " + target.encode() + b" >>"


def _string(text: str) -> bytes:
    encoded = text.encode("cp1252")
    for special in (b"\\", b"(", b")"):
        encoded = encoded.replace(special, b"\\" + special)
    return b"(" + encoded + b")"


def _file(objects: list[bytes]) -> bytes:
    """Number the objects from 1, and write the cross-reference table; the last object is the information dictionary."""
    content = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(content))
        content += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n"
    table += "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n"
    return content + (table + trailer + f"startxref\n{len(content)}\n%%EOF\n").encode()
