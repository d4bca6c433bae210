"""Blocks are exact, ordered, non-overlapping byte spans of the body, whatever the file holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cortex.documents import BlockKind, ParsedBody
from cortex.errors import Unparsable
from data_jobs.parsers.asciidoc import parse_asciidoc
from data_jobs.parsers.captions import parse_captions
from data_jobs.parsers.code import parse_code
from data_jobs.parsers.delimited import parse_delimited
from data_jobs.parsers.html import parse_html
from data_jobs.parsers.markdown import parse_markdown
from data_jobs.parsers.org import parse_org
from data_jobs.parsers.rst import parse_rst
from data_jobs.parsers.rtf import parse_rtf
from data_jobs.parsers.tex import parse_tex
from data_jobs.parsers.text import parse_text

# Pieces that mean something to one of the formats, mixed with any characters at all.
MARKUP = """# |## |- |1. |> |```|<p>|</p>|<td>|<tr>|<table>|</table>|<h2>|<li>|<ul>|<b>|&amp;|<!--|-->|    |[[a|b]]|[x](y)
def f():|class A:|a,b|;|"|\\"""
PIECES = st.one_of(
    st.sampled_from(
        [*MARKUP.split("|"), "|", "a | b\n|---|---|\n", "\n", "\n\n", "\t", "---\n", "\r\n", "\r", "\0", "é", "漢字", "🦆"]
    ),
    st.text(max_size=12),
)  # fmt: skip


def parse_rtf_text(content: bytes, name: str) -> ParsedBody:
    return parse_rtf(b"{\\rtf1 " + content, name)


MARKUPS = [parse_asciidoc, parse_rst, parse_org, parse_tex, parse_captions, parse_rtf_text]
FILES = st.lists(PIECES, max_size=60).map("".join)


def check(parsed: ParsedBody) -> None:
    encoded = parsed.body.encode()
    at = 0
    headings: list[tuple[int, str]] = []
    for block in parsed.blocks:
        assert at <= block.byte_start < block.byte_end <= len(encoded)
        assert encoded[block.byte_start : block.byte_end].decode() == block.text
        assert block.text.strip()
        assert "\x00" not in block.text
        at = block.byte_end
        if block.kind is BlockKind.HEADING:
            headings = [pair for pair in headings if pair[0] < block.level]
            assert block.heading_path == tuple(text for _, text in headings)
            headings.append((block.level, block.text))
        elif block.heading_path:
            assert block.heading_path == tuple(text for _, text in headings)


@pytest.mark.parametrize("parser", [parse_text, parse_markdown, parse_html, parse_code, *MARKUPS])
@given(text=FILES)
@settings(max_examples=150, deadline=None)
def test_blocks_are_spans(parser: Callable[[bytes, str], ParsedBody], text: str) -> None:
    """Any text, read as any of the formats, gives blocks that are exact spans, with heading paths that add up."""
    check(parser(text.encode("utf-8", "surrogatepass"), "a.py"))


@given(text=FILES)
@settings(max_examples=150, deadline=None)
def test_records_are_spans(text: str) -> None:
    """Any text read as a table gives exact spans, or is refused as malformed."""
    try:
        check(parse_delimited(text.encode("utf-8", "surrogatepass"), "a.csv"))
    except Unparsable as error:
        assert error.error_code == "document.corrupt"


@given(content=st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_decode(content: bytes) -> None:
    """Bytes in any encoding, or in none, become text without an exception."""
    check(parse_text(content, "a.txt"))


@given(lines=st.lists(st.text(alphabet="ab é漢", max_size=8), max_size=30))
def test_text_lines_are_found_by_their_anchor(lines: list[str]) -> None:
    """The lines that an anchor names hold the block's text."""
    parsed = parse_text("\n".join(lines).encode(), "a.txt")
    for block in parsed.blocks:
        assert "\n".join(lines[block.anchor.start - 1 : block.anchor.end]) == block.text
