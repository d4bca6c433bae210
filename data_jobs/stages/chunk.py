"""Chunk: blocks into chunks that close at the document's own boundaries and fit the encoder's window.

Reads: document, parsed. Writes: chunks.

A chunk closes at the first block boundary past the target, before a heading or slide once it has some substance, and
always where a sheet or a function ends. A short note stays whole. Title, headings, a table's header and speakers go
in front of the text that is embedded, never into the text that is cited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from cortex.chunks import Chunk
from cortex.documents import Anchor, BlockKind, Document, ParsedBody
from cortex.ids import chunk_id
from cortex.settings import Settings
from data_jobs.units import CountTokens, Unit, UnitLimit, spoken, units_of

# Below these, a boundary is not worth a chunk of its own: a lone brace, a heading with one line under it.
_TINY_TOKENS = 8
_SUBSTANCE_SHARE = 3  # a third of the target
_MIN_PREFIX_TOKENS = 14
_SPECIAL_TOKENS = 2
_RECENT_TEXTS = 64


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """How large chunks are, in the encoder's tokens; `window_tokens` is what it reads of title, headings and text."""

    target_tokens: int
    max_tokens: int
    note_tokens: int
    window_tokens: int

    @classmethod
    def from_settings(cls, settings: Settings) -> ChunkLimits:
        """Take the limits of the settings; a target or note size above the maximum means the maximum."""
        most = settings.chunk_max_tokens
        return cls(
            target_tokens=min(settings.chunk_target_tokens, most),
            max_tokens=most,
            note_tokens=min(settings.atomic_note_tokens, most),
            window_tokens=settings.embedding_max_tokens - _SPECIAL_TOKENS,
        )


class ChunkStage:
    """Cuts parsed documents into chunks."""

    def __init__(self, limits: ChunkLimits, count_tokens: CountTokens, embedding_model_version: str) -> None:
        self._limits = limits
        # A text is measured as a unit, as what its chunk may hold, and as the chunk: often the same text.
        self._count_tokens = lru_cache(_RECENT_TEXTS)(count_tokens)
        self._embedding_model_version = embedding_model_version

    def chunk(self, document: Document, parsed: ParsedBody) -> tuple[Chunk, ...]:
        """Return the document's chunks in order: their spans do not overlap and cover all that is not space."""
        units = list(units_of(parsed, UnitLimit(self._limits.max_tokens, self._count_tokens)))
        encoded = parsed.body.encode()
        headers = _table_headers(units)
        packs = [units] if self._is_note(units) else self._pack(units)
        return tuple(
            self._make(document, encoded, pack, ordinal, headers.get(id(pack[0].block), ""))
            for ordinal, pack in enumerate(filter(None, self._fitting(packs, encoded)))
        )

    def _is_note(self, units: Sequence[Unit]) -> bool:
        """Say whether a document is one short piece of prose, or one function."""
        return (
            sum(unit.n_tokens for unit in units) <= self._limits.note_tokens
            and all(unit.anchor.kind in ("none", "line") for unit in units)
            and len({unit.block.symbol for unit in units}) <= 1
        )

    def _pack(self, units: Sequence[Unit]) -> Iterator[list[Unit]]:
        pack: list[Unit] = []
        n_tokens = 0
        for unit in units:
            if pack and self._closes(pack, n_tokens, unit):
                carried = self._carried(pack, unit)
                yield pack[: len(pack) - len(carried)]
                pack, n_tokens = carried, sum(heading.n_tokens for heading in carried)
            pack.append(unit)
            n_tokens += unit.n_tokens
        yield pack

    def _closes(self, pack: Sequence[Unit], n_tokens: int, unit: Unit) -> bool:
        """Say whether a chunk ends before this unit."""
        last = pack[-1]
        if n_tokens >= self._limits.target_tokens or n_tokens + unit.n_tokens > self._limits.max_tokens:
            return True
        if last.anchor.kind == unit.anchor.kind == "row" and last.anchor.label != unit.anchor.label:
            return True
        if last.block.symbol != unit.block.symbol:
            return min(n_tokens, unit.n_tokens) > _TINY_TOKENS
        has_substance = n_tokens * _SUBSTANCE_SHARE >= self._limits.target_tokens
        is_heading = unit.block.kind is BlockKind.HEADING and last.block.kind is not BlockKind.HEADING
        is_next_slide = unit.anchor.kind == "slide" and unit.anchor.start != last.anchor.end
        return has_substance and (is_heading or is_next_slide)

    def _carried(self, pack: Sequence[Unit], unit: Unit) -> list[Unit]:
        """Return the headings at a chunk's end that belong to what follows, if they fit together."""
        headings = list(takewhile(lambda other: other.block.kind is BlockKind.HEADING, reversed(pack)))[::-1]
        fits = sum(other.n_tokens for other in headings) + unit.n_tokens <= self._limits.max_tokens
        return headings if fits and len(headings) < len(pack) else []

    def _fitting(
        self, packs: Iterator[list[Unit]] | list[list[Unit]], encoded: bytes
    ) -> Iterator[list[Unit]]:
        """Halve packs that are over the limit as a whole: what stands between units counts too."""
        for pack in packs:
            stack = [pack]
            while stack:
                part = stack.pop()
                if len(part) > 1 and self._count_tokens(_text(encoded, part)) > self._limits.max_tokens:
                    middle = len(part) // 2
                    stack += [part[middle:], part[:middle]]
                else:
                    yield part

    def _make(
        self, document: Document, encoded: bytes, pack: Sequence[Unit], ordinal: int, header: str
    ) -> Chunk:
        text = _text(encoded, pack)
        path = _heading_path(pack)
        shown = {unit.text for unit in pack if unit.block.kind is BlockKind.HEADING}
        above = [heading for heading in path if heading not in shown]
        lines = [spoken(unit.block, unit.text) for unit in pack]
        body = "\n".join(lines) if any(unit.block.speaker for unit in pack) else text
        n_tokens = self._count_tokens(text)
        prefix = self._prefix([document.title, *above, header], body, n_tokens)
        return Chunk(
            chunk_id=chunk_id(
                document.document_id, document.content_sha256, ordinal, self._embedding_model_version
            ),
            document_id=document.document_id,
            ordinal=ordinal,
            text=text,
            embed_text=f"{prefix}\n{body}" if prefix else body,
            byte_start=pack[0].byte_start,
            byte_end=pack[-1].byte_end,
            anchor=merge_anchors([unit.anchor for unit in pack]),
            heading_path=path,
            kind=_main_unit(pack).block.kind.value,
            n_tokens=n_tokens,
        )

    def _prefix(self, lines: Sequence[str], body: str, n_tokens: int) -> str:
        """Join what stands above a text, title first; outer headings go first when the window is short of room."""
        budget = max(self._limits.window_tokens - n_tokens, _MIN_PREFIX_TOKENS)
        wanted = [line for line in dict.fromkeys(lines) if line and not body.startswith(line)]
        while len(wanted) > 1 and self._count_tokens("\n".join(wanted)) > budget:
            del wanted[1 if len(wanted) > 2 else 0]
        prefix = "\n".join(wanted)
        return (
            prefix if self._count_tokens(prefix) <= budget else _shorten(prefix, budget, self._count_tokens)
        )


def merge_anchors(anchors: Sequence[Anchor]) -> Anchor:
    """Return the anchor from the first to the last one of the first's kind and sheet."""
    first = next((anchor for anchor in anchors if anchor.kind != "none"), anchors[0])
    alike = [anchor for anchor in anchors if anchor.scope == first.scope]
    ends = (min(anchor.start for anchor in alike), max(anchor.end for anchor in alike))
    return Anchor(first.kind, *ends, first.label)


def _text(encoded: bytes, pack: Sequence[Unit]) -> str:
    return encoded[pack[0].byte_start : pack[-1].byte_end].decode("utf-8")


def _main_unit(pack: Sequence[Unit]) -> Unit:
    """Return the largest unit that is no heading; a chunk of headings alone has its first."""
    content = [unit for unit in pack if unit.block.kind is not BlockKind.HEADING] or list(pack[:1])
    return max(content, key=lambda unit: unit.n_tokens)


def _heading_path(pack: Sequence[Unit]) -> tuple[str, ...]:
    """Return the headings above everything in a chunk, then the symbol of its code."""
    paths = [
        (*unit.block.heading_path, unit.text)
        if unit.block.kind is BlockKind.HEADING
        else unit.block.heading_path
        for unit in pack
    ]
    levels = zip(*paths, strict=False)
    common = tuple(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))
    symbol = _main_unit(pack).block.symbol
    return (*common, symbol) if symbol else common


def _table_headers(units: Sequence[Unit]) -> dict[int, str]:
    """Map each table row's block, by identity, to its table's first row, where its own text does not name the columns."""
    headers: dict[int, str] = {}
    first: Unit | None = None
    for unit in units:
        if unit.block.kind is not BlockKind.TABLE_ROW:
            first = None
        elif first is None or (first.anchor.label, first.block.heading_path) != (
            unit.anchor.label,
            unit.block.heading_path,
        ):
            first = unit
        elif unit.block is not first.block and not _names_columns(unit.text, first.text):
            headers[id(unit.block)] = first.text
    return headers


def _names_columns(row: str, header: str) -> bool:
    names = [name.strip() for name in header.split("|") if name.strip()]
    return sum(name in row for name in names) * 2 >= len(names)


def _shorten(text: str, budget: int, count_tokens: Callable[[str], int]) -> str:
    """Cut words off the end of a text until it fits; empty when not even one does."""
    words = text.split(" ")
    while words and count_tokens(" ".join(words)) > budget:
        words = words[: max(len(words) * 3 // 4, len(words) - 8) if len(words) > 1 else 0]
    return " ".join(words)
