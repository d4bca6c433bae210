"""reStructuredText: underlined headings, paragraphs, lists, grid tables and literal blocks; roles by their text."""

from __future__ import annotations

import re

from cortex.documents import ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.decode import decode
from data_jobs.parsers.line_markup import LineBlocks, ListDepth, pipe_cells

_RULE = re.compile(r"([=\-`:'\"~^_*+#<>.])\1{2,}\s*$")
_DIRECTIVE = re.compile(r"(\s*)\.\.\s+(?:\|[^|]*\|\s*)?([\w:-]+)::\s*(.*)$")
_COMMENT = re.compile(r"\s*\.\.(?:\s|$)")
_OPTION = re.compile(r"\s+:[\w -]+:(?:\s|$)")
_FIELD = re.compile(r":([\w -]+):\s+(.*)$")
_ITEM = re.compile(r"(\s*)([*+•-]|(?:\d+|#|[a-zA-Z])[.)])\s+(\S.*)$")
_GRID_RULE = re.compile(r"\s*\+[-=+]+\+\s*$")
_CODE = frozenset(
    {"code", "code-block", "sourcecode", "literalinclude", "parsed-literal", "highlight", "math", "doctest"}
)
_SKIPPED = frozenset(
    {"image", "toctree", "contents", "index", "include", "raw", "only", "meta", "currentmodule"}
)
_INLINE = (
    (re.compile(r":[\w:+-]+:`~?([^`<]*?)\s*(?:<[^>]*>)?`"), r"\1"),
    (re.compile(r"``([^`]+)``"), r"\1"),
    (re.compile(r"`([^`<]*?)\s*<[^>]*>`__?"), r"\1"),
    (re.compile(r"`([^`]+)`(?:__?)?"), r"\1"),
    (re.compile(r"(?<!\w)(\*{1,2})(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"\|(\S[^|]*)\|_*"), r"\1"),
)


def parse_rst(content: bytes, name: str) -> ParsedBody:
    """Parse a reStructuredText file."""
    lines = [line.rstrip() for line in decode(content).expandtabs(8).split("\n")]
    return _Reader(lines).read()


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._builder = BodyBuilder()
        self._blocks = LineBlocks(self._builder)
        self._depth = ListDepth()
        self._styles: list[str] = []  # of headings, in the order they first appear
        self._fields: dict[str, str] = {}
        self._skipped_indent = -1  # lines deeper than this belong to a comment or an unread directive
        self._code_indent = -1

    def read(self) -> ParsedBody:
        """Read all lines."""
        at = 0
        while at < len(self._lines):
            at += self._read(at)
        self._blocks.end()
        return self._builder.finish(author=self._fields.get("author", ""), meta={})

    def _read(self, at: int) -> int:
        """Read what begins at a line; return how many lines it took."""
        line = self._lines[at]
        if self._in_indented(line, at + 1):
            return 1
        if not line:
            self._blocks.end()
            return 1
        if n := self._heading(at):
            return n
        number = at + 1
        if line.lstrip().startswith(">>> "):
            return self._session(at)
        if directive := _DIRECTIVE.match(line):
            self._directive(directive, number)
        elif _COMMENT.match(line):
            self._blocks.end()
            self._skipped_indent = len(line) - len(line.lstrip())
        elif _GRID_RULE.match(line):
            pass
        elif line.lstrip().startswith("|") and line.endswith("|"):
            self._blocks.row([plain(cell) for cell in pipe_cells(line)], number)
        elif item := _ITEM.match(line):
            indent, mark, text = item.groups()
            marker = "-" if mark in "*+•-" else "1." if mark[0] == "#" else mark
            self._blocks.item(self._prose(text, indent), number, self._depth.of(len(indent)), marker)
        elif (field := _FIELD.match(line)) is not None:
            self._fields.setdefault(field.group(1).lower(), field.group(2))
            self._blocks.text(plain(f"{field.group(1)}: {field.group(2)}"), number)
        elif not _OPTION.match(line) and not _RULE.fullmatch(line):
            self._blocks.text(self._prose(line, line[: len(line) - len(line.lstrip())]), number)
        return 1

    def _in_indented(self, line: str, number: int) -> bool:
        """Read a line of an open literal block or of something skipped; False when it is over."""
        indent = len(line) - len(line.lstrip()) if line else 1_000
        if self._code_indent >= 0:
            if indent > self._code_indent:
                self._blocks.code(line, number)
                return True
            self._code_indent = -1
            self._blocks.end()
        if self._skipped_indent >= 0:
            if indent > self._skipped_indent:
                return True
            self._skipped_indent = -1
        return False

    def _heading(self, at: int) -> int:
        """Add the heading at a line, underlined or between two rules; return how many lines it takes."""
        line, below = self._lines[at], self._lines[at + 1] if at + 1 < len(self._lines) else ""
        rule = _RULE.fullmatch(line)
        if rule is not None and at + 2 < len(self._lines) and self._lines[at + 2] == line and below.strip():
            style, text, n = rule.group(1) * 2, below, 3
        elif (
            _RULE.fullmatch(below) and line.strip() and rule is None and len(below) >= len(line.rstrip()) - 2
        ):
            style, text, n = below[0], line, 2
        else:
            return 0
        if style not in self._styles:
            self._styles.append(style)
        self._depth.reset()
        self._blocks.heading(plain(text), self._styles.index(style) + 1, at + 1)
        return n

    def _session(self, at: int) -> int:
        """Read an interactive session, which lasts until a blank line."""
        n = next((i for i, line in enumerate(self._lines[at:]) if not line), len(self._lines) - at)
        self._blocks.end()
        for i in range(at, at + n):
            self._blocks.code(self._lines[i], i + 1)
        self._blocks.end()
        return n

    def _directive(self, match: re.Match[str], number: int) -> None:
        indent, name, argument = match.groups()
        self._blocks.end()
        if name in _CODE:
            self._code_indent = len(indent)
        elif name in _SKIPPED:
            self._skipped_indent = len(indent)
        elif argument:
            self._blocks.text(plain(argument), number)
            self._blocks.end()

    def _prose(self, text: str, indent: str) -> str:
        """Take markup away; a text that ends in `::` announces a literal block."""
        if text.endswith("::"):
            self._code_indent = len(indent)
            text = text[:-1]
        return plain(text)


def plain(text: str) -> str:
    """Take inline markup away."""
    for pattern, replacement in _INLINE:
        text = pattern.sub(replacement, text)
    return text.strip()
