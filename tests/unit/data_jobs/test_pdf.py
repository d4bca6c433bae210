"""PDF: paragraphs, lists and headings rebuilt from lines; pages, passwords, scans."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.unit.data_jobs.seen import FIXTURES, blocks, code_of, parsed, seen


@dataclass(frozen=True)
class Put:
    """One line of text at a position in points; `bold` uses the second font."""

    x: float
    y: float
    text: str
    size: float = 10
    bold: bool = False


def pdf_file(pages: list[list[Put]], info: str = "", outline: str = "") -> bytes:
    """Write a PDF by hand: Helvetica text on pages of 400 by 600 points."""
    objects = ["", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>",
               f"<< {info} >>"]  # fmt: skip
    kids = []
    for page in pages:
        drawn = "\n".join(
            f"BT /F{2 if put.bold else 1} {put.size} Tf {put.x} {put.y} Td ({put.text}) Tj ET" for put in page
        )
        objects.append(f"<< /Length {len(drawn.encode('cp1252'))} >>\nstream\n{drawn}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 600] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[0] = f"<< /Type /Catalog /Pages 2 0 R {outline} >>"
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer << /Size {len(objects) + 1} /Root 1 0 R "
    return out + f"{end}/Info 5 0 R >>\nstartxref\n{len(out)}\n%%EOF".encode()


def lines(x: float, top: float, *texts: str) -> list[Put]:
    return [Put(x, top - 12 * i, text) for i, text in enumerate(texts)]


PAGE = [
    Put(50, 550, "A large heading", size=18),
    *lines(50, 520, "The first line of a paragraph that goes on to the right edge of its", "column and ends in a hyphen-", "ated word."),
    *lines(50, 470, "Another paragraph after a gap, of which this is the whole first line.", "It ends here."),
    Put(50, 430, "2.1 Bold and numbered", bold=True),
    *lines(60, 410, "\\225 a bullet that is long enough to need a second line, as you", "see here"),
    Put(60, 380, "\\225 another"),
]  # fmt: skip


def test_lines_become_blocks() -> None:
    """Lines are joined, hyphens undone, bullets cut; large or bold short lines are headings."""
    body = parsed(
        pdf_file([PAGE], "/Title (Report) /Author (Ana) /CreationDate (D:20260102030405+01'00')"), "a.pdf"
    )
    assert blocks(body) == [
        ("heading", "A large heading", "page=1"),
        (
            "paragraph",
            "The first line of a paragraph that goes on to the right edge of its column and ends in a hyphenated word.",
            "page=1",
        ),
        (
            "paragraph",
            "Another paragraph after a gap, of which this is the whole first line. It ends here.",
            "page=1",
        ),
        ("heading", "2.1 Bold and numbered", "page=1"),
        ("list", "• a bullet that is long enough to need a second line, as you see here", "page=1"),
        ("list", "• another", "page=1"),
    ]
    assert (body.title, body.author) == ("Report", "Ana")
    assert body.created_at is not None and body.created_at.isoformat() == "2026-01-02T02:04:05+00:00"
    assert body.blocks[-1].heading_path == ("A large heading", "2.1 Bold and numbered")


def test_running_heads_and_page_numbers_appear_once() -> None:
    """A line that stands at the edge of every page is kept on the first; bare page numbers are left out."""
    pages = [
        [Put(50, 585, "ACME handbook"), Put(50, 300, f"Text of page {n}."), Put(190, 15, str(n))]
        for n in range(1, 5)
    ]
    assert seen(pdf_file(pages), "a.pdf") == [
        ("paragraph", "ACME handbook", "page=1"),
        *(("paragraph", f"Text of page {n}.", f"page={n}") for n in range(1, 5)),
    ]


def test_pages_without_text_are_named() -> None:
    """A scan among pages of text is reported, not passed over."""
    body = parsed(pdf_file([[Put(50, 300, "text")], [], [Put(50, 300, "more")]]), "a.pdf")
    assert (body.meta["pages"], body.meta["pages_without_text"]) == ("3", "2")


def test_a_document_of_scans_is_a_failure() -> None:
    """No page with text is a failure of its own."""
    assert code_of(pdf_file([[], []]), "a.pdf") == "document.no_text"


@pytest.mark.parametrize(
    "content", [b"%PDF-1.7 and nothing", b"%PDF-1.4\ntrailer<</Root 1 0 R>>", pdf_file([PAGE])[:300]]
)
def test_broken_files(content: bytes) -> None:
    """A file that only starts like a PDF is corrupt."""
    assert code_of(content, "a.pdf") == "document.corrupt"


def test_arabic_reads_in_order() -> None:
    """Right-to-left text comes in logical order, with the letters of ligatures as written."""
    body = parsed((FIXTURES / "right_to_left_01.pdf").read_bytes(), "a.pdf")
    assert body.blocks[0].text == "تحسين الإنتاجية وحل المشكلات من خلال البرمجة بلغة R وPython"


def test_a_title_that_a_program_invented_is_not_used() -> None:
    """`Microsoft Word - Document1.doc` is no title: the first heading is."""
    body = parsed(pdf_file([PAGE], "/Title (Microsoft Word - Document1.doc)"), "a.pdf")
    assert body.title == "A large heading"
