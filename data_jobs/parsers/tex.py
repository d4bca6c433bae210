"""LaTeX: sections, paragraphs, items and verbatim code; commands by their argument, comments left out, math as written."""

from __future__ import annotations

import re

from cortex.documents import ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.decode import decode
from data_jobs.parsers.line_markup import LineBlocks

_LEVELS = {
    "part": 1,
    "chapter": 1,
    "section": 2,
    "subsection": 3,
    "subsubsection": 4,
    "paragraph": 5,
    "subparagraph": 6,
}
_HEADING = re.compile(rf"\\({'|'.join(_LEVELS)})\*?(?:\[[^\]]*\])?\{{(.*)\}}")
_FIELD = re.compile(r"\\(title|author|date)\*?(?:\[[^\]]*\])?\{(.*)\}")
_BEGIN, _END = re.compile(r"\\begin\{(\w+)\*?\}"), re.compile(r"\\end\{(\w+)\*?\}")
_COMMENT = re.compile(r"(?<!\\)%.*$")
_ITEM = re.compile(r"\\item(?:\[([^\]]*)\])?\s*(.*)$")
_CODE = frozenset({"verbatim", "lstlisting", "minted", "Verbatim", "alltt"})
_LISTS = frozenset({"itemize", "enumerate", "description"})
_DROPPED = re.compile(
    r"\\(?:label|cite\w*|bibliography\w*|usepackage|documentclass|includegraphics|input|include|vspace|hspace|newcommand"
    r"|renewcommand|setlength|pagestyle|thispagestyle|begin|end|maketitle|tableofcontents|centering|noindent|index)\b"
    r"\*?(?:\[[^\]]*\])*(?:\{[^{}]*\})*"
)
_ARGUMENT = re.compile(r"\\[a-zA-Z]+\*?(?:\[[^\]]*\])?\{([^{}]*)\}")
_ESCAPED = re.compile(r"\\([%&_#${}])")
_MAX_NESTED = 8


def parse_tex(content: bytes, name: str) -> ParsedBody:
    """Parse a LaTeX file."""
    builder = BodyBuilder()
    blocks = LineBlocks(builder)
    fields: dict[str, str] = {}
    code, depth = "", 0
    text = decode(content)
    # Without a document environment the file is a part of one.
    in_body = "\\begin{document}" not in text
    for number, raw in enumerate(text.split("\n"), start=1):
        if code:
            code = "" if f"\\end{{{code}" in raw else code
            if code:
                blocks.code(raw, number)
            continue
        line = _COMMENT.sub("", raw).strip()
        if field := _FIELD.search(line):
            fields[field.group(1)] = plain(field.group(2))
        begin, end = _BEGIN.search(line), _END.search(line)
        if begin is not None and begin.group(1) in _CODE:
            blocks.end()
            code = begin.group(1)
            continue
        in_body = in_body or (begin is not None and begin.group(1) == "document")
        depth += begin is not None and begin.group(1) in _LISTS
        depth -= end is not None and end.group(1) in _LISTS and depth > 0
        if in_body and field is None:
            _read(blocks, line, number, depth)
    blocks.end()
    return builder.finish(title=fields.get("title", ""), author=fields.get("author", ""))


def _read(blocks: LineBlocks, line: str, number: int, depth: int) -> None:
    heading, item = _HEADING.search(line), _ITEM.match(line)
    if heading is not None:
        blocks.heading(plain(heading.group(2)), _LEVELS[heading.group(1)], number)
    elif item is not None:
        term = f"{plain(item.group(1))}: " if item.group(1) else ""
        blocks.item(term + plain(item.group(2)), number, max(depth - 1, 0), "-")
    elif text := plain(line):
        blocks.text(text, number)
    elif not line or _BEGIN.search(line) or _END.search(line):
        blocks.end()


def plain(text: str) -> str:
    """Take commands away and keep what they set; math stays as it is written."""
    text = _DROPPED.sub("", text)
    for _ in range(_MAX_NESTED):
        shorter = _ARGUMENT.sub(r"\1", text)
        if shorter == text:
            break
        text = shorter
    text = _ESCAPED.sub(r"\1", text).replace("~", " ").replace("\\\\", " ")
    return text.replace("``", "“").replace("''", "”").strip()
