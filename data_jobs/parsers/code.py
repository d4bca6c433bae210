"""Source code: functions and classes as blocks with their symbol and lines, found by tree-sitter; the body is the file.

Comments and decorators directly above a definition belong to it. What stands between definitions is code without a
symbol. A language without a grammar, or a file it cannot follow, is cut at blank lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from cortex.documents import BlockKind, ParsedBody
from data_jobs.parsers.body import Span, cut
from data_jobs.parsers.decode import decode
from data_jobs.parsers.definitions import Definition, definitions
from data_jobs.parsers.languages import language_of
from data_jobs.parsers.text import LineIndex, paragraphs

_MAX_PARSED_BYTES = 4_000_000  # beyond it a file is generated data, and a tree costs some 50 bytes per byte


def parse_code(content: bytes, name: str) -> ParsedBody:
    """Parse a source file whose language its name tells."""
    body = decode(content)
    encoded = body.encode()
    language = language_of(name)
    found = _definitions(encoded, language) if language and len(encoded) <= _MAX_PARSED_BYTES else []
    return cut(body, _spans(body, encoded, found))


def _definitions(encoded: bytes, language: str) -> list[Definition]:
    from tree_sitter_language_pack import get_parser

    try:
        parser = get_parser(language)
    except LookupError:
        return []
    return definitions(parser.parse(encoded).root_node)


def _spans(body: str, encoded: bytes, found: list[Definition]) -> Iterator[Span]:
    """Tile the body: definitions as blocks, and the paragraphs of what lies between them."""
    lines = LineIndex(body)
    to_char = _char_positions(body, encoded, found)
    at = 0
    for definition in found:
        start, end = max(to_char[definition.start], at), to_char[definition.end]
        if start >= end:
            continue
        yield from paragraphs(body, BlockKind.CODE, lines, at, start)
        first, last = _trim(body, start, end)
        if first < last:
            yield Span(BlockKind.CODE, first, last, lines.anchor(first, last), definition.symbol)
        at = end
    yield from paragraphs(body, BlockKind.CODE, lines, at, len(body))


def _trim(body: str, start: int, end: int) -> tuple[int, int]:
    """Leave out blank lines around a span, but keep the first line's indentation."""
    text = body[start:end]
    last = start + len(text.rstrip())
    n_blank = len(text) - len(text.lstrip())
    line_start = text.rfind("\n", 0, n_blank) + 1
    return min(start + line_start, last), last


def _char_positions(body: str, encoded: bytes, found: list[Definition]) -> dict[int, int]:
    offsets = sorted({offset for d in found for offset in (d.start, d.end)})
    if len(body) == len(encoded):
        return {offset: offset for offset in offsets}
    positions, at_byte, at_char = {}, 0, 0
    for offset in offsets:
        at_char += len(encoded[at_byte:offset].decode(errors="replace"))
        at_byte = offset
        positions[offset] = at_char
    return positions
