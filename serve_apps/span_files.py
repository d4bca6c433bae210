"""Finished spans in files of this machine, so that `cortex trace` works without a collector. Their size is bounded."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from cortex.telemetry import event
from cortex.traces import SUFFIX, Attribute, SpanRecord, span_line

# A process writes files of this share of the limit; the oldest are removed whole.
_SHARE = 16
_SCALARS = (str, int, float, bool)


class SpanFiles(SpanExporter):
    """Appends spans to a file of this process, and begins another when that is full.

    All processes of a home share one folder and one limit: each removes the oldest files when it begins a new one, so
    the folder grows past the limit by at most one file of each process. A disk that takes nothing costs spans alone.
    """

    def __init__(self, folder: Path, process: str, limit_bytes: int) -> None:
        self._folder = folder
        self._process = process
        self._limit_bytes = limit_bytes
        self._path = folder / SUFFIX
        self._n_bytes = limit_bytes  # full: the first spans begin a file
        self._is_told = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a batch of spans, whole lines at a time."""
        lines = b"".join(span_line(_record(each, self._process)) for each in spans)
        try:
            if self._n_bytes + len(lines) > self._limit_bytes // _SHARE:
                self._begin_file()
            # Opened for each batch: another process may have removed a file that nothing was written to for long.
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as file:
                file.write(lines)
        except OSError as error:
            self._tell(error)
            self._n_bytes = self._limit_bytes  # the next spans begin a file: this one may end in half a line
            return SpanExportResult.FAILURE
        self._n_bytes += len(lines)
        return SpanExportResult.SUCCESS

    def _begin_file(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make_room(self._folder, self._limit_bytes - self._limit_bytes // _SHARE)
        self._path = self._folder / f"{self._process}-{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._n_bytes = 0

    def _tell(self, error: OSError) -> None:
        """Say once that spans are lost."""
        if not self._is_told:
            event("traces.fail", process=self._process, error=type(error).__name__, errno=error.errno)
            self._is_told = True


def _make_room(folder: Path, limit_bytes: int) -> None:
    """Remove the files that were written to longest ago until the others hold at most so much."""
    kept_bytes = 0
    for _, size, path in sorted(_files(folder), reverse=True):
        kept_bytes += size
        if kept_bytes > limit_bytes:
            path.unlink(missing_ok=True)


def _files(folder: Path) -> list[tuple[float, int, Path]]:
    """List files by when they were written to last, with their sizes."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        try:
            stat = path.stat()
        except FileNotFoundError:
            continue  # another process made room
        found.append((stat.st_mtime, stat.st_size, path))
    return found


def _record(span: ReadableSpan, process: str) -> SpanRecord:
    context, parent = span.get_span_context(), span.parent
    assert context is not None and span.start_time is not None and span.end_time is not None, "it has ended"
    attributes: dict[str, Attribute] = {
        name: value for name, value in (span.attributes or {}).items() if isinstance(value, _SCALARS)
    }
    error = str(attributes.pop("error.type", ""))
    return SpanRecord(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=f"{parent.span_id:016x}" if parent is not None else "",
        name=span.name,
        kind=span.kind.name.lower(),
        process=process,
        pid=os.getpid(),
        started_at_ns=span.start_time,
        duration_ns=max(span.end_time - span.start_time, 0),  # a clock may have been set back
        error=error,
        attributes=attributes,
    )
