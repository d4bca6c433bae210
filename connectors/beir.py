"""The BEIR connector: a `corpus.jsonl` of {id, title, text[, meta]} as a source that everyone in the tenant may read.

Options: `root` (the folder that holds `corpus.jsonl`). Used by `cortex eval retrieval`. A cursor is the byte offset
after the last line taken. Form: Thakur et al. 2021, https://github.com/beir-cellar/beir (both `id` and `_id` are read).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from connectors.document import document_of
from connectors.storable import storable
from cortex.documents import EVERYONE, Acl, Document, Item, Membership, ParsedBody
from cortex.errors import InputError, Unauthenticated
from cortex.ports.connectors import Fetched, FetchFailure, SourceConfig, WebhookEvent

CORPUS = "corpus.jsonl"
MAX_LINE_BYTES = 10_000_000


class BeirConnector:
    """The passages of one evaluation corpus."""

    source_type: ClassVar[str] = "beir"

    def __init__(self, config: SourceConfig) -> None:
        if not config.options.get("root"):
            raise InputError("a BEIR source needs the root option: its folder", code="source.invalid")
        self._config = config
        self._corpus = Path(config.options["root"]).expanduser().resolve() / CORPUS

    def fetch(self, cursor: str) -> Iterator[Fetched]:
        """List passages in the order of the file; a line that cannot be used is a failure named by its number."""
        try:
            with self._corpus.open("rb") as file:
                yield from _lines(file, *_position(cursor))
        except OSError as error:
            yield FetchFailure("", "folder.unreadable", f"{self._corpus.name}: {error.strerror}")

    def normalize(self, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
        """Make the document of a passage; its title comes with the item."""
        permalink = f"{self._corpus.as_uri()}#L{item.meta['line']}"
        document = document_of(self._config, item, parsed, content_sha256, permalink)
        return replace(document, title=item.meta.get("title", ""), meta={"line": item.meta["line"]})

    def acls(self, item: Item) -> Acl:
        """Let everyone in the tenant read: an evaluation corpus is public."""
        return EVERYONE

    def memberships(self) -> Iterable[Membership]:
        """List none: nothing is granted to groups."""
        return ()

    def cursor(self, items: Sequence[Item]) -> str:
        """Return line number and byte offset after the last item."""
        return f"{items[-1].meta['line']}:{items[-1].meta['offset']}" if items else ""

    def webhook(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        """Refuse every push: a file sends none."""
        raise Unauthenticated("a corpus sends no pushes", code="webhook.unsigned")


def _position(cursor: str) -> tuple[int, int]:
    """Read (lines taken, byte offset) from a cursor; raises InputError for one of another connector."""
    number, _, offset = (cursor or "0:0").partition(":")
    if not (number.isdecimal() and offset.isdecimal()):
        raise InputError(f"not a cursor of a BEIR source: {cursor!r}", code="cursor.invalid")
    return int(number), int(offset)


def _lines(file: BinaryIO, number: int, offset: int) -> Iterator[Item | FetchFailure]:
    file.seek(offset)
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            _skip_rest_of_line(file, line)
            yield FetchFailure(f"line {number}", "line.too_large", f"the line is over {MAX_LINE_BYTES} bytes")
        elif line.strip():
            yield _passage(line, number, file.tell())


def _skip_rest_of_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(MAX_LINE_BYTES)


def _passage(line: bytes, number: int, end_offset: int) -> Item | FetchFailure:
    try:
        record: Any = json.loads(line)
        external_id = storable(str(record["_id"] if "_id" in record else record["id"]))
        title, text = storable(str(record.get("title") or "")), storable(str(record["text"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"no passage with id and text: {type(error).__name__}"
        return FetchFailure(f"line {number}", "line.malformed", reason)
    content = (text or title).encode()
    meta = {"title": title, "line": str(number), "offset": str(end_offset)}
    return Item(external_id, "text/plain", content=content, size_bytes=len(content), meta=meta)
