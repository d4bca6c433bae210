"""HTML: the main text with headings, lists and tables; no scripts, no navigation, and nothing is ever fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import lxml.html
from lxml import etree

from cortex.documents import Anchor, BlockKind, ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.dates import parse_date
from data_jobs.parsers.decode import declared_encoding, decode
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.html_table import HtmlTable, is_data_table

_NEVER_TEXT = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas", "head")
_CONTROLS = frozenset({"button", "select", "input", "textarea", "option", "datalist"})
_BOILERPLATE_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "dialog", "menu", "toolbar"})
# fmt: off
_BLOCKS = frozenset([
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog", "div", "dl",
    "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "li", "main",
    "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr",
    "ul", "caption",
])
# fmt: on
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACES = re.compile(r"\s+")
_XML_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_MAX_LIST_DEPTH = 12


def parse_html(content: bytes, name: str) -> ParsedBody:
    """Parse a page; the encoding is the mark's, UTF-8, or the one that its head names."""
    tree = read_tree(decode(content, declared_encoding(content)))
    if tree is None:
        return ParsedBody(body="", blocks=())
    builder = BodyBuilder()
    _Walker(builder).walk(_main_part(tree))
    if not len(builder):  # all of it looked like boilerplate: then it is the text
        _Walker(builder, keeps_boilerplate=True).walk(tree)
    head = _Head(tree)
    return builder.finish(
        title=head.title,
        author=head.meta("author", "article:author"),
        language=(tree.get("lang") or "").split("-")[0].lower(),
        created_at=parse_date(head.meta("article:published_time", "date", "dcterms.created")),
        updated_at=parse_date(head.meta("article:modified_time", "last-modified", "dcterms.modified")),
        meta={"description": text} if (text := head.meta("description", "og:description")) else {},
    )


def add_fragment(builder: BodyBuilder, fragment: str, anchor: Anchor) -> None:
    """Add the blocks of an HTML fragment inside another document, all with that anchor."""
    tree = read_tree(fragment)
    if tree is not None:
        _Walker(builder, anchor=anchor).walk(tree)


def fragment_text(fragment: str) -> str:
    """Return the text of a short HTML fragment, on one line."""
    tree = read_tree(fragment)
    return "" if tree is None else " ".join(" ".join(tree.itertext()).split())


def read_tree(text: str) -> Any | None:
    """Build the element tree as browsers would, without scripts and styles; None if there is nothing in it."""
    text = _XML_DECLARATION.sub("", text, count=1)
    if not text.strip():
        return None
    parser = lxml.html.HTMLParser(huge_tree=True, remove_comments=True, remove_pis=True, no_network=True)
    try:
        tree = lxml.html.document_fromstring(text, parser=parser)
    except etree.ParserError:  # nothing but comments
        return None
    except (etree.LxmlError, ValueError) as error:
        raise unparsable(FailureCode.CORRUPT, "its HTML cannot be read") from error
    return tree


class _Head:
    """What a page's head says about it."""

    def __init__(self, tree: Any) -> None:
        self._title = "".join(tree.findtext(".//title") or "")
        self._meta: dict[str, str] = {}
        for element in tree.iter("meta"):
            key = (element.get("name") or element.get("property") or "").lower()
            self._meta.setdefault(key, element.get("content") or "")

    @property
    def title(self) -> str:
        return self._title.strip() or self.meta("og:title", "dc.title")

    def meta(self, *names: str) -> str:
        return next((self._meta[name].strip() for name in names if self._meta.get(name)), "")


def _main_part(tree: Any) -> Any:
    """Choose the element that holds the page's own text: `main`, or the only `article`, if it holds most of it."""
    marked = [e for e in tree.iter("main", "article", "div") if e.tag == "main" or e.get("role") == "main"]
    articles = list(tree.iter("article"))
    candidates = marked[:1] or (articles if len(articles) == 1 else [])
    if candidates and _text_length(candidates[0]) >= 0.4 * _text_length(tree):
        return candidates[0]
    return tree


def _text_length(element: Any) -> int:
    walker = etree.iterwalk(element, events=("start", "end"))
    length = 0
    for event, node in walker:
        if event == "start" and node.tag in _NEVER_TEXT:
            walker.skip_subtree()
        elif event == "start":
            length += len((node.text or "").strip())
        elif node is not element:
            length += len((node.tail or "").strip())
    return length


class _Walker:
    """Walks the elements in order, without recursion, and adds a block whenever a block-level element begins or ends."""

    def __init__(
        self, builder: BodyBuilder, *, anchor: Anchor | None = None, keeps_boilerplate: bool = False
    ) -> None:
        self._builder = builder
        self._anchor = anchor
        self._keeps_boilerplate = keeps_boilerplate
        self._inline: list[str] = []
        self._line = 1
        self._heading = 0
        self._pre = 0
        self._lists: list[int] = []  # next number of each open list; 0 for bullets
        self._marker = ""
        self._table: HtmlTable | None = None

    def walk(self, root: Any) -> None:
        """Add the blocks of everything under `root`."""
        walker = etree.iterwalk(root, events=("start", "end"))
        skipped = None
        for event, element in walker:
            if event == "start":
                if element is not root and self._is_skipped(element):
                    walker.skip_subtree()
                    skipped = element
                    continue
                self._open(element)
                self._text(element.text)
            else:
                if element is not skipped:
                    self._close(element)
                if element is not root:
                    self._text(element.tail)
        self._flush()

    def _is_skipped(self, element: Any) -> bool:
        tag = element.tag
        if tag in _NEVER_TEXT or not isinstance(tag, str):
            return True
        if self._keeps_boilerplate:
            return False
        if tag in _CONTROLS or tag == "nav" or element.get("hidden") is not None:
            return True
        if tag in ("footer", "aside"):
            parent = element.getparent()
            return parent is not None and parent.tag == "body"
        if element.get("role") in _BOILERPLATE_ROLES or element.get("aria-hidden") == "true":
            return True
        return bool(_HIDDEN.search(element.get("style") or ""))

    def _open(self, element: Any) -> None:
        tag = element.tag
        if tag == "br":
            self._inline.append("\n")
        elif tag == "img":
            self._text(element.get("alt"))
        if self._table is not None:
            self._table.open(element, self._take)
            self._separate(tag)
            return
        if tag in _BLOCKS or tag in _HEADINGS:
            self._flush()
            self._line = element.sourceline or self._line
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag]
        elif tag == "pre":
            self._pre += 1
        elif tag in ("ul", "ol"):
            self._lists.append(_first_number(element) if tag == "ol" else 0)
        elif tag == "li":
            self._marker = self._next_marker()
        elif tag == "table" and is_data_table(element):
            self._table = HtmlTable()

    def _close(self, element: Any) -> None:
        tag = element.tag
        if self._table is not None:
            self._separate(tag)
            if self._table.close(element, self._take):
                self._table.add_to(self._builder, self._anchor)
                self._table = None
            return
        if tag in _BLOCKS or tag in _HEADINGS:
            self._flush()
        if tag in _HEADINGS:
            self._heading = 0
        elif tag == "pre":
            self._pre = max(self._pre - 1, 0)
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        elif tag == "li":
            self._marker = ""

    def _text(self, text: str | None) -> None:
        if text:
            self._inline.append(text if self._pre and self._table is None else _SPACES.sub(" ", text))

    def _separate(self, tag: str) -> None:
        """Keep the words of neighbouring blocks apart inside a cell."""
        if tag in _BLOCKS or tag in _HEADINGS:
            self._inline.append(" ")

    def _take(self) -> str:
        text = "".join(self._inline)
        self._inline.clear()
        return text

    def _flush(self) -> None:
        text = self._take()
        if not text.strip():
            return
        where = self._anchor or Anchor("line", self._line, self._line)
        if self._heading:
            self._builder.heading(text, self._heading, where)
        elif self._pre:
            self._builder.add(BlockKind.CODE, text, where)
        elif self._lists:
            self._builder.add(BlockKind.LIST, self._marker + _tidy(text), where)
            self._marker = " " * len(self._marker)
        else:
            self._builder.add(BlockKind.PARAGRAPH, _tidy(text), where)

    def _next_marker(self) -> str:
        if not self._lists:
            return ""
        number = self._lists[-1]
        if number:
            self._lists[-1] += 1
        indent = "  " * (min(len(self._lists), _MAX_LIST_DEPTH) - 1)
        return f"{indent}{number}. " if number else f"{indent}- "


def _tidy(text: str) -> str:
    return "\n".join(_lines(text))


def _lines(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        if stripped := " ".join(line.split()):
            yield stripped


def _first_number(element: Any) -> int:
    start = element.get("start") or "1"
    return int(start) if start.isascii() and start.isdigit() and len(start) < 7 else 1
