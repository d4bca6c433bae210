"""The wire to the child: what it sends is rebuilt exactly or refused."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from data_jobs.parsers.wire import BrokenWire, decode_result, encode_result, pack, unpack
from tests.unit.data_jobs.seen import parsed

BODY = parsed("# Ü\n\ntext\n", "a.md")


def test_a_result_survives_the_journey() -> None:
    """What goes in comes out."""
    stream = io.BytesIO(b"".join(pack(*encode_result(BODY))))
    assert decode_result(*unpack(stream.read)) == BODY


def changed(**fields: Any) -> dict[str, Any]:
    return {**encode_result(BODY)[0], **fields}


@pytest.mark.parametrize(
    "head",
    [
        {},
        {"failure": {"code": "made.up", "reason": "", "hint": ""}},
        {"failure": "x"},
        changed(blocks=[["paragraph", 0, 999, ["none", 0, 0, ""], 0, 0, "", ""]]),
        changed(blocks=[["paragraph", 2, 2, ["none", 0, 0, ""], 0, 0, "", ""]]),
        changed(blocks=[["paragraph", 0, 1, ["none", 0, 0, ""], 0, 0, "", ""]]),  # half a character
        changed(blocks=[["gossip", 0, 2, ["none", 0, 0, ""], 0, 0, "", ""]]),
        changed(blocks=[["paragraph", 0, 2, ["none", 0, 0, ""], 7, 0, "", ""]]),
        changed(blocks=[["paragraph", 4, 8, ["none", 0, 0, ""], 0, 0, "", ""], ["paragraph", 0, 2, ["none", 0, 0, ""], 0, 0, "", ""]]),
        changed(meta=[]),
        changed(created_at="yesterday"),
    ],
)  # fmt: skip
def test_a_lying_child_is_not_believed(head: dict[str, Any]) -> None:
    """Overlaps, spans outside the body, unknown kinds and codes are refused."""
    with pytest.raises(BrokenWire):
        decode_result(head, BODY.body.encode())


@pytest.mark.parametrize("raw", [b"\xff" * 12, b"\0\0\0\2" + bytes(8) + b"[]", b"\0\0\0\1" + bytes(8) + b"{"])
def test_frames_are_checked(raw: bytes) -> None:
    """Absurd lengths and heads that are no object are refused before anything is read."""
    with pytest.raises(BrokenWire):
        unpack(io.BytesIO(raw).read)


def test_heads_are_json() -> None:
    """Nothing on the wire can build objects."""
    head = pack(*encode_result(BODY))[0][12:]
    assert isinstance(json.loads(head), dict)
