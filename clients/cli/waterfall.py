"""`cortex trace`: where the time of one question went, as a waterfall of its spans."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from clients.cli.show import clean
from clients.cli.spans import Trace, find_trace
from cortex.console import command, json_option, write_document
from cortex.errors import NotFound
from cortex.settings import settings
from cortex.traces import WRITTEN_WITHIN_S, SpanRecord

_LONGEST_NAME = 46
_SHORTEST_BAR = 16
_NS_PER_MS = 1e6
_LONGEST_REQUEST_S = 600.0


@click.command(
    epilog="Examples:\n\n\b\n  cortex trace 0af7651916cd43dd8448eb211c80319c\n  cortex trace 0af7\n"
    '  cortex trace 0af7 --json | jq ".spans[] | select(.error)"'
)
@click.argument("trace_id", metavar="ID")
@json_option
@command
def trace(trace_id: str, as_json: bool) -> None:
    """Show where the time of one request went, step by step.

    ID is the trace id that answers, problem documents and the header x-trace-id carry, or its first digits. The spans
    are read from this machine's files, of all processes that worked on the request.
    """
    found = _settled(settings().traces_path, trace_id)
    if as_json:
        write_document(_document(found))
    else:
        _print(found)


def _settled(folder: Path, trace_id: str) -> Trace:
    """Find a trace; once more if it is not there yet or may not be whole, for spans are written in batches."""
    try:
        found = find_trace(folder, trace_id)
    except NotFound:
        if not folder.exists():
            raise
    else:
        if _is_whole(found):
            return found
    time.sleep(1.5 * WRITTEN_WITHIN_S)
    return find_trace(folder, trace_id)


def _is_whole(found: Trace) -> bool:
    """Say whether more of a trace is hardly to come.

    A request lasts longer than its steps, while an answer streams by minutes: where spans lie at the top whose parent is
    not here, it may have ended just now. It is the caller's own if they began the trace, and then never here.
    """
    ended_s_ago = time.time() - found.ended_at_ns / 1e9
    is_headless = any(depth == 0 and span.parent_id for depth, span in found.spans)
    return ended_s_ago > (_LONGEST_REQUEST_S if is_headless else 2 * WRITTEN_WITHIN_S)


def _document(found: Trace) -> dict[str, Any]:
    started_at_ns = found.started_at_ns
    return {
        "trace_id": found.trace_id,
        "started_at": _moment(started_at_ns).isoformat(),
        "duration_ms": _ms(found.ended_at_ns - started_at_ns),
        "n_broken_lines": found.n_broken,
        "spans": [
            {
                "name": span.name,
                "depth": depth,
                "span_id": span.span_id,
                "parent_id": span.parent_id,
                "kind": span.kind,
                "process": span.process,
                "pid": span.pid,
                "offset_ms": _ms(span.started_at_ns - started_at_ns),
                "duration_ms": _ms(span.duration_ns),
                "error": span.error,
                "attributes": span.attributes,
            }
            for depth, span in found.spans
        ],
    }


def _print(found: Trace) -> None:
    console = Console(highlight=False)
    whole_ns = max(found.ended_at_ns - found.started_at_ns, 1)
    n_processes = len({span.pid for _, span in found.spans})
    facts = [
        f"{_moment(found.started_at_ns):%Y-%m-%d %H:%M:%S} UTC",
        f"{_ms(whole_ns):.1f} ms",
        f"{len(found.spans)} spans",
        f"{n_processes} process{'es' if n_processes != 1 else ''}",
    ]
    console.print(Text.assemble(("trace ", "bold"), (found.trace_id, "bold cyan")))
    console.print(Text(" · ".join(facts), "dim"), soft_wrap=True)
    console.print()
    named = [(f"{'  ' * depth}{clean(span.name)}", span) for depth, span in found.spans]
    name_width = min(max(len(name) for name, _ in named), _LONGEST_NAME)
    process_width = max(len(clean(span.process)) for _, span in named)
    bar_width = max(console.width - name_width - process_width - 14, _SHORTEST_BAR)
    for name, span in named:
        line = Text(name)
        line.truncate(name_width, overflow="ellipsis", pad=True)
        line.append(f"  {clean(span.process):<{process_width}} {_ms(span.duration_ns):>8.1f}  ", "dim")
        bar = _bar(span, found.started_at_ns, whole_ns, bar_width)
        if span.error:
            line.append(f"{bar:<{bar_width}} {clean(span.error)}", "red")
        else:
            line.append(bar, "cyan")
        console.print(line, soft_wrap=True)
    if found.n_broken:
        console.print()
        console.print(Text(f"{found.n_broken} broken lines were skipped", "yellow"))


def _bar(span: SpanRecord, started_at_ns: int, whole_ns: int, width: int) -> str:
    """Draw a span's time within the whole: at least one mark, thin when it is shorter than that."""
    begin = min(int((span.started_at_ns - started_at_ns) / whole_ns * width), width - 1)
    length = round(span.duration_ns / whole_ns * width)
    return " " * begin + ("█" * min(length, width - begin) or "▏")


def _moment(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns / 1e9, UTC)


def _ms(duration_ns: int) -> float:
    return round(duration_ns / _NS_PER_MS, 3)
