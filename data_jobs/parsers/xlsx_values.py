"""What a cell shows: numbers, percentages, dates by their number format, shared and inline strings."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from data_jobs.parsers.archive import attribute, child, descendants, local

# Built-in number formats that show dates or times (ECMA-376 part 1, 18.8.30, and the East Asian ones).
_DATE_IDS = frozenset({*range(14, 23), *range(27, 37), 45, 46, 47, *range(50, 59)})
_PERCENT_IDS = frozenset({9, 10})
_NOT_CODES = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)  # noqa: DTZ001  spreadsheets have no zones
_MAX_SERIAL = 2_958_465  # 9999-12-31


class CellFormats:
    """The number format of each cell style, reduced to what changes the text: date, percentage or neither."""

    def __init__(self, styles: Any | None, is_1904: bool) -> None:
        self._epoch = _EPOCH_1904 if is_1904 else _EPOCH
        self._kinds: list[str] = []
        if styles is None:
            return
        own = {attribute(f, "numFmtId"): attribute(f, "formatCode") for f in descendants(styles, "numFmt")}
        formats = child(styles, "cellXfs")
        for format_ in formats if formats is not None else ():
            number = attribute(format_, "numFmtId")
            self._kinds.append(_kind(int(number) if number.isdigit() else 0, own.get(number, "")))

    def show(self, number: str, style: str) -> str:
        """Write a stored number as its style shows it."""
        kind = self._kinds[int(style)] if style.isdigit() and int(style) < len(self._kinds) else ""
        try:
            value = float(number)
        except ValueError:
            return number
        if kind == "date" and 0 <= value <= _MAX_SERIAL:
            return show_date(self._epoch, value)
        return f"{value * 100:.10g}%" if kind == "percent" else show_number(value)


def cell_text(cell: Any, shared: Callable[[int], str], formats: CellFormats) -> str:
    """Return the text of one cell; empty if it holds none."""
    kind = cell.get("t")  # never in a namespace, and read for every cell
    if kind == "inlineStr":
        return rich_text(cell)
    value = child(cell, "v")
    text = (value.text or "") if value is not None else ""
    match kind:
        case "s":
            return shared(int(text)) if text.strip().isdigit() else ""
        case "b":
            return "TRUE" if text.strip() == "1" else "FALSE"
        case "str" | "e" | "d":
            return text
        case _:
            return formats.show(text, cell.get("s") or "") if text else ""


def rich_text(element: Any) -> str:
    """Return the text runs below an element; pronunciation aids are left out."""
    return "".join(t.text or "" for t in descendants(element, "t") if local(t.getparent()) != "rPh")


def show_number(value: float) -> str:
    """Write a number without noise: integers whole, others with up to 15 digits as spreadsheets keep them."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.15g}"


def show_date(epoch: datetime, serial: float) -> str:
    """Write a serial day number as an ISO date, with the time if it has one; below one day it is a time."""
    instant = epoch + timedelta(seconds=round(serial * 86_400))
    if serial < 1:
        return instant.strftime("%H:%M:%S").removesuffix(":00")
    is_midnight = instant.hour == instant.minute == instant.second == 0
    return instant.date().isoformat() if is_midnight else instant.isoformat(" ").removesuffix(":00")


@lru_cache(maxsize=1_000)
def _kind(format_id: int, code: str) -> str:
    if code:
        return format_kind(code)
    return "date" if format_id in _DATE_IDS else "percent" if format_id in _PERCENT_IDS else ""


def format_kind(code: str) -> str:
    """Say whether a number format code shows a date or a percentage."""
    plain = _NOT_CODES.sub("", code.split(";")[0]).lower()
    if "general" in plain:
        return ""
    if any(letter in plain for letter in "ymdhs"):
        return "date"
    return "percent" if "%" in plain else ""
