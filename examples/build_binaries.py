"""Build the sample company's office files and PDF from `examples/sources`; the same sources give the same content.

Usage: python examples/build_binaries.py [FOLDER]      (default: examples/sample_company)
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import docx
import openpyxl
import pptx
import yaml
from docx.document import Document
from pdf_writer import write_pdf
from pptx.presentation import Presentation

_HERE = Path(__file__).parent
_SOURCES = _HERE / "sources"
_AUTHOR = "Tarnvik Instruments AS"
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def build(folder: Path) -> list[Path]:
    """Write every binary file below a folder; returns their paths."""
    made = {
        "contracts/meridian-supply-agreement.pdf": write_pdf(
            _source("supply-agreement.md"), "MSA-2025-031   Confidential"
        ),
        "contracts/contractor-agreement-weber.docx": _word("contractor-agreement.md", "2026-01-30T12:00:00"),
        "sales/lumi-3-launch.pptx": _slides("lumi-3-launch.md", "2025-11-28T09:00:00"),
        "finance/budget-2026.xlsx": _workbook("budget-2026.yaml", "2026-11-02T08:30:00"),
        "finance/salaries-2026.xlsx": _workbook("salaries-2026.yaml", "2026-03-27T15:00:00"),
    }
    for name, content in made.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return [folder / name for name in made]


def _source(name: str) -> str:
    return (_SOURCES / name).read_text(encoding="utf-8").strip()


def _word(name: str, at: str) -> bytes:
    document = docx.Document()
    for paragraph in _source(name).split("\n\n"):
        if paragraph.startswith("|"):
            _table(
                document,
                [[cell.strip() for cell in row.strip("|").split("|")] for row in paragraph.splitlines()],
            )
        elif paragraph.startswith("#"):
            marks, text = paragraph.split(" ", 1)
            document.add_heading(text, level=len(marks) - 1)  # level 0 is the title
        else:
            document.add_paragraph(" ".join(paragraph.split()))
    _describe(document, _source(name), at)
    return _frozen(document, at)


def _table(document: Document, rows: list[list[str]]) -> None:
    header, _rule, *body = rows
    table = document.add_table(rows=0, cols=len(header), style="Table Grid")
    for row in [header, *body]:
        for cell, text in zip(table.add_row().cells, row, strict=True):
            cell.text = text


def _slides(name: str, at: str) -> bytes:
    deck = pptx.Presentation()
    for number, section in enumerate(_source(name).split("\n## ")):
        heading, body = section.split("\n\n", 1)
        slide = deck.slides.add_slide(deck.slide_layouts[0 if number == 0 else 1])
        slide.shapes.title.text = heading.removeprefix("# ")
        slide.placeholders[1].text = body.replace("- ", "") if number else body
    _describe(deck, _source(name), at)
    return _frozen(deck, at)


def _workbook(name: str, at: str) -> bytes:
    book = openpyxl.Workbook()
    del book["Sheet"]
    for title, rows in yaml.safe_load(_source(name))["sheets"].items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.properties.creator, book.properties.title = "Tomas Okafor", name.removesuffix(".yaml")
    book.properties.created = datetime.fromisoformat(at)
    return _frozen(book, at)


def _describe(file: Document | Presentation, source: str, at: str) -> None:
    properties = file.core_properties
    properties.author = properties.last_modified_by = _AUTHOR
    properties.title = source.splitlines()[0].removeprefix("# ")
    properties.created = properties.modified = datetime.fromisoformat(at)  # office files keep naive UTC


def _frozen(file: Document | Presentation | openpyxl.Workbook, at: str) -> bytes:
    """Save an office file without the clock's traces: zip times and the modification time are set."""
    saved, result = io.BytesIO(), io.BytesIO()
    file.save(saved)
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(result, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "docProps/core.xml":
                content = re.sub(
                    rb"(<dcterms:modified[^>]*>)[^<]*",
                    rb"\g<1>" + f"{at}Z".encode(),
                    content,
                )
            entry = zipfile.ZipInfo(name, _ZIP_TIME)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            target.writestr(entry, content, compresslevel=9)
    return result.getvalue()


if __name__ == "__main__":
    for built in build(Path(sys.argv[1]) if len(sys.argv) > 1 else _HERE / "sample_company"):
        print(built)
