"""The commands that judge: `cortex eval` and `cortex bench`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from cortex.console import command, json_option, write_document, write_progress

Declared = TypeVar("Declared", bound=Callable[..., Any])


def _number(
    flag: str, name: str, default: int, text: str, *, at_least: int | None = None
) -> Callable[[Declared], Declared]:
    """Declare an option that takes a whole number and tells its default."""
    kind = click.INT if at_least is None else click.IntRange(at_least)
    return click.option(flag, name, default=default, show_default=True, type=kind, help=text)


@click.group(name="eval")
def evaluate() -> None:
    """Measure quality on real engines in a scratch home that is deleted afterwards."""


@evaluate.command()
@click.option(
    "--data",
    "folder",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A set in BEIR form: corpus.jsonl, queries*.jsonl, qrels.tsv.",
)
@json_option
@command
def retrieval(folder: Path, as_json: bool) -> None:
    """Score search on a judged set: the plan, and each lane alone.

    The set goes through ordinary ingest, permission filter, search and recheck. Figures are means over the judged
    queries with 95 % bootstrap intervals; hits collapse to documents by their best chunk, 200 deep.

    \b
    Example:
      cortex eval retrieval --data eval/gate
    """
    from eval.display import print_scores, watched
    from eval.retrieval import as_document, evaluate_retrieval
    from eval.scratch import scratch_home

    with watched(as_json) as watch, scratch_home() as settings:
        document = as_document(evaluate_retrieval(settings, folder, watch))
    write_document(document) if as_json else print_scores(document)


@evaluate.command()
@_number("--worlds", "n_worlds", 200, "How many worlds.", at_least=1)
@_number("--seed", "seed", 1, "Seed of the first world; a failure names its own.")
@json_option
@command
def permissions(n_worlds: int, seed: int, as_json: bool) -> None:
    """Search random worlds of people, nested groups and documents as everybody.

    `leaks`: results that SpiceDB or the brute-force oracle forbids. `missing`: visible documents not found.
    `differences`: result lists that differ from those of an index which physically lacks what the reader may not
    see. `late`: results that a removed member still got from the very next request. All four must be 0.
    """
    from eval.display import print_permissions, watched
    from eval.permissions import as_document, evaluate_permissions
    from eval.scratch import scratch_home

    with watched(as_json) as watch, scratch_home() as settings:
        document = as_document(evaluate_permissions(settings, n_worlds, seed, watch))
    write_document(document) if as_json else print_permissions(document)
    if not document["is_clean"]:
        raise SystemExit(1)


@evaluate.command()
@_number("--kills", "n_kills", 20, "How many.", at_least=1)
@_number(
    "--documents",
    "n_documents",
    100,
    "Pages of a load; about a third as many are written at once.",
    at_least=20,
)
@_number("--seed", "seed", 1, "Decides texts, victims and moments.")
@json_option
@command
def kills(n_kills: int, n_documents: int, seed: int, as_json: bool) -> None:
    """Kill the job, its workers, Ray or an engine at random moments of loads, and load again.

    SIGKILL each time, while the load is at work: what comes too late is tried again. After the second load all stores must
    agree (`cortex doctor --consistency --vectors`) and hold, by their hashes, exactly what they hold after an undisturbed
    load. Takes about a minute a kill.
    """
    from eval.display import print_kills
    from eval.kills import Kill, evaluate_kills

    def tell(kill: Kill) -> None:
        write_progress("eval.kill", **asdict(kill)) if as_json else click.echo(
            f"{kill.victim} after {kill.after_s:.1f} s: {kill.in_the_end}", err=True
        )

    document = evaluate_kills(n_kills, n_documents, seed, tell)
    write_document(document) if as_json else print_kills(document)
    if not document["is_clean"]:
        raise SystemExit(1)


@evaluate.command()
@json_option
@command
def gates(as_json: bool) -> None:
    """Check the frozen gate corpus against `eval/gates.yaml`; exit code 1 names the gates that fail."""
    from eval.display import print_gates, watched
    from eval.gates import check_gates
    from eval.scratch import scratch_home

    with watched(as_json) as watch, scratch_home() as settings:
        document = check_gates(settings, watch)
    write_document(document) if as_json else print_gates(document)
    if not document["is_passed"]:
        raise SystemExit(1)


@click.group()
def bench() -> None:
    """Measure speed on this machine, with nothing else running if the figures are to mean anything."""


@bench.command()
@_number("--rounds", "rounds", 3, "Starts to time.", at_least=1)
@_number("--tuples", "n_tuples", 20_000, "Permission tuples for the reload rate.")
@json_option
@command
def start(rounds: int, n_tuples: int, as_json: bool) -> None:
    """Time `cortex up` to ready with the sample company loaded, engine by engine, and idle load and memory.

    The seconds per million permission tuples come from a reload of `--tuples` of them.
    """
    from eval.bench_start import measure_start
    from eval.display import print_start, watched

    with watched(as_json) as watch:
        document = measure_start(rounds, n_tuples, watch)
    write_document(document) if as_json else print_start(document)


@bench.command()
@_number("--rounds", "rounds", 5, "Loads to time; the median counts.", at_least=1)
@_number(
    "--documents",
    "n_documents",
    400,
    "Documents of a load, about four chunks each; memory is measured at ten times as many.",
    at_least=8,
)
@json_option
@command
def ingest(rounds: int, n_documents: int, as_json: bool) -> None:
    """Time a bulk load against a bare loop with the same model over the same chunks, in turns.

    The bare loop has both cores, as one process with two threads or as two with one, whichever the first round finds
    better. A quarter as many documents are loaded beside each load, which tells its pace from its start. Then ten times
    as many are loaded while one person searches, 300 times at most: the peak memory of the job's processes must
    not grow over that of a first load, and the median search must stay below twice that at rest.
    """
    from eval.bench_ingest import measure_ingest
    from eval.display import print_ingest, watched

    with watched(as_json) as watch:
        document = measure_ingest(rounds, n_documents, watch)
    write_document(document) if as_json else print_ingest(document)


@bench.command()
@click.option(
    "--placement",
    type=click.Choice(["fused", "staged", "both"]),
    default="both",
    show_default=True,
    help="What to measure; both, one after the other in the same home.",
)
@_number("--rounds", "rounds", 5, "Rounds; medians over them count.", at_least=1)
@_number("--queries", "n_questions", 100, "Questions in each round.", at_least=8)
@_number("--chunks", "n_notes", 10_000, "Notes to load, a chunk each.", at_least=100)
@_number("--streams", "n_streams", 20, "Answers that stream at once; 200 are the objective.", at_least=0)
@_number(
    "--drops",
    "n_drops",
    200,
    "Clients who leave in the middle of an answer; 10000 are the objective.",
    at_least=0,
)
@json_option
@command
def query(
    placement: str, rounds: int, n_questions: int, n_notes: int, n_streams: int, n_drops: int, as_json: bool
) -> None:
    """Time questions over HTTP beside their raw parts, at one client and at eight, and answers that stream.

    Notes of an invented company are loaded once; its people ask. Raw parts are what a process takes that holds the
    adapters itself: embed, hybrid query, bulk check; the same bytes are sent to the engines without adapters too. An
    empty route of Serve tells what Serve costs. All are timed in turns, question by question.

    Answers come from a synthetic model with a set pace, in a process of its own: what Cortex adds to the first token,
    whether many streams at once lose a word, and what clients who leave leave behind.

    \b
    Examples:
      cortex bench query --placement fused --rounds 1
      cortex bench query --streams 200 --drops 10000 --json
    """
    from eval.bench_query import QueryPlan, measure_query
    from eval.display import print_query, watched
    from eval.query_rounds import PLACEMENTS

    placements = [name for name in PLACEMENTS if placement in (name, "both")]
    plan = QueryPlan(placements, rounds, n_questions, n_notes, n_streams, n_drops)
    with watched(as_json) as watch:
        document = measure_query(plan, watch)
    write_document(document) if as_json else print_query(document)
