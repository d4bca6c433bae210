"""Box notes: a JSON tree of nodes (ProseMirror) with headings, lists, check lists, tables and code."""

from __future__ import annotations

import json
from typing import Any

from cortex.documents import BlockKind, ParsedBody
from data_jobs.parsers.body import BodyBuilder
from data_jobs.parsers.decode import decode
from data_jobs.parsers.failures import FailureCode, unparsable
from data_jobs.parsers.tables import Row, add_table

_MAX_DEPTH = 60
_BLOCKS = frozenset({"paragraph", "heading", "code_block", "blockquote"})
_ITEMS = frozenset({"list_item", "check_list_item"})


def parse_boxnote(content: bytes, name: str) -> ParsedBody:
    """Parse a Box note."""
    try:
        root = json.loads(decode(content))
        document = root["doc"] if isinstance(root, dict) else None
    except (ValueError, KeyError, RecursionError) as error:
        raise unparsable(FailureCode.CORRUPT, "it is not a Box note") from error
    builder = BodyBuilder()
    _add(builder, document, "", 0)
    return builder.finish()


def _add(builder: BodyBuilder, node: Any, marker: str, depth: int) -> None:
    """Add a node and what is below it; `marker` stands before the first text of a list item."""
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        return
    kind, attributes = node.get("type"), node.get("attrs")
    attributes = attributes if isinstance(attributes, dict) else {}
    if kind == "heading":
        builder.heading(_text(node, depth), int(attributes.get("level") or 1))
    elif kind == "code_block":
        builder.add(BlockKind.CODE, _text(node, depth))
    elif kind == "table":
        add_table(
            builder, [Row(tuple(_text(c, depth) for c in _children(row))) for row in _children(node)], 1
        )
    elif kind == "paragraph":
        builder.add(BlockKind.LIST if marker else BlockKind.PARAGRAPH, marker + _text(node, depth))
    elif kind in ("bullet_list", "ordered_list", "check_list"):
        _add_list(builder, node, str(kind), marker, depth)
    elif kind in ("text", "image"):
        builder.add(BlockKind.PARAGRAPH, _text(node, depth))
    else:
        for child in _children(node):
            _add(builder, child, marker, depth + 1)


def _add_list(builder: BodyBuilder, node: Any, kind: str, marker: str, depth: int) -> None:
    indent = " " * (len(marker) - len(marker.lstrip()) + 2) if marker else ""
    for number, item in enumerate(_children(node), start=1):
        attributes = item.get("attrs") if isinstance(item, dict) else None
        is_checked = isinstance(attributes, dict) and bool(attributes.get("checked"))
        sign = (
            f"{number}."
            if kind == "ordered_list"
            else f"- [{'x' if is_checked else ' '}]"
            if kind == "check_list"
            else "-"
        )
        for child in _children(item):
            _add(builder, child, f"{indent}{sign} ", depth + 1)


def _children(node: Any) -> list[Any]:
    content = node.get("content") if isinstance(node, dict) else None
    return content if isinstance(content, list) else []


def _text(node: Any, depth: int) -> str:
    if depth > _MAX_DEPTH or not isinstance(node, dict):
        return ""
    if isinstance(node.get("text"), str):
        return str(node["text"])
    attributes = node.get("attrs")
    if node.get("type") == "image" and isinstance(attributes, dict):
        return str(attributes.get("alt") or attributes.get("title") or "")
    separator = "\n" if node.get("type") not in _BLOCKS else ""
    return separator.join(_text(child, depth + 1) for child in _children(node))
