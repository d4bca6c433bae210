"""Office formats, built by the libraries that write them or taken from real programs."""

from __future__ import annotations

import io
import struct
import zipfile
from datetime import UTC, date, datetime

import docx
import openpyxl
import pptx
import pytest
from openpyxl.comments import Comment
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from tests.unit.data_jobs.seen import FIXTURES, blocks, code_of, parsed


def word_file() -> bytes:
    document = docx.Document()
    document.core_properties.title, document.core_properties.author = "Lease", "Ana"
    document.core_properties.created = datetime.fromisoformat("2026-01-02T03:04:05")
    document.add_heading("Terms", level=1)
    document.add_paragraph("The rent is due\ton the first.")
    document.add_heading("Parties", level=2)
    document.add_paragraph("landlord", style="List Bullet")
    document.add_paragraph("pay", style="List Number")
    document.add_paragraph("leave", style="List Number")
    table = document.add_table(rows=3, cols=3)
    for row, texts in zip(
        table.rows, [("Item", "Sum", "Due"), ("Rent", "900", "1st"), ("", "50", "3rd")], strict=True
    ):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    table.cell(1, 0).merge(table.cell(2, 0))
    document.sections[0].header.paragraphs[0].text = "Confidential"
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def test_word() -> None:
    """A Word file keeps headings, numbered and bulleted items, tables row by row, merged cells and its properties."""
    body = parsed(word_file(), "a.docx")
    assert [(kind, text) for kind, text, _ in blocks(body)] == [
        ("heading", "Terms"),
        ("paragraph", "The rent is due\ton the first."),
        ("heading", "Parties"),
        ("list", "- landlord"),
        ("list", "1. pay"),
        ("list", "2. leave"),
        ("table_row", "Item | Sum | Due"),
        ("table_row", "Item: Rent | Sum: 900 | Due: 1st"),
        ("table_row", "Item: Rent | Sum: 50 | Due: 3rd"),
    ]
    assert (body.title, body.author, body.meta["header"]) == ("Lease", "Ana", "Confidential")
    assert body.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert body.blocks[3].heading_path == ("Terms", "Parties")


def test_word_leaves_deleted_text_out() -> None:
    """Tracked changes: what was inserted is text, what was deleted is not."""
    content = rewritten(
        word_file(), "word/document.xml", b"<w:t>landlord</w:t></w:r>",
        b"<w:t>landlord</w:t></w:r><w:ins><w:r><w:t> Bo</w:t></w:r></w:ins><w:del><w:r><w:delText>Eve</w:delText></w:r></w:del>",
    )  # fmt: skip
    assert ("list", "- landlord Bo") in [(kind, text) for kind, text, _ in blocks(parsed(content, "a.docx"))]


def test_strict_word() -> None:
    """Strict documents differ only in their namespaces."""
    assert [text for _, text, _ in blocks(parsed((FIXTURES / "Strict.docx").read_bytes(), "a.docx"))] == [
        "Some text"
    ]


def test_equations() -> None:
    """Formulas are written on one line."""
    texts = [text for _, text, _ in blocks(parsed((FIXTURES / "equations.docx").read_bytes(), "a.docx"))]
    assert "a^2+b^2=c^2 × 23" in texts


def presentation() -> bytes:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Results"
    slide.placeholders[1].text_frame.text = "sales rose"
    second = slide.placeholders[1].text_frame.add_paragraph()
    second.text, second.level = "in the west", 1
    slide.notes_slide.notes_text_frame.text = "say thanks"
    blank = deck.slides.add_slide(deck.slide_layouts[6])
    group = blank.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "in a group"
    table = blank.shapes.add_table(2, 3, 0, 0, Inches(3), Inches(1)).table
    for row, texts in enumerate([("Region", "Q1", "Q2"), ("West", "12", "15")]):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    buffer = io.BytesIO()
    deck.save(buffer)
    return buffer.getvalue()


def test_presentation() -> None:
    """Slides are anchored; titles, bullets, groups, tables and notes are read."""
    assert blocks(parsed(presentation(), "a.pptx")) == [
        ("heading", "Results", "slide=1"),
        ("list", "- sales rose", "slide=1"),
        ("list", "  - in the west", "slide=1"),
        ("paragraph", "Notes: say thanks", "slide=1"),
        ("heading", "Slide 2", "slide=2"),
        ("paragraph", "in a group", "slide=2"),
        ("table_row", "Region | Q1 | Q2", "slide=2"),
        ("table_row", "Region: West | Q1: 12 | Q2: 15", "slide=2"),
    ]


def test_charts() -> None:
    """A chart reads as a table of its data under its kind and title."""
    deck = pptx.Presentation()
    data = CategoryChartData()
    data.categories = ["Q1", "Q2"]
    data.add_series("West", (12, 15.5))
    data.add_series("East", (7, 9))
    frame = deck.slides.add_slide(deck.slide_layouts[6]).shapes.add_chart(
        XL_CHART_TYPE.LINE, 0, 0, 100, 100, data
    )
    frame.chart.has_title = True
    frame.chart.chart_title.text_frame.text = "Revenue"
    buffer = io.BytesIO()
    deck.save(buffer)
    assert [text for _, text, _ in blocks(parsed(buffer.getvalue(), "a.pptx"))][1:] == [
        "Line chart: Revenue",
        "West | East",
        "Q1 | West: 12 | East: 7",
        "Q2 | West: 15.5 | East: 9",
    ]


def test_presentation_comments() -> None:
    """Review comments stand with their slide, with speaker and date."""
    body = parsed((FIXTURES / "powerpoint_comments.pptx").read_bytes(), "a.pptx")
    turns = [(block.speaker, block.anchor.fragment) for block in body.blocks if block.kind == "turn"]
    assert turns[0] == ("John Reviewer", "slide=1")
    assert len(turns) == 4


def workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Sales"
    sheet.append(["Sales by region"])
    sheet.append(["Region", "Day", "Share", "Units"])
    sheet.append(["West", date(2026, 2, 3), 0.125, 1200])
    sheet.append(["East", datetime.fromisoformat("2026-02-04T09:30"), 1, 3.14159])
    sheet["C3"].number_format = "0.0%"
    sheet["D3"].comment = Comment("really?", "Bo")
    sheet.append([])
    sheet.append(["South", None, None, 7])
    hidden = book.create_sheet("Keys")
    hidden.sheet_state = "hidden"
    hidden.append(["only", "text"])
    book.create_sheet("Empty")
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_workbook() -> None:
    """Rows name their columns, also below a gap; dates and percentages read as shown; hidden sheets are flagged."""
    body = parsed(workbook(), "a.xlsx")
    assert blocks(body) == [
        ("heading", "Sales", "Sales!1"),
        ("paragraph", "Sales by region", "Sales!1"),
        ("table_row", "Region | Day | Share | Units", "Sales!2"),
        ("table_row", "Region: West | Day: 2026-02-03 | Share: 12.5% | Units: 1200", "Sales!3"),
        ("table_row", "Region: East | Day: 2026-02-04 09:30 | Share: 1 | Units: 3.14159", "Sales!4"),
        ("table_row", "Region: South | Units: 7", "Sales!6"),
        ("paragraph", "D3: Bo (comment): really?", "Sales!3"),
        ("heading", "Keys", "Keys!1"),
        ("table_row", "only | text", "Keys!1"),
    ]
    assert body.meta["hidden_sheets"] == "Keys"


def test_inflated_dimensions_cost_nothing() -> None:
    """A sheet that claims a million rows has the rows that exist."""
    content = rewritten(workbook(), "xl/worksheets/sheet1.xml", b'ref="A1:D6"', b'ref="A1:XFD1048576"')
    assert blocks(parsed(content, "a.xlsx")) == blocks(parsed(workbook(), "a.xlsx"))


def test_threaded_comments() -> None:
    """Threads are read with their authors, and not twice through the stand-ins for old programs."""
    body = parsed((FIXTURES / "xlsx_comments.xlsx").read_bytes(), "a.xlsx")
    texts = [block.text for block in body.blocks]
    assert "F7: Jane Smith (JS) (comment, 2026-06-18): Minimum number of saltwater ducks" in texts
    assert not any("Threaded comment" in text for text in texts)


def test_legacy_word() -> None:
    """Word 97 files keep headings, also of localised styles based on the built-in ones."""
    body = parsed((FIXTURES / "greek_heading_styles.doc").read_bytes(), "a.doc")
    headings = [block.text for block in body.blocks if block.kind == "heading"]
    assert headings == ["Problem mit lokalisierten Dokumenten", "Vorgeschlagene Änderung", "Verifizierung"]
    assert (body.author, body.body.startswith("Überschriften in nicht‑englischer Sprache")) == (
        "Cesar Berrospi Ramis",
        True,
    )


def test_legacy_workbook() -> None:
    """BIFF workbooks read as .xlsx does."""
    assert blocks(parsed((FIXTURES / "legacy_sample.xls").read_bytes(), "a.xls"))[-1] == (
        "table_row", "Year: 2024 | Freshwater Ducks: 180", "Duck Observations!10",
    )  # fmt: skip


def test_outlook_message() -> None:
    """Outlook messages give headers, body and attachments."""
    body = parsed((FIXTURES / "msg_with_attachment.msg").read_bytes(), "a.msg")
    assert [(kind, text) for kind, text, _ in blocks(body)][2:] == [
        ("paragraph", "This email contains an attachment."),
        ("heading", "Attachment: test.txt"),
        ("paragraph", "This is a test attachment file.\nIt contains some dummy content."),
    ]
    assert body.author == "Alice Example"


def record(kind: int, content: bytes, instance: int = 0, is_container: bool = False) -> bytes:
    return struct.pack("<HHI", instance << 4 | (0xF if is_container else 0), kind, len(content)) + content


def text_record(kind: int, text: str) -> bytes:
    return record(3999, struct.pack("<I", kind)) + record(4000, text.encode("utf-16-le"))


def legacy_presentation() -> bytes:
    """Two slides: placeholder texts in the document's list, a free text box in the first slide's drawing."""
    listed = b"".join(
        record(1011, struct.pack("<5I", persist, 0, 0, 255 + persist, 0)) + texts
        for persist, texts in (
            (2, text_record(0, "Opening") + text_record(1, "one\rtwo")),
            (3, text_record(0, "End")),
        )
    )
    document = record(1000, record(4080, listed, 0, True), 0, True)
    slide = record(1006, record(1036, record(0xF00D, text_record(4, "a box"), 0, True), 0, True), 0, True)
    offsets = struct.pack("<I2I", 2 << 20 | 2, len(document), len(document) + len(slide))
    directory = record(6002, offsets)
    slides = document + slide + record(1006, b"", 0, True)
    edit = record(4085, struct.pack("<7I", 0, 0, 0, len(slides), 1, 3, 0))
    user = record(4086, struct.pack("<III", 20, 0xE391C05F, len(slides) + len(directory)))
    return compound_file({"PowerPoint Document": slides + directory + edit, "Current User": user})


def compound_file(streams: dict[str, bytes]) -> bytes:
    """Write a compound file of streams long enough to stand in ordinary sectors."""
    sectors: list[bytes] = []
    chains: list[int] = []
    entries = [entry("Root Entry", 5, 0xFFFFFFFE, 0, child=1)]
    for n, (name, content) in enumerate(streams.items(), start=1):
        padded = content.ljust(4096, b"\0")
        start, n_sectors = len(sectors), -(-len(padded) // 512)
        sectors += [padded[i * 512 : (i + 1) * 512].ljust(512, b"\0") for i in range(n_sectors)]
        chains += [*range(start + 1, start + n_sectors), 0xFFFFFFFE]
        entries.append(entry(name, 2, start, len(padded), right=n + 1 if n < len(streams) else 0xFFFFFFFF))
    directory = len(sectors)
    sectors.append(b"".join(entries).ljust(512, b"\0"))
    chains += [0xFFFFFFFE, 0xFFFFFFFD]
    sectors.append(struct.pack(f"<{len(chains)}I", *chains).ljust(512, b"\xff"))
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
    head += (
        bytes(10)
        + struct.pack("<7I", 1, directory, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE)
        + struct.pack("<I", 0)
    )
    head += struct.pack("<I", len(sectors) - 1)
    return head.ljust(512, b"\xff") + b"".join(sectors)


def entry(
    name: str, kind: int, start: int, size: int, right: int = 0xFFFFFFFF, child: int = 0xFFFFFFFF
) -> bytes:
    encoded = name.encode("utf-16-le") + b"\0\0"
    head = encoded.ljust(64, b"\0") + struct.pack("<HBB3I", len(encoded), kind, 1, 0xFFFFFFFF, right, child)
    return head.ljust(116, b"\0") + struct.pack("<III", start, size, 0)


def test_legacy_presentation() -> None:
    """PowerPoint 97 files give the texts of placeholders and of free boxes, slide by slide."""
    assert blocks(parsed(legacy_presentation(), "a.ppt")) == [
        ("heading", "Opening", "slide=1"),
        ("list", "- one", "slide=1"),
        ("list", "- two", "slide=1"),
        ("paragraph", "a box", "slide=1"),
        ("heading", "End", "slide=2"),
    ]


ODT = """<office:document-content xmlns:office="o" xmlns:text="t" xmlns:table="b"><office:body><office:text>
<text:h text:outline-level="2">Plan</text:h><text:p>We<text:s text:c="2"/>go<text:note>1</text:note>.</text:p>
<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>two</text:p></text:list-item></text:list>
</text:list-item></text:list>
<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>k</text:p></table:table-cell>
<table:table-cell><text:p>v</text:p></table:table-cell></table:table-row></table:table-header-rows>
<table:table-row><table:table-cell><text:p>a</text:p></table:table-cell><table:table-cell><text:p>1</text:p></table:table-cell>
</table:table-row></table:table></office:text></office:body></office:document-content>"""


def open_document(kind: str, content: str) -> bytes:
    return packed({"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content})


def test_open_document_text() -> None:
    """OpenDocument texts keep headings, nested lists and tables."""
    assert [(kind, text) for kind, text, _ in blocks(parsed(open_document("text", ODT), "a.odt"))] == [
        ("heading", "Plan"),
        ("paragraph", "We  go."),
        ("list", "- one"),
        ("list", "  - two"),
        ("table_row", "k | v"),
        ("table_row", "k: a | v: 1"),
    ]


def test_open_document_sheet() -> None:
    """Repeated cells and rows of OpenDocument sheets are counted, not unrolled."""
    cell = "<b:table-cell><t:p>{}</t:p></b:table-cell>"
    row = "<b:table-row>{}</b:table-row>"
    rows = row.format(cell.format("name") + cell.format("sum") + cell.format("day"))
    rows += row.format(cell.format("Ana") + cell.format("3"))
    rows += '<b:table-row b:number-rows-repeated="1000000"><b:table-cell b:number-columns-repeated="16384"/></b:table-row>'
    rows += row.format(cell.format("Bo") + cell.format("4"))
    sheet = f'<b:table b:name="S">{rows}</b:table>'
    content = f'<o:c xmlns:o="o" xmlns:t="t" xmlns:b="b"><o:body><o:spreadsheet>{sheet}</o:spreadsheet></o:body></o:c>'
    assert blocks(parsed(open_document("spreadsheet", content), "a.ods")) == [
        ("heading", "S", "S!1"),
        ("table_row", "name | sum | day", "S!1"),
        ("table_row", "name: Ana | sum: 3", "S!2"),
        ("table_row", "name: Bo | sum: 4", "S!1000003"),
    ]


def test_epub() -> None:
    """Chapters come in the order of the spine."""
    book = packed({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<c><rootfiles><rootfile full-path="O/p.opf"/></rootfiles></c>',
        "O/p.opf": '<package><metadata><title>Tales</title></metadata><manifest><item id="b" href="b%20.html"/>'
        '<item id="a" href="a.html"/></manifest><spine><itemref idref="b"/><itemref idref="a"/></spine></package>',
        "O/a.html": "<h1>Last</h1>",
        "O/b .html": "<h1>First</h1><p>once</p>",
    })  # fmt: skip
    body = parsed(book, "a.epub")
    assert (body.title, [text for _, text, _ in blocks(body)]) == ("Tales", ["First", "once", "Last"])


@pytest.mark.parametrize("name", ["EncryptedPackage", "EncryptedSummary"])
def test_encrypted_office_files(name: str) -> None:
    """Password-protected office files, new and old, say so."""
    streams = {name: b"", "PowerPoint Document": b""}
    assert code_of(compound_file(streams), "a.pptx") == "document.encrypted"


def packed(parts: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def rewritten(content: bytes, part: str, old: bytes, new: bytes) -> bytes:
    """Replace bytes in one part of a package."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as source,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for item in source.infolist():
            raw = source.read(item)
            if item.filename == part:
                assert old in raw
                raw = raw.replace(old, new)
            target.writestr(item, raw)
    return buffer.getvalue()
