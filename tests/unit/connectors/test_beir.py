"""The BEIR connector on lines that are not what they should be."""

from __future__ import annotations

import json
from pathlib import Path

from connectors.beir import CORPUS, MAX_LINE_BYTES, BeirConnector
from cortex.documents import Item
from cortex.ports.connectors import FetchFailure, SourceConfig


def listed(root: Path, content: bytes) -> tuple[list[str], dict[str, str]]:
    (root / CORPUS).write_bytes(content)
    source = BeirConnector(SourceConfig("acme", "s", "beir", "corpus", options={"root": str(root)}))
    found = list(source.fetch(""))
    return (
        [each.external_id for each in found if isinstance(each, Item)],
        {each.external_id: each.code for each in found if isinstance(each, FetchFailure)},
    )


def test_bad_lines_are_reported_and_the_others_listed(tmp_path: Path) -> None:
    """A line that is too long, no JSON, or no passage is a failure by its number; what follows it is read."""
    good = json.dumps({"_id": "a", "text": "One"}).encode()
    long = b'{"_id": "b", "text": "' + b"x" * MAX_LINE_BYTES + b'"}'
    lines = [
        good,
        long,
        b"{",
        b"[1]",
        b'{"_id": "c"}',
        b"[" * 100_000,
        b"\xff",
        b"",
        good.replace(b"a", b"d", 1),
    ]
    ids, failed = listed(tmp_path, b"\n".join(lines))
    assert ids == ["a", "d"]
    assert failed == {"line 2": "line.too_large", **{f"line {n}": "line.malformed" for n in (3, 4, 5, 6, 7)}}


def test_what_no_store_can_hold_is_mended(tmp_path: Path) -> None:
    """NUL and lone surrogates in ids and titles are left out or replaced."""
    ids, failed = listed(tmp_path, b'{"_id": "a\\u0000\\ud800", "title": "\\ud800", "text": "One"}')
    assert (ids, failed) == (["a?"], {})
