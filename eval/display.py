"""What the judging commands print for people: progress bars and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cortex.console import write_progress

Watch = Callable[[str, int, int], None]


@contextmanager
def watched(as_json: bool) -> Iterator[Watch]:
    """Yield a function of (step, done, total): a bar per step on stderr, or NDJSON when the output is for programs."""
    if as_json:
        yield _throttled_progress()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        tasks: dict[str, Any] = {}

        def show(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = progress.add_task(step, total=total)
            progress.update(tasks[step], completed=done, total=total)

        yield show


def _throttled_progress() -> Watch:
    """Write at most a hundred lines per step."""
    said: dict[str, int] = {}

    def say(step: str, done: int, total: int) -> None:
        percent = 100 * done // max(total, 1)
        if said.get(step) != percent:
            said[step] = percent
            write_progress("eval.progress", step=step, done=done, total=total)

    return say


def print_scores(document: dict[str, Any]) -> None:
    """Print one table: a row per plan or lane, a column per metric with its interval."""
    metrics = [name for name, figure in document.items() if isinstance(figure, dict) and "value" in figure]
    title = (
        f"{document['dataset']}: {document['n_documents']} documents, {document['n_queries']} judged queries"
    )
    table = Table("", *metrics, title=title)
    for name, figures in {"plan": document, **document["lanes"]}.items():
        cells = [figures[metric] for metric in metrics]
        table.add_row(name, *(f"{c['value']:.3f} [{c['low']:.3f}, {c['high']:.3f}]" for c in cells))
    console = Console()
    console.print(table)
    for note in document["degraded"]:
        console.print(f"degraded: {note}", markup=False)


def print_permissions(document: dict[str, Any]) -> None:
    """Print what was searched, and what was wrong: nothing, one hopes."""
    table = Table("checked", "", title="Random permission worlds")
    for name in ("worlds", "searches", "leaks", "missing", "differences", "late", "closed"):
        table.add_row(name, str(document[name]))
    console = Console()
    console.print(table)
    for example in document["examples"]:
        console.print(example, markup=False)


def print_gates(document: dict[str, Any]) -> None:
    """Print each gate with its figure and its bound."""
    table = Table("gate", "figure", "at least", "", title="Gates")
    for gate in document["gates"]:
        table.add_row(
            gate["name"],
            f"{gate['value']:.3f}",
            f"{gate['at_least']:.3f}",
            "ok" if gate["is_passed"] else "FAILED",
        )
    Console().print(table)


def print_start(document: dict[str, Any]) -> None:
    """Print the seconds to ready, engine by engine, and what stands still costs."""
    table = Table("", "median", title="cortex up, to ready")
    for name, seconds in document["engines_s"].items():
        table.add_row(name, f"{seconds:.1f} s")
    table.add_section()
    table.add_row("ready", f"{document['ready_s']['median']:.1f} s")
    table.add_row("idle load", f"{document['idle_cores']:.2f} cores")
    table.add_row("memory", f"{document['memory_mib']} MiB (PSS)")
    table.add_row("reload, per million tuples", f"{document['reload_s_per_million_tuples']:.0f} s")
    Console().print(table)


def print_kills(document: dict[str, Any]) -> None:
    """Print a row per kill: what, when, how the job took it, and what was wrong in the end."""
    table = Table(
        "killed", "after", "steps", "indexed", "job's exit code", "in the end", title="loads under SIGKILL"
    )
    for kill in document["kills"]:
        row = (f"{kill.after_s:.1f} s", f"{kill.step}/{kill.n_steps}", kill.indexed_before, kill.job_code)
        table.add_row(kill.victim, *map(str, row), kill.in_the_end)
    Console().print(table)


def print_ingest(document: dict[str, Any]) -> None:
    """Print a load's throughput beside the bare loop's, its memory, and search meanwhile."""
    ratio, search = document["throughput_ratio"], document["search_p50_ms"]
    table = Table(
        "", "", title=f"cortex ingest, {document['rounds']} rounds of {document['n_documents']} documents"
    )
    table.add_row("chunks a second", f"{document['chunks_per_s']:.1f}")
    table.add_row(
        "of the bare loop's throughput", f"{ratio['median']:.2f} ({min(ratio['all'])}-{max(ratio['all'])})"
    )
    steady = document["steady"]
    table.add_row(
        "once started", f"{steady['chunks_per_s']:.1f} chunks a second, {steady['of_bare']:.2f} of bare"
    )
    table.add_row("to start", f"{steady['start_s']:.1f} s")
    table.add_row("peak memory of the job", f"{document['peak_mib']['once']} MiB (PSS)")
    table.add_row("at ten times the documents", f"{document['peak_mib']['ten_times']} MiB")
    table.add_row("index, per 10,000 chunks", f"{document['index_mib_per_10k_chunks']:.0f} MiB")
    table.add_row("search p50 at rest", f"{search['at_rest']:.0f} ms")
    table.add_row("search p50 during the load", f"{search['during_load']:.0f} ms")
    Console().print(table)


def print_query(document: dict[str, Any]) -> None:
    """Print a column per placement: searches and their parts, eight clients, first tokens; then the bounds."""
    measured = document["placements"]
    title = f"cortex bench query, {document['n_chunks']} chunks, {document['rounds']} rounds"
    table = Table("", *measured, title=title)
    for name, cell in _QUERY_ROWS.items():
        table.add_row(name, *(cell(each) for each in measured.values()))
    console = Console()
    console.print(table)
    bounds = Table("", "placement", "figure", "at most", "")
    for target in document["targets"]:
        word = "ok" if target["is_met"] else "MISSED"
        bounds.add_row(
            target["name"], target["placement"], f"{target['value']:g}", f"{target['at_most']:g}", word
        )
    console.print(bounds)


def _both(took_ms: dict[str, float]) -> str:
    return f"{took_ms['p50']:.1f} / {took_ms['p95']:.1f} ms"


def _parts(document: dict[str, Any]) -> str:
    cpu_ms = document["eight_clients"]["cpu_ms_per_request"]
    return "\n".join(
        f"{name} {cpu_ms[name]:.1f} ms" for name in document["eight_clients"]["largest"]["processes"]
    )


def _streams(document: dict[str, Any]) -> str:
    if "streams" not in document:
        return "-"
    streams = document["streams"]
    return f"{streams['n_whole']} of {streams['n']} whole, {streams['n_tokens_lost']} tokens lost"


def _drops(document: dict[str, Any]) -> str:
    if "drops" not in document:
        return "-"
    return f"{document['drops']['n']} left, memory x {document['drops']['growth']:.2f}"


_QUERY_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "search over HTTP, p50 / p95": lambda d: _both(d["retrieval"]["http_ms"]),
    "raw parts": lambda d: _both(d["retrieval"]["raw_ms"]["sum"]),
    "  embed": lambda d: _both(d["retrieval"]["raw_ms"]["embed"]),
    "  hybrid query": lambda d: _both(d["retrieval"]["raw_ms"]["hybrid"]),
    "  bulk check": lambda d: _both(d["retrieval"]["raw_ms"]["check"]),
    "an empty route": lambda d: _both(d["retrieval"]["empty_route_ms"]),
    "of raw parts and empty routes": lambda d: f"{d['retrieval']['ratio']['median']:.2f}",
    "eight clients": lambda d: f"{d['eight_clients']['per_second']:.1f} a second",
    "  p95": lambda d: f"{d['eight_clients']['p95_ms']:.0f} ms",
    "  processor, each": lambda d: f"{d['eight_clients']['cpu_ms_per_request']['sum']:.1f} ms",
    "  the largest parts": _parts,
    "  the largest steps": lambda d: ", ".join(d["eight_clients"]["largest"]["steps"]),
    "first token, added": lambda d: _both(d["first_token"]["added_ms"]),
    "streams at once": _streams,
    "clients who left": _drops,
}
