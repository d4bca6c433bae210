"""Legacy workbooks (.xls, BIFF): every sheet row by row, as .xlsx, read by xlrd; hidden sheets are named."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from datetime import datetime

import xlrd
from xlrd.compdoc import CompDocError

from cortex.documents import ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.sheet_rows import SheetRow, add_sheet
from data_jobs.parsers.xlsx_values import format_kind, show_date, show_number


def parse_xls(content: bytes) -> ParsedBody:
    """Parse a BIFF workbook."""
    try:
        # Formats are needed to tell dates and percentages from plain numbers.
        book = xlrd.open_workbook(file_contents=content, logfile=io.StringIO(), formatting_info=True)
    except (xlrd.XLRDError, CompDocError, struct.error) as error:
        if "encrypted" in str(error).lower():
            raise unparsable(
                FailureCode.ENCRYPTED, "it is protected by a password", "remove the password"
            ) from error
        raise unparsable(FailureCode.CORRUPT, "it is not a readable workbook") from error
    builder = BodyBuilder()
    hidden = []
    for sheet in book.sheets():
        add_sheet(builder, sheet.name, _rows(book, sheet))
        if sheet.visibility:
            hidden.append(sheet.name)
    return builder.finish(
        author=book.user_name or "", meta={"hidden_sheets": ", ".join(hidden)} if hidden else {}
    )


def _rows(book: xlrd.book.Book, sheet: xlrd.sheet.Sheet) -> Iterator[SheetRow]:
    spread = {}
    for top, bottom, left, right in sheet.merged_cells:
        if bottom - top == 1 and right - left <= 100:
            spread[(top, left)] = right
    for index in range(sheet.nrows):
        cells = {}
        for column, cell in enumerate(sheet.row(index)):
            if text := " ".join(_text(book, cell).split()):
                cells[column] = text
        wide = {c: cells[left] for left in cells for c in range(left + 1, spread.get((index, left), 0))}
        if cells:
            yield SheetRow(index + 1, cells, wide)


def _text(book: xlrd.book.Book, cell: xlrd.sheet.Cell) -> str:
    match cell.ctype:
        case xlrd.XL_CELL_TEXT:
            return str(cell.value)
        case xlrd.XL_CELL_NUMBER:
            format_ = book.format_map.get(book.xf_list[cell.xf_index].format_key)
            is_percent = format_ is not None and format_kind(format_.format_str) == "percent"
            return f"{cell.value * 100:.10g}%" if is_percent else show_number(cell.value)
        case xlrd.XL_CELL_DATE:
            epoch = datetime(1904, 1, 1) if book.datemode else datetime(1899, 12, 30)  # noqa: DTZ001  no zones here
            return show_date(epoch, cell.value)
        case xlrd.XL_CELL_BOOLEAN:
            return "TRUE" if cell.value else "FALSE"
        case _:
            return ""
