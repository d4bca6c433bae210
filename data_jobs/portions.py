"""Portions: the listing of a load, cut into what is prepared at once, and into windows of what is held of it at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cortex.ids import sha256_hex
from data_jobs.checkpoint import Part
from data_jobs.rows import Row

# A portion is what a killed worker prepares again: a fraction of a second, or one large document.
_ROWS_PER_PORTION = 32
_BYTES_PER_PORTION = 4_000_000
# What is held of the listing at once: about a kilobyte a row where rows are paths.
_ROWS_PER_WINDOW = 20_000
_BYTES_PER_WINDOW = 64_000_000


@dataclass(frozen=True, slots=True)
class Portion:
    """Some documents that become one part, of that name; `first` of the run's documents come before them."""

    name: str
    first: int
    rows: tuple[Row, ...]
    is_prepared: bool = False

    @property
    def n_bytes(self) -> int:
        """Add up its documents, as far as their sizes are known before they are read."""
        return _n_bytes(self.rows)


def portions(rows: Iterator[Row], prepared: Mapping[tuple[str, str], Part]) -> Iterator[Portion]:
    """Cut a listing; documents that an earlier run prepared together stay together."""
    first = 0
    left = dict(prepared)
    pending: list[Row] = []
    part: Part | None = None
    for row in rows:
        its_part = left.get((row.item.external_id, row.fingerprint))
        if pending and (its_part != part or _is_full(pending, is_prepared=part is not None)):
            yield (portion := _portion(pending, first, part))
            first += len(portion.rows)
            if part is not None:  # it is dropped once used
                left = {key: other for key, other in left.items() if other != part}
                its_part = left.get((row.item.external_id, row.fingerprint))
            pending = []
        part = its_part
        pending.append(row)
    if pending:
        yield _portion(pending, first, part)


def windows(cut: Iterator[Portion]) -> Iterator[list[Portion]]:
    """Collect portions until they hold enough rows, or enough content."""
    window: list[Portion] = []
    n_rows = n_bytes = 0
    for portion in cut:
        window.append(portion)
        n_rows += len(portion.rows)
        n_bytes += sum(len(row.item.content or b"") for row in portion.rows)
        if n_rows >= _ROWS_PER_WINDOW or n_bytes >= _BYTES_PER_WINDOW:
            yield window
            window, n_rows, n_bytes = [], 0, 0
    if window:
        yield window


def _is_full(rows: list[Row], *, is_prepared: bool) -> bool:
    return not is_prepared and (len(rows) >= _ROWS_PER_PORTION or _n_bytes(rows) >= _BYTES_PER_PORTION)


def _n_bytes(rows: Sequence[Row]) -> int:
    return sum(row.item.size_bytes or len(row.item.content or b"") for row in rows)


def _portion(rows: list[Row], first: int, part: Part | None) -> Portion:
    if part is not None:
        return Portion(part.name, first, tuple(rows), is_prepared=True)
    keys = [(row.item.external_id, row.fingerprint) for row in rows]
    return Portion(sha256_hex(json.dumps(keys).encode())[:16], first, tuple(rows))
