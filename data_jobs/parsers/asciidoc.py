"""AsciiDoc: headings, paragraphs, lists, tables and code; macros by their text, attributes left out."""

from __future__ import annotations

import re

from cortex.documents import ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.decode import decode
from data_jobs.parsers.line_markup import LineBlocks, ListDepth, pipe_cells

_HEADING = re.compile(r"(={1,6})\s+(\S.*?)\s*=*$")
_ATTRIBUTE = re.compile(r":!?[\w-]+!?:(?:\s+(.*))?$")
_BLOCK_ATTRIBUTES = re.compile(r"\[[^\]]*\]\s*$")
_BLOCK_TITLE = re.compile(r"\.(?![.\s])(\S.*)$")
_ITEM = re.compile(r"(\s*)(\*{1,6}|-|\.{1,6}|\d+\.|<\d+>)\s+(\S.*)$")
_TERM = re.compile(r"(\S.*?)(:{2,4}|;;)(?:\s+(.*))?$")
_IMAGE = re.compile(r"(?:image|video|audio)::?\S*?\[([^\],]*)[^\]]*\]")
_INLINE = (
    (_IMAGE, r"\1"),
    (re.compile(r"(?:link|xref|mailto|btn|menu|kbd|footnote):[^\s\[]*\[([^\]]*)\]"), r"\1"),
    (re.compile(r"(?:https?|ftp|irc)://[^\s\[\]]+\[([^\]]+)\]"), r"\1"),
    (re.compile(r"<<[^,>]+,\s*([^>]+)>>"), r"\1"),
    (re.compile(r"<<([^>]+)>>"), r"\1"),
    (re.compile(r"(?<!\w)([*_`#])(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"\[\[[^\]]+\]\]"), ""),
)
# A cell begins at a bar, with what says how to align, span and style it right before (`2.3+^.>s|`).
_CELL = re.compile(r"(?:^|(?<=\s))[\d.*+<^>]*[aehlmsvd]?\||\|")
_CODE_FENCES, _PROSE_FENCES = ("----", "....", "```"), ("====", "****", "____", "--")


def parse_asciidoc(content: bytes, name: str) -> ParsedBody:
    """Parse an AsciiDoc file."""
    reader = _Reader()
    for number, line in enumerate(decode(content).split("\n"), start=1):
        reader.read(line.rstrip(), number)
    return reader.finish()


class _Reader:
    def __init__(self) -> None:
        self._builder = BodyBuilder()
        self._blocks = LineBlocks(self._builder)
        self._depth = ListDepth()
        self._fence = ""
        self._in_table = False
        self._attributes: dict[str, str] = {}
        self._cells: list[str] = []

    def read(self, line: str, number: int) -> None:
        """Read one line."""
        if self._fence:
            self._fenced(line, number)
        elif self._in_table:
            self._table_line(line, number)
        elif not line.strip():
            self._blocks.end()
        elif line.startswith("////"):
            self._fence = "////"
        elif line.startswith("//"):
            return
        elif line.startswith("|==="):
            self._blocks.end()
            self._in_table = True
        elif line.startswith(_CODE_FENCES):
            self._fence = line[:4]
            self._blocks.end()
        elif line == "+" or line in _PROSE_FENCES or set(line) in ({"="}, {"*"}, {"_"}):
            self._blocks.end()
        else:
            self._prose(line, number)

    def finish(self) -> ParsedBody:
        """End the last block and return the body."""
        self._blocks.end()
        return self._builder.finish(
            title=self._attributes.get("title", ""),
            author=self._attributes.get("author", ""),
            meta={
                name: self._attributes[name]
                for name in ("keywords", "description")
                if name in self._attributes
            },
        )

    def _prose(self, line: str, number: int) -> None:
        if attribute := _ATTRIBUTE.match(line):
            self._attributes[line.strip(":!").split(":")[0].lower()] = attribute.group(1) or ""
        elif heading := _HEADING.match(line):
            self._depth.reset()
            self._blocks.heading(plain(heading.group(2)), len(heading.group(1)), number)
        elif _BLOCK_ATTRIBUTES.match(line):
            self._blocks.end()
        elif line.startswith("|"):
            self._blocks.row([plain(cell) for cell in pipe_cells(line)], number)
        elif item := _ITEM.match(line):
            indent, mark, text = item.groups()
            depth = self._depth.of(len(indent) + (len(mark) - 1 if mark[0] in "*." else 0))
            self._blocks.item(plain(text), number, depth, "-" if mark[0] in "*-" else "1.")
        elif title := _BLOCK_TITLE.match(line):
            self._blocks.end()
            self._blocks.text(plain(title.group(1)), number)
            self._blocks.end()
        elif term := _TERM.match(line):
            self._blocks.item(plain(f"{term.group(1)}: {term.group(3) or ''}"), number, 0, "-")
        else:
            self._blocks.text(plain(line), number)

    def _fenced(self, line: str, number: int) -> None:
        if line.startswith(self._fence):
            self._fence = ""
            self._blocks.end()
        elif self._fence != "////":
            self._blocks.code(line, number)

    def _table_line(self, line: str, number: int) -> None:
        if line.startswith("|==="):
            self._blocks.end()
            self._in_table = False
        elif line.strip():
            cells = [plain(cell) for cell in _CELL.split(line.strip().removesuffix("|"))]
            self._blocks.row(cells[1:] if not cells[0] else cells, number)


def plain(text: str) -> str:
    """Take inline markup away."""
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return text.strip()
