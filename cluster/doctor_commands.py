"""`cortex doctor`: is this machine and this home as they must be, and have they room for more."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

from cluster.checks import CHECKS
from cluster.findings import Finding, Level, warning
from cluster.plan import ResourcePlan, Room, plan_resources
from cortex.console import command, json_option, write_document
from cortex.errors import Unavailable
from cortex.settings import Settings, settings

_MARKS = {Level.OK: ("✓", "green"), Level.WARNING: ("!", "yellow"), Level.PROBLEM: ("✗", "red")}


@click.command()
@click.option("--consistency", is_flag=True, help="Compare catalog, index, objects and permissions instead.")
@click.option("--repair", is_flag=True, help="Mend what differs; access is never widened.")
@click.option("--quick", is_flag=True, help="Do not read the content of every object.")
@click.option("--vectors", is_flag=True, help="Hash the vectors of every point too.")
@json_option
@command
def doctor(consistency: bool, repair: bool, quick: bool, vectors: bool, as_json: bool) -> None:
    """Check this machine and this home, and plan disk and memory for more documents.

    With --consistency, compare what the stores hold with one another, while Cortex runs. Exit code 9 says that
    something differs; the hashes printed depend on the content alone, so that two homes can be compared by them.
    """
    given = settings()
    if consistency or repair:
        options = {"--repair": repair, "--quick": quick, "--vectors": vectors, "--json": as_json}
        raise SystemExit(_compare(given, [name for name, is_set in options.items() if is_set]))
    findings = [finding for check in CHECKS for finding in check(given)]
    plan = _planned(given, findings)
    if as_json:
        write_document({"home": given.home, "findings": findings, "plan": plan})
    else:
        for finding in findings:
            _print_finding(finding)
        if plan:
            _print_plan(plan)
    if worst := max(finding.exit_code for finding in findings):
        raise SystemExit(worst)


def _compare(given: Settings, options: Sequence[str]) -> int:
    """Run the ingest side's comparison, which knows the stores, with this command's own output and exit code."""
    command = [sys.executable, "-m", "data_jobs.consistency", *options]
    return subprocess.run(command, env={**os.environ, "CORTEX_HOME": str(given.home)}, cwd="/").returncode


def _planned(given: Settings, findings: list[Finding]) -> ResourcePlan | None:
    """Plan, or say among the findings why that cannot be done."""
    try:
        return plan_resources(given)
    except Unavailable as error:
        findings.append(warning("plan", error.message, error.hint))
        return None


def _print_finding(finding: Finding) -> None:
    mark, colour = _MARKS[finding.level]
    click.secho(f"{mark} ", fg=colour, nl=False)
    click.echo(f"{finding.name:<18} {finding.said}")
    if finding.remedy:
        click.echo(f"  {'':<18} try: {finding.remedy}")


def _print_plan(plan: ResourcePlan) -> None:
    click.echo(
        f"\nnow {plan.n_documents:,} documents, {plan.n_chunks:,} chunks, {plan.n_tuples:,} permission tuples; "
        f"planned with {plan.chunks_per_document:g} chunks per document\n"
    )
    for name, room in (("disk", plan.disk), ("memory", plan.memory)):
        Console().print(_table(name, room, plan.steps))


def _table(name: str, room: Room, steps: Sequence[int]) -> Table:
    table = Table(f"{name}, by chunks", "now", *(f"{step:,}" for step in steps))
    for column in table.columns[1:]:
        column.justify = "right"
    for part in room.parts:
        where = part.name if part.is_here else f"{part.name} (on a server)"
        table.add_row(
            where, "" if part.now_bytes is None else _size(part.now_bytes), *map(_size, part.step_bytes)
        )
    table.add_section()
    table.add_row("on this machine", _size(room.used_bytes), *map(_size, room.step_bytes))
    total = room.used_bytes + room.free_bytes
    verdicts = (
        "fits" if fits else f"{_size(step - total)} short"
        for fits, step in zip(room.fits, room.step_bytes, strict=True)
    )
    table.add_row(f"of {_size(total)} used or free", "", *verdicts)
    return table


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
