"""PDF: the text of each page in the order it is drawn, rebuilt into paragraphs, lists and headings, anchored `page=n`.

Pages are read with PDFium. A page without text (a scan) is counted in `meta["pages_without_text"]`; a document of
such pages only is a failure that says so.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from cortex.documents import ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.dates import as_utc
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.pdf_layout import Line, Outline, Page, add_pages
from data_jobs.parsers.pdf_text import repair

_DATE = re.compile(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?(?:([+-])(\d{2})'?(\d{2})?)?")
# Titles that programs invent.
_NO_TITLE = re.compile(
    r"untitled|microsoft word|powerpoint|\.(docx?|pptx?|xlsx?|indd|tex|dvi|qxd|pdf)$|^\W*$", re.I
)
# The last are the bold cuts of Computer Modern and of the free Times.
_BOLD = re.compile(rb"bold|black|heavy|demi|semib|bx\d|-medi\b", re.IGNORECASE)
_MAX_OUTLINE = 5_000


def parse_pdf(content: bytes, name: str) -> ParsedBody:
    """Parse a PDF; raises Unparsable if it is encrypted, broken or without any text."""
    document = _open(content)
    try:
        pages = list(_pages(document))
        blank = [page.number for page in pages if not page.lines]
        if len(blank) == len(pages):
            reason = f"none of its {len(pages)} pages has text; they may be scans"
            raise unparsable(FailureCode.NO_TEXT, reason, "run OCR first: pictures are not read yet")
        builder = BodyBuilder()
        found_title = add_pages(builder, pages, _outline(document))
        return _finish(document, builder, found_title, blank)
    finally:
        document.close()


def _open(content: bytes) -> pypdfium2.PdfDocument:
    try:
        document = pypdfium2.PdfDocument(content)
        if len(document) > 0:
            return document
    except pypdfium2.PdfiumError as error:
        if error.err_code == pdfium.FPDF_ERR_PASSWORD:
            reason = "it is protected by a password"
            raise unparsable(FailureCode.ENCRYPTED, reason, "remove the password") from error
        raise unparsable(FailureCode.CORRUPT, "it is not a readable PDF") from error
    raise unparsable(FailureCode.CORRUPT, "it has no pages")


def _pages(document: pypdfium2.PdfDocument) -> Iterator[Page]:
    for index in range(len(document)):
        page = pdfium.FPDF_LoadPage(document, index)
        if not page:
            yield Page(index + 1, 0.0, ())
            continue
        text_page = pdfium.FPDFText_LoadPage(page)
        try:
            height = float(pdfium.FPDF_GetPageHeightF(page))
            yield Page(index + 1, height, tuple(_lines(text_page)) if text_page else ())
        finally:
            if text_page:
                pdfium.FPDFText_ClosePage(text_page)
            pdfium.FPDF_ClosePage(page)


def _lines(text_page: Any) -> Iterator[Line]:
    """Yield the lines of a page, each with its box, size and weight; three characters of each are measured."""
    n_chars = pdfium.FPDFText_CountChars(text_page)
    if n_chars <= 0:
        return
    buffer = ctypes.create_string_buffer((n_chars + 1) * 2)
    n_units = pdfium.FPDFText_GetText(
        text_page, 0, n_chars, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort))
    )
    text = buffer.raw[: max(n_units - 1, 0) * 2].decode("utf-16-le", errors="replace")
    box = _Boxes(text_page)
    at = 0
    for raw in text.split("\r\n"):
        n = len(raw) if raw.isascii() else len(raw.encode("utf-16-le")) // 2
        stripped = raw.strip()
        if stripped:
            first = at + raw.index(stripped[0])
            last = at + n - 1 - (len(raw) - len(raw.rstrip()))
            # Spaces are often made up by the reader and have no box of their own.
            half = (len(stripped) - 1) // 2
            middle = first + half + (1 if stripped[half].isspace() else 0)
            yield box.line(repair(stripped, first, box), (first, middle, last), raw[-1].isspace())
        at += n + 2


class _Boxes:
    """Reads the boxes of single characters of one page, by their index in the page's text."""

    def __init__(self, text_page: Any) -> None:
        self._page = text_page
        self._box = pdfium.FS_RECTF()
        self._font = ctypes.create_string_buffer(100)
        self._flags = ctypes.c_int()

    def line(self, text: str, at: tuple[int, int, int], ends_in_space: bool) -> Line:
        """Measure a line by its first, middle and last character."""
        first, middle, last = (self._char(index) for index in at)
        left, _, right, _ = self._measure(first)
        other_left, _, other_right, _ = self._measure(last)
        _, bottom, _, top = self._measure(middle)
        if top <= bottom:
            _, bottom, _, top = self._measure(first)
        is_bold = self._is_bold(first) and self._is_bold(last)
        return Line(text, min(left, other_left), bottom, max(right, other_right), top, is_bold, ends_in_space)

    def origin(self, index: int) -> tuple[float, float]:
        """Return where a character is drawn."""
        x, y = ctypes.c_double(), ctypes.c_double()
        pdfium.FPDFText_GetCharOrigin(self._page, self._char(index), x, y)
        return round(x.value, 2), round(y.value, 2)

    def _char(self, index: int) -> int:
        return int(pdfium.FPDFText_GetCharIndexFromTextIndex(self._page, index))

    def _measure(self, char: int) -> tuple[float, float, float, float]:
        box = self._box
        if not pdfium.FPDFText_GetLooseCharBox(self._page, char, box):
            return 0.0, 0.0, 0.0, 0.0
        return box.left, box.bottom, box.right, box.top

    def _is_bold(self, char: int) -> bool:
        n = pdfium.FPDFText_GetFontInfo(self._page, char, self._font, len(self._font), self._flags)
        return 0 < n <= len(self._font) and _BOLD.search(self._font.raw, 0, n) is not None


def _outline(document: pypdfium2.PdfDocument) -> Outline:
    """Map (page number, title) to the depth of the bookmarks."""
    outline: Outline = {}
    try:
        for n, item in enumerate(document.get_toc(max_depth=6)):
            target = item.get_dest()
            page = target.get_index() if target is not None else None
            if page is not None:
                outline[(page + 1, " ".join(item.get_title().lower().split()))] = item.level + 1
            if n >= _MAX_OUTLINE:
                break
    except (pypdfium2.PdfiumError, ValueError):
        return outline  # bookmarks only help
    return outline


def _finish(
    document: pypdfium2.PdfDocument, builder: BodyBuilder, found_title: str, blank: list[int]
) -> ParsedBody:
    info = _info(document)
    given = info.get("Title", "")
    meta = {key.lower(): info[key] for key in ("Subject", "Keywords") if info.get(key)}
    meta["pages"] = str(len(document))
    if blank:
        meta["pages_without_text"] = ", ".join(map(str, blank[:100]))
    return builder.finish(
        title=found_title if _NO_TITLE.search(given) else given,
        author=info.get("Author", ""),
        created_at=_date(info.get("CreationDate", "")),
        updated_at=_date(info.get("ModDate", "")),
        meta=meta,
    )


def _info(document: pypdfium2.PdfDocument) -> dict[str, str]:
    info = {}
    for key in ("Title", "Author", "Subject", "Keywords", "CreationDate", "ModDate"):
        try:
            info[key] = document.get_metadata_value(key)
        except UnicodeDecodeError:
            continue  # damaged metadata costs itself only
    return info


def _date(text: str) -> datetime | None:
    """Read a PDF date (ISO 32000-1, 7.9.4)."""
    match = _DATE.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    sign, zone_hours, zone_minutes = match.groups()[6:]
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0))
    try:
        zone = timezone(-offset if sign == "-" else offset) if sign else UTC
        return as_utc(datetime(year, month or 1, day or 1, hour, minute, second, tzinfo=zone))
    except ValueError:
        return None
