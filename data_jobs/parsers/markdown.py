"""Markdown (CommonMark with tables): headings, paragraphs, list items, table rows and code with line anchors.

The body holds the rendered text: emphasis marks and link targets are gone, so that words match and quotes read well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from cortex.documents import Anchor, BlockKind, ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.dates import parse_date
from data_jobs.parsers.decode import decode
from data_jobs.parsers.front_matter import read_front_matter
from data_jobs.parsers.tables import Row, add_table

_WIKI_LINK = re.compile(r"\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]+))?\]\]")
_MAX_LIST_DEPTH = 12


def parse_markdown(content: bytes, name: str) -> ParsedBody:
    """Parse a Markdown file with optional YAML front matter."""
    text = decode(content)
    front = read_front_matter(text)
    builder = BodyBuilder()
    render(builder, markdown().parse(text[front.end :]), front.n_lines)
    return finish(builder, front.values)


def render(builder: BodyBuilder, tokens: list[Token], n_lines_before: int) -> None:
    """Add the blocks of a token stream that begins after some lines of its file."""
    _Renderer(builder, n_lines_before).render(tokens)


def finish(builder: BodyBuilder, front: Mapping[str, str]) -> ParsedBody:
    """Return the body with what the front matter says of it."""
    return builder.finish(
        title=front.get("title", ""),
        author=front.get("author", ""),
        language=front.get("lang", "")[:2].lower(),
        created_at=parse_date(front.get("created", "") or front.get("date", "")),
        updated_at=parse_date(front.get("updated", "") or front.get("modified", "")),
        meta=front,
    )


@lru_cache(maxsize=1)
def markdown() -> MarkdownIt:
    """Return the one tokeniser: CommonMark with tables and strikethrough."""
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


class _Renderer:
    """Turns the token stream of one file into blocks; it holds where in lists and tables the stream is."""

    def __init__(self, builder: BodyBuilder, n_lines_before: int) -> None:
        self._builder = builder
        self._before = n_lines_before
        self._lists: list[bool] = []  # is it ordered, for each open list
        self._marker = ""
        self._level = 0
        self._rows: list[Row] | None = None
        self._cells: list[str] = []
        self._row_anchor = Anchor()

    def render(self, tokens: list[Token]) -> None:
        """Add the blocks of all tokens."""
        for token in tokens:
            match token.type:
                case "inline":
                    self._inline(token)
                case "heading_open":
                    self._level = int(token.tag[1])
                case "heading_close":
                    self._level = 0
                case "fence" | "code_block":
                    self._builder.add(BlockKind.CODE, token.content, self._anchor(token))
                case "html_block":
                    self._html(token)
                case "bullet_list_open" | "ordered_list_open":
                    self._lists.append(token.type.startswith("ordered"))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                case "list_item_open":
                    self._marker = self._item_marker(token)
                case "list_item_close":
                    self._marker = ""
                case "table_open":
                    self._rows = []
                case "tr_open":
                    self._cells, self._row_anchor = [], self._anchor(token)
                case "tr_close" if self._rows is not None:
                    self._rows.append(Row(tuple(self._cells), self._row_anchor))
                case "table_close":
                    add_table(self._builder, self._rows or [], 1)
                    self._rows = None
                case _:
                    pass

    def _inline(self, token: Token) -> None:
        text = inline_text(token)
        if self._rows is not None:
            self._cells.append(text)
        elif self._level:
            self._builder.heading(text, self._level, self._anchor(token))
        elif self._lists:
            self._builder.add(BlockKind.LIST, self._marker + text, self._anchor(token))
            self._marker = " " * len(self._marker)
        else:
            self._builder.add(BlockKind.PARAGRAPH, text, self._anchor(token))

    def _html(self, token: Token) -> None:
        if token.content.lstrip().startswith("<!--"):
            return
        from data_jobs.parsers.html import add_fragment

        add_fragment(self._builder, token.content, self._anchor(token))

    def _item_marker(self, token: Token) -> str:
        indent = "  " * (min(len(self._lists), _MAX_LIST_DEPTH) - 1)
        return f"{indent}{token.info}{token.markup} " if self._lists[-1] else f"{indent}- "

    def _anchor(self, token: Token) -> Anchor:
        if token.map is None:
            return Anchor()
        start, end = token.map
        return Anchor("line", self._before + start + 1, self._before + max(end, start + 1))


def inline_text(token: Token) -> str:
    """Render an inline token to plain text: link texts, image descriptions, code; wiki links by their alias."""
    parts: list[str] = []
    for child in token.children or ():
        match child.type:
            case "text" | "code_inline":
                parts.append(child.content)
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "image":
                parts.append(child.content)
            case "html_inline" if child.content.lower().startswith("<br"):
                parts.append("\n")
            case _:
                pass
    text = "".join(parts)
    return _WIKI_LINK.sub(lambda link: link.group(2) or link.group(1), text) if "[[" in text else text
