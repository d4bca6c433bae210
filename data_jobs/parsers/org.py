"""Org mode: outline headings, paragraphs, lists, tables and source blocks; drawers are left out, keywords are metadata."""

from __future__ import annotations

import re

from cortex.documents import ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.dates import parse_date
from data_jobs.parsers.decode import decode
from data_jobs.parsers.line_markup import LineBlocks, ListDepth, pipe_cells

_HEADING = re.compile(
    r"(\*+)\s+(?:(?:TODO|DONE|NEXT|WAITING|CANCELLED)\s+)?(?:\[#\w\]\s+)?(.*?)\s*(:[\w@#%:]+:)?$"
)
_KEYWORD = re.compile(r"#\+(\w+):\s*(.*)$")
_BEGIN, _END = re.compile(r"\s*#\+begin_(\w+)", re.IGNORECASE), re.compile(r"\s*#\+end_(\w+)", re.IGNORECASE)
_DRAWER = re.compile(r"\s*:([\w-]+):\s*$")
_ITEM = re.compile(r"(\s*)([-+]|\d+[.)])\s+(?:\[[ X-]\]\s+)?(\S.*)$")
_LINK = re.compile(r"\[\[([^\]]*)\](?:\[([^\]]*)\])?\]")
_EMPHASIS = re.compile(r"(?<![\w/])([*/_=~+])(?=\S)([^\n]+?)(?<=\S)\1(?![\w/])")
_CODE = frozenset({"src", "example", "export"})


def parse_org(content: bytes, name: str) -> ParsedBody:
    """Parse an Org file."""
    return read_org(decode(content), BodyBuilder())


def read_org(text: str, builder: BodyBuilder) -> ParsedBody:
    """Parse the text of an Org file with an empty builder."""
    reader = _Reader(builder)
    for number, line in enumerate(text.split("\n"), start=1):
        reader.read(line.removeprefix("\ufeff").rstrip(), number)
    return reader.finish()


class _Reader:
    def __init__(self, builder: BodyBuilder) -> None:
        self._builder = builder
        self._blocks = LineBlocks(builder)
        self._depth = ListDepth()
        self._keywords: dict[str, str] = {}
        self._in_drawer = False
        self._in_code = False

    def read(self, line: str, number: int) -> None:
        """Read one line."""
        if self._in_code:
            self._in_code = _END.match(line) is None
            if self._in_code:
                self._blocks.code(line, number)
        elif self._in_drawer:
            self._in_drawer = line.strip().lower() != ":end:"
        elif not line.strip() or _END.match(line) or line.startswith("# "):
            self._blocks.end()
        elif begin := _BEGIN.match(line):
            self._blocks.end()
            self._in_code = begin.group(1).lower() in _CODE
        elif keyword := _KEYWORD.match(line):
            self._keywords[keyword.group(1).lower()] = keyword.group(2).strip()
        elif drawer := _DRAWER.match(line):
            self._in_drawer = drawer.group(1).lower() != "end"
        else:
            self._prose(line, number)

    def finish(self) -> ParsedBody:
        """End the last block and return the body."""
        self._blocks.end()
        found = self._keywords
        return self._builder.finish(
            title=found.get("title", ""),
            author=found.get("author", ""),
            language=found.get("language", "")[:2],
            created_at=parse_date(found.get("date", "").strip("<>[]")[:10]),
            meta={name: found[name] for name in ("filetags", "description", "keywords") if found.get(name)},
        )

    def _prose(self, line: str, number: int) -> None:
        if heading := _HEADING.match(line):
            self._depth.reset()
            self._blocks.heading(plain(heading.group(2)), len(heading.group(1)), number)
        elif line.lstrip().startswith("|"):
            if not line.lstrip().startswith("|-"):
                self._blocks.row([plain(cell) for cell in pipe_cells(line)], number)
        elif item := _ITEM.match(line):
            indent, mark, text = item.groups()
            marker = "-" if mark in "-+" else mark
            self._blocks.item(plain(text), number, self._depth.of(len(indent)), marker)
        else:
            self._blocks.text(plain(line), number)


def plain(text: str) -> str:
    """Take links and emphasis away."""
    text = _LINK.sub(lambda link: link.group(2) or link.group(1).removeprefix("file:"), text)
    return _EMPHASIS.sub(r"\2", text).strip()
