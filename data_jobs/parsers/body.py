"""Body builders: they put text together and keep the promise that every block is an exact byte span of the body."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from cortex.documents import Anchor, Block, BlockKind, ParsedBody
from data_jobs.parsers.failures import FailureCode, unparsable

NOWHERE = Anchor()
# Far above any document people read; below what would strain the parent, which holds the body and its blocks.
MAX_BODY_BYTES = 64_000_000
MAX_BLOCKS = 500_000

# NUL cannot be stored in Postgres, lone surrogates cannot be encoded, other controls are never text.
_UNSTORABLE = re.compile("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_BLANK_RUN = re.compile(r"\n\s*\n")
_DENSE = frozenset({BlockKind.LIST, BlockKind.TABLE_ROW, BlockKind.TURN})


def clean(text: str) -> str:
    """Drop characters that no store or terminal can hold, and settle line ends as newlines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n")
    return _UNSTORABLE.sub("", text)


@dataclass(frozen=True, slots=True)
class Span:
    """A block to be cut out of a finished body: half-open character positions."""

    kind: BlockKind
    start: int
    end: int
    anchor: Anchor = NOWHERE
    symbol: str = ""


class BodyBuilder:
    """Builds a body block by block: headings nest, dense kinds (list, row, turn) stand on adjacent lines."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._blocks: list[Block] = []
        self._offset = 0
        self._headings: list[tuple[int, str]] = []
        self._path: tuple[str, ...] = ()
        self.first_heading = ""

    def __len__(self) -> int:
        return len(self._blocks)

    def heading(self, text: str, level: int, anchor: Anchor = NOWHERE) -> None:
        """Add a heading of level 1-6; what follows stands under it until one of the same or a higher rank."""
        text = " ".join(clean(text).split())
        if not text:
            return
        level = min(max(level, 1), 6)
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        self._path = tuple(name for _, name in self._headings)
        self._append(BlockKind.HEADING, text, anchor, level=level)
        self._headings.append((level, text))
        self._path = (*self._path, text)
        self.first_heading = self.first_heading or text

    def add(
        self, kind: BlockKind, text: str, anchor: Anchor = NOWHERE, *, speaker: str = "", symbol: str = ""
    ) -> None:
        """Add a block unless its text is blank; blank lines inside it are closed up, except in code."""
        if text.isprintable():  # one line without anything to clean: most rows and items
            text = text.rstrip() if kind in (BlockKind.CODE, BlockKind.LIST) else text.strip()
            if text:
                self._append(kind, text, anchor, speaker=speaker, symbol=symbol)
            return
        text = clean(text)
        if kind is BlockKind.CODE:
            text = text.strip("\n")
        elif kind is BlockKind.LIST:  # its indentation says how deep it is nested
            text = _BLANK_RUN.sub("\n", text.strip("\n").rstrip())
        else:
            text = _BLANK_RUN.sub("\n", text.strip())
        if text.strip():
            self._append(kind, text, anchor, speaker=speaker, symbol=symbol)

    def extend(self, parsed: ParsedBody, *, at_source: bool = True, level_shift: int = 0) -> None:
        """Append another body's blocks under the current heading.

        Their anchors are dropped unless `at_source`: a line of an attachment is no line of the file that holds it.
        """
        for block in parsed.blocks:
            where = block.anchor if at_source else NOWHERE
            if block.kind is BlockKind.HEADING:
                self.heading(block.text, block.level + level_shift, where)
            else:
                self._append(block.kind, block.text, where, speaker=block.speaker, symbol=block.symbol)

    def finish(
        self,
        *,
        title: str = "",
        author: str = "",
        language: str = "",
        created_at: datetime | None = None,
        updated_at: datetime | None = None,
        meta: Mapping[str, str] | None = None,
    ) -> ParsedBody:
        """Return the body with its blocks; the title defaults to the first heading."""
        return ParsedBody(
            body="".join(self._parts),
            blocks=tuple(self._blocks),
            title=_one_line(title) or self.first_heading,
            author=_one_line(author),
            language=language,
            created_at=created_at,
            updated_at=updated_at,
            meta={clean(name): clean(value) for name, value in (meta or {}).items()},
        )

    def _append(
        self,
        kind: BlockKind,
        text: str,
        anchor: Anchor,
        *,
        level: int = 0,
        speaker: str = "",
        symbol: str = "",
    ) -> None:
        if self._blocks:
            is_dense = kind in _DENSE and self._blocks[-1].kind is kind
            self._put("\n" if is_dense else "\n\n")
        start = self._offset
        self._put(text)
        block = Block(kind, text, start, self._offset, anchor, self._path, level, speaker, symbol)
        self._blocks.append(block)
        _check_size(self._offset, len(self._blocks))

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._offset += len(text) if text.isascii() else len(text.encode())


def cut(body: str, spans: Iterable[Span]) -> ParsedBody:
    """Cut blocks out of a cleaned body; spans are in order, apart, and lose surrounding blank lines."""
    blocks: list[Block] = []
    at_char = at_byte = 0
    for span in spans:
        text = body[span.start : span.end]
        at_byte += _byte_length(body, at_char, span.start)
        end_byte = at_byte + len(text.encode())
        blocks.append(Block(span.kind, text, at_byte, end_byte, span.anchor, symbol=span.symbol))
        at_char, at_byte = span.end, end_byte
        _check_size(at_byte, len(blocks))
    return ParsedBody(body=body, blocks=tuple(blocks))


def with_meta(parsed: ParsedBody, **found: str) -> ParsedBody:
    """Return the body with more metadata; empty values are left out."""
    return replace(parsed, meta={**parsed.meta, **{name: value for name, value in found.items() if value}})


def _byte_length(body: str, start: int, end: int) -> int:
    return len(body[start:end].encode())


def _one_line(text: str) -> str:
    return " ".join(clean(text).split())


def _check_size(n_bytes: int, n_blocks: int) -> None:
    if n_bytes > MAX_BODY_BYTES or n_blocks > MAX_BLOCKS:
        raise unparsable(
            FailureCode.TOO_LARGE,
            f"its text exceeds {MAX_BODY_BYTES:,} bytes or {MAX_BLOCKS:,} blocks",
            "split the file",
        )
