"""Charts of office files: title and data as a table, read from the values that the chart keeps of its sheet."""

from __future__ import annotations

from typing import Any

from cortex.documents import Anchor, BlockKind
from data_jobs.parsers.archive import attribute, child, descendants, local
from data_jobs.parsers.body import NOWHERE, BodyBuilder
from data_jobs.parsers.ooxml import Package, drawing_texts
from data_jobs.parsers.tables import Row, add_table
from data_jobs.parsers.xlsx_values import show_number

_MAX_POINTS = 10_000


def add_charts(builder: BodyBuilder, package: Package, part: str, anchor: Anchor = NOWHERE) -> None:
    """Add the charts that a part points to."""
    for root in package.related(part, "chart"):
        add_chart(builder, root, anchor)


def add_chart(builder: BodyBuilder, root: Any, anchor: Anchor = NOWHERE) -> None:
    """Add one chart: a row per category, a column per series."""
    chart = child(root, "chart")
    title = child(chart, "title") if chart is not None else None
    text = " ".join(drawing_texts(title)) if title is not None else ""
    builder.add(BlockKind.PARAGRAPH, f"{_kind(chart)}: {text}" if text else _kind(chart), anchor)
    series = list(descendants(root, "ser"))
    names = [" ".join(_cached(child(one, "tx")).values()) for one in series]
    categories = next((found for one in series if (found := _points(one, "cat", "xVal"))), {})
    values = [_points(one, "val", "yVal") for one in series]
    indexes = sorted({index for points in values for index in points})[:_MAX_POINTS]
    rows = [["", *names]]
    rows += [[categories.get(i, ""), *(points.get(i, "") for points in values)] for i in indexes]
    if len(rows) > 1:
        add_table(builder, [Row(tuple(cells), anchor) for cells in rows], 1)


def _kind(chart: Any | None) -> str:
    """Name the kind of a chart as people ask for it: `Bar chart`."""
    area = child(chart, "plotArea") if chart is not None else None
    names = [local(part) for part in (area if area is not None else ())]
    found = next((name for name in names if name.endswith("Chart")), "")
    return f"{found.removesuffix('Chart').removesuffix('3D').capitalize()} chart".strip().capitalize()


def _points(series: Any, *names: str) -> dict[int, str]:
    return next((_cached(found) for name in names if (found := child(series, name)) is not None), {})


def _cached(reference: Any | None) -> dict[int, str]:
    points = {}
    for point in descendants(reference, "pt") if reference is not None else ():
        value, index = child(point, "v"), attribute(point, "idx")
        if value is not None and value.text and index.isdigit():
            points[int(index)] = _shown(value.text)
    return points


def _shown(value: str) -> str:
    try:
        return show_number(float(value))
    except (ValueError, OverflowError):
        return value
