"""The wire between parse and its child: length-prefixed JSON and bytes, so that a hostile file cannot send objects.

A request is a JSON head and the file's bytes. A reply is a JSON head and the body; blocks travel as offsets into the
body, so their texts are exact spans of it by construction. The child is not trusted: everything is checked here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import asdict, astuple
from datetime import datetime
from typing import Any

from cortex.documents import Anchor, Block, BlockKind, ParsedBody
from cortex.edges import Edge, EdgeKind, EdgeSpace, Name
from data_jobs.parsers.failures import FailureCode, ParseFailure

# Four bytes and eight: lengths of the head and of the bytes that follow it.
_LENGTHS = struct.Struct(">IQ")
# A head lists at most 500,000 blocks of some 100 bytes; a body is capped far below.
_MAX_HEAD_BYTES, _MAX_TAIL_BYTES = 200_000_000, 1_000_000_000

Read = Callable[[int], bytes]


class BrokenWire(Exception):
    """What came is not what this protocol sends."""


def pack(head: dict[str, Any], tail: bytes) -> list[bytes]:
    """Frame one message, as pieces to be written in order."""
    encoded = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    return [_LENGTHS.pack(len(encoded), len(tail)) + encoded, tail]


def unpack(read: Read) -> tuple[dict[str, Any], bytes]:
    """Read one message with `read(n)`, which returns exactly n bytes."""
    head_length, tail_length = _LENGTHS.unpack(read(_LENGTHS.size))
    if head_length > _MAX_HEAD_BYTES or tail_length > _MAX_TAIL_BYTES:
        raise BrokenWire("a message is larger than any that we send")
    try:
        head = json.loads(read(head_length))
    except ValueError as error:
        raise BrokenWire("a message head is not JSON") from error
    if not isinstance(head, dict):
        raise BrokenWire("a message head is not an object")
    return head, read(tail_length)


def encode_result(result: ParsedBody | ParseFailure) -> tuple[dict[str, Any], bytes]:
    """Turn a result into a head and the body's bytes."""
    if isinstance(result, ParseFailure):
        return {"failure": asdict(result)}, b""
    paths = {path: i for i, path in enumerate(dict.fromkeys(block.heading_path for block in result.blocks))}
    head = {
        "title": result.title,
        "author": result.author,
        "language": result.language,
        "created_at": result.created_at.isoformat() if result.created_at else None,
        "updated_at": result.updated_at.isoformat() if result.updated_at else None,
        "meta": dict(result.meta),
        "paths": list(paths),
        "blocks": [_encode_block(block, paths[block.heading_path]) for block in result.blocks],
        "edges": [astuple(edge) for edge in result.edges],
        "names": [astuple(name) for name in result.names],
    }
    return head, result.body.encode()


def decode_result(head: dict[str, Any], tail: bytes) -> ParsedBody | ParseFailure:
    """Rebuild a result; raises BrokenWire if it breaks a promise of `ParsedBody`."""
    try:
        if (failure := head.get("failure")) is not None:
            return ParseFailure(FailureCode(failure["code"]), str(failure["reason"]), str(failure["hint"]))
        paths = [tuple(str(name) for name in path) for path in head["paths"]]
        return ParsedBody(
            body=tail.decode(),
            blocks=_decode_blocks(head["blocks"], paths, tail),
            title=str(head["title"]),
            author=str(head["author"]),
            language=str(head["language"]),
            created_at=_instant(head["created_at"]),
            updated_at=_instant(head["updated_at"]),
            meta={str(name): str(value) for name, value in head["meta"].items()},
            edges=tuple(_decode_edge(row, len(tail)) for row in head["edges"]),
            names=tuple(_decode_name(row, len(tail)) for row in head["names"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BrokenWire("a result is malformed") from error


def _encode_block(block: Block, path: int) -> list[Any]:
    anchor = block.anchor
    where = [anchor.kind, anchor.start, anchor.end, anchor.label]
    return [
        block.kind.value,
        block.byte_start,
        block.byte_end,
        where,
        path,
        block.level,
        block.speaker,
        block.symbol,
    ]


def _decode_blocks(rows: list[Any], paths: list[tuple[str, ...]], body: bytes) -> tuple[Block, ...]:
    blocks, at = [], 0
    for kind, start, end, (anchor_kind, first, last, label), path, level, speaker, symbol in rows:
        if not at <= start < end <= len(body):
            raise BrokenWire("blocks overlap or leave the body")
        at = end
        blocks.append(
            Block(
                kind=BlockKind(kind),
                text=body[start:end].decode(),
                byte_start=start,
                byte_end=end,
                anchor=Anchor(str(anchor_kind), int(first), int(last), str(label)),
                heading_path=paths[path],
                level=int(level),
                speaker=str(speaker),
                symbol=str(symbol),
            )
        )
    return tuple(blocks)


def _decode_edge(row: list[Any], n_bytes: int) -> Edge:
    kind, space, target, start, end, anchor, key = row
    if not 0 <= start <= end <= n_bytes:
        raise BrokenWire("a link leaves the body")
    return Edge(EdgeKind(kind), EdgeSpace(space), str(target), int(start), int(end), str(anchor), str(key))


def _decode_name(row: list[Any], n_bytes: int) -> Name:
    space, key, rank, start = row
    if not 0 <= start <= n_bytes:
        raise BrokenWire("a name leaves the body")
    return Name(EdgeSpace(space), str(key), int(rank), int(start))


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
