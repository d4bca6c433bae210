"""The spans of one trace, found in the files that this machine's processes write, and put in order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cortex.errors import InputError, NotFound
from cortex.traces import SUFFIX, SpanRecord, read_span, trace_id_of

_TRACE_ID = re.compile(r"[0-9a-f]{4,32}")


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as far as this machine has it: its spans in order, each with how deep it lies, and lines that were broken."""

    trace_id: str
    spans: tuple[tuple[int, SpanRecord], ...]
    n_broken: int

    @property
    def started_at_ns(self) -> int:
        """When its first span began."""
        return min(span.started_at_ns for _, span in self.spans)

    @property
    def ended_at_ns(self) -> int:
        """When its last span ended."""
        return max(span.ended_at_ns for _, span in self.spans)


def find_trace(folder: Path, prefix: str) -> Trace:
    """Find the trace whose id begins with at least four hex digits.

    Raises InputError for what is no such beginning or begins several, NotFound when this machine has no such trace.
    """
    prefix = prefix.lower()
    if not _TRACE_ID.fullmatch(prefix):
        raise InputError(
            "a trace id has 32 hex digits; its first four are enough",
            code="trace.malformed",
            hint="take it from an answer, a problem document or the header x-trace-id",
        )
    found, n_broken = _read(folder, prefix)
    if len(found) > 1:
        raise InputError(
            f"{len(found)} traces begin with {prefix}", code="trace.ambiguous", hint="give more digits"
        )
    for trace_id, spans in found.items():
        return Trace(trace_id, tuple(in_order(spans)), n_broken)
    raise NotFound(
        "this machine has no spans of such a trace",
        code="trace.unknown",
        hint="ask on the machine that answered, with its CORTEX_HOME; old spans are dropped (CORTEX_TRACE_BYTES), and "
        "nothing is recorded of requests left out by CORTEX_TRACE_RATE, CORTEX_TRACE_RATIO or their caller",
    )


def in_order(spans: Sequence[SpanRecord]) -> Iterator[tuple[int, SpanRecord]]:
    """Order spans as a tree, each before its children, siblings by time; one whose parent is not there begins a tree."""
    by_time = sorted(spans, key=lambda span: (span.started_at_ns, -span.duration_ns, span.span_id))
    known = {span.span_id for span in spans}
    children: defaultdict[str, list[SpanRecord]] = defaultdict(list)
    for span in by_time:
        children[span.parent_id].append(span)
    # All of them behind the roots, so that even spans that name each other as parents are shown.
    waiting = [(0, span) for span in (*(each for each in by_time if each.parent_id not in known), *by_time)][
        ::-1
    ]
    shown: set[str] = set()
    while waiting:
        depth, span = waiting.pop()
        if span.span_id not in shown:
            shown.add(span.span_id)
            yield depth, span
            waiting += [(depth + 1, child) for child in reversed(children[span.span_id])]


def _read(folder: Path, prefix: str) -> tuple[dict[str, list[SpanRecord]], int]:
    """Read the spans of all traces with such an id, and count the broken lines of all files."""
    found: defaultdict[str, list[SpanRecord]] = defaultdict(list)
    n_broken = 0
    for line in _lines(folder):
        trace_id = trace_id_of(line)
        if trace_id and not trace_id.startswith(prefix):
            continue
        span = read_span(line) if trace_id else None
        if span is None:
            n_broken += 1
        else:
            found[trace_id].append(span)
    return found, n_broken


def _lines(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            with path.open("rb") as file:
                yield from file
        except FileNotFoundError:
            continue  # a process made room meanwhile
