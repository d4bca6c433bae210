"""Source code: functions and classes as blocks with their symbol and lines, found by tree-sitter; the body is the file.

Comments and decorators directly above a definition belong to it. What stands between definitions is code without a
symbol. A language without a grammar, or a file it cannot follow, is cut at blank lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cortex.documents import BlockKind, ParsedBody
from data_jobs.parsers.body import Span, cut
from data_jobs.parsers.decode import decode
from data_jobs.parsers.languages import language_of
from data_jobs.parsers.text import LineIndex, paragraphs

_MAX_PARSED_BYTES = 4_000_000  # beyond it a file is generated data, and a tree costs some 50 bytes per byte
_DEFINITION = re.compile(
    r"(function|method|class|struct|enum|union|trait|interface|impl|module|namespace|object|protocol|record|macro"
    r"|constructor|singleton_method|subroutine|type|mod|extension|package|service|message|test)"
    r"(_(definition|declaration|item|specifier|clause|statement|spec|block))*|method|class|module|impl_item|create_\w+"
)
_WRAPPERS = frozenset(
    {
        "decorated_definition",
        "export_statement",
        "template_declaration",
        "internal_module",
        "declaration_list",
    }
)
_CONTAINERS = re.compile(
    r".*(class|struct|trait|interface|impl|module|namespace|object|protocol|mod_|extension).*"
)
_ATTACHED = frozenset(
    {"comment", "line_comment", "block_comment", "attribute_item", "attribute", "decorator"}
)


@dataclass(frozen=True, slots=True)
class _Definition:
    start: int  # bytes
    end: int
    symbol: str


def parse_code(content: bytes, name: str) -> ParsedBody:
    """Parse a source file whose language its name tells."""
    body = decode(content)
    encoded = body.encode()
    language = language_of(name)
    definitions = _definitions(encoded, language) if language and len(encoded) <= _MAX_PARSED_BYTES else []
    return cut(body, _spans(body, encoded, definitions))


def _definitions(encoded: bytes, language: str) -> list[_Definition]:
    from tree_sitter_language_pack import get_parser

    try:
        parser = get_parser(language)
    except LookupError:
        return []
    return list(_walk(parser.parse(encoded).root_node, (), 0))


def _walk(node: Any, scope: tuple[str, ...], depth: int) -> Iterator[_Definition]:
    """Yield the definitions below a node in order; a container yields its head, then its members, then nothing more."""
    if depth > 12:
        return
    attached: int | None = None
    last_row = -1
    for child in node.named_children:
        is_on_own_line, last_row = child.start_point.row > last_row, child.end_point.row
        if child.type in _ATTACHED and is_on_own_line:
            attached = child.start_byte if attached is None else attached
            continue
        start = child.start_byte if attached is None else attached
        attached = None
        inner = _inner(child)
        if inner is None:
            if child.type in _WRAPPERS:
                yield from _walk(child, scope, depth + 1)
            continue
        path = (*scope, _name(inner) or inner.type)
        members = list(_members(inner, path, depth)) if _CONTAINERS.fullmatch(inner.type) else []
        if not members:
            yield _Definition(start, child.end_byte, ".".join(path))
            continue
        yield _Definition(start, members[0].start, ".".join(path))
        yield from members
        if members[-1].end < child.end_byte:
            yield _Definition(members[-1].end, child.end_byte, ".".join(path))


def _members(node: Any, path: tuple[str, ...], depth: int) -> Iterator[_Definition]:
    body = node.child_by_field_name("body") or next(
        (child for child in node.named_children if "body" in child.type or "block" in child.type), None
    )
    if body is not None:
        yield from _walk(body, path, depth + 1)


def _inner(node: Any) -> Any | None:
    """Return the definition that a node is or wraps (decorators, exports, templates); None if it is none."""
    for _ in range(4):
        if node.type not in _WRAPPERS:
            break
        inner = next((child for child in node.named_children if _is_definition(child)), None)
        if inner is None:
            return None
        node = inner
    return node if _is_definition(node) else None


def _is_definition(node: Any) -> bool:
    return node.type in _WRAPPERS or _DEFINITION.fullmatch(node.type) is not None


def _name(node: Any) -> str:
    """Find the name of a definition: its name field, or at the end of C's nested declarators."""
    for _ in range(8):
        found = node.child_by_field_name("name") or node.child_by_field_name("type")
        if found is not None and node.child_by_field_name("declarator") is None:
            return _text(found)
        inner = node.child_by_field_name("declarator")
        if inner is None:
            break
        node = inner
    is_name = node.type in ("identifier", "field_identifier", "qualified_identifier", "type_identifier")
    return _text(node) if is_name else ""


def _text(node: Any) -> str:
    return (node.text or b"").decode(errors="replace")[:200].split("\n")[0]


def _spans(body: str, encoded: bytes, definitions: list[_Definition]) -> Iterator[Span]:
    """Tile the body: definitions as blocks, and the paragraphs of what lies between them."""
    lines = LineIndex(body)
    to_char = _char_positions(body, encoded, definitions)
    at = 0
    for definition in definitions:
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


def _char_positions(body: str, encoded: bytes, definitions: list[_Definition]) -> dict[int, int]:
    offsets = sorted({offset for d in definitions for offset in (d.start, d.end)})
    if len(body) == len(encoded):
        return {offset: offset for offset in offsets}
    positions, at_byte, at_char = {}, 0, 0
    for offset in offsets:
        at_char += len(encoded[at_byte:offset].decode(errors="replace"))
        at_byte = offset
        positions[offset] = at_char
    return positions
