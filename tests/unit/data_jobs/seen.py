"""How tests look at a parsed body: its blocks as plain tuples, after checking that each is an exact span."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex.documents import ParsedBody
from cortex.errors import Unparsable
from data_jobs.parsers.registry import parse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "documents"


def seen(content: bytes | str, name: str) -> list[tuple[str, str, str]]:
    """Parse and return (kind, text, anchor fragment) of every block."""
    return blocks(parsed(content, name))


def parsed(content: bytes | str, name: str) -> ParsedBody:
    """Parse in this process."""
    return parse(content.encode() if isinstance(content, str) else content, name)


def blocks(body: ParsedBody) -> list[tuple[str, str, str]]:
    """Return (kind, text, anchor fragment) of every block, each checked to be its span of the body."""
    encoded = body.body.encode()
    for block in body.blocks:
        assert encoded[block.byte_start : block.byte_end].decode() == block.text
    return [(block.kind.value, block.text, block.anchor.fragment) for block in body.blocks]


def code_of(content: bytes | str, name: str) -> str:
    """Return the code with which a file is refused."""
    with pytest.raises(Unparsable) as caught:
        parsed(content, name)
    return caught.value.error_code
