"""Spans as they are kept on this machine: one JSON object a line, written by each process, read by `cortex trace`.

A line holds names, ids, counts, codes and times: never text of questions, documents or answers, and nobody's address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

Attribute: TypeAlias = str | int | float | bool

SUFFIX = ".jsonl"
WRITTEN_WITHIN_S = 1.0  # of a span's end, as long as its process lives
# The first field, so that a reader knows a line's trace before it reads the rest.
_OPENING = b'{"trace_id": "'
_TRACE_ID_CHARS = 32
_END = 2**63  # nanoseconds: the year 2262


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One finished span. `kind` is server, client or internal; `error` the code or type of what failed, else empty."""

    trace_id: str
    span_id: str
    parent_id: str  # empty: it began the trace
    name: str
    kind: str
    process: str  # the program or stage that it ran in
    pid: int
    started_at_ns: int  # since 1970
    duration_ns: int
    error: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)

    @property
    def ended_at_ns(self) -> int:
        """When it ended."""
        return self.started_at_ns + self.duration_ns


# `asdict` would copy every value, for several times the price of writing them.
_FIELDS = tuple(each.name for each in fields(SpanRecord))


def span_line(record: SpanRecord) -> bytes:
    """Write a span as one line."""
    return json.dumps({name: getattr(record, name) for name in _FIELDS}).encode() + b"\n"


def trace_id_of(line: bytes) -> str:
    """Return the trace id of a line without reading the rest; empty for what is no whole line of ours."""
    end = len(_OPENING) + _TRACE_ID_CHARS
    is_whole = line.startswith(_OPENING) and line[end : end + 1] == b'"' and line.endswith(b"}\n")
    return line[len(_OPENING) : end].decode("ascii", "replace") if is_whole else ""


def read_span(line: bytes) -> SpanRecord | None:
    """Read a line; None when it is broken."""
    try:
        found: Any = json.loads(line)
        record = SpanRecord(**found)
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (record.trace_id, record.span_id, record.parent_id, record.name, record.kind, record.process)
    whole = (record.pid, record.started_at_ns, record.duration_ns)
    is_sound = (
        all(isinstance(each, str) for each in (*texts, record.error))
        and all(type(each) is int and 0 <= each < _END for each in whole)
        and isinstance(record.attributes, dict)
    )
    return record if is_sound else None
