"""The program behind `cortex doctor --consistency`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from cortex.console import command, json_option, write_document, write_progress
from cortex.settings import settings
from data_jobs.consistency.check import check
from data_jobs.consistency.report import Difference, Report

_PROGRESS_EVERY_S = 0.5


@click.command()
@click.option("--repair", "repairs", is_flag=True)
@click.option("--quick", is_flag=True)
@json_option
@command
def main(repairs: bool, quick: bool, as_json: bool) -> None:
    """Compare, print the report, and end with the exit code of what is left."""
    with _progress(as_json) as on_progress:
        report = check(settings(), repairs=repairs, reads_objects=not quick, on_progress=on_progress)
    if as_json:
        write_document(report)
    else:
        _show(report, repairs)
    raise SystemExit(report.exit_code)


@contextmanager
def _progress(as_json: bool) -> Iterator[Callable[[str, int], None]]:
    """Report on stderr, now and then, how many of what were compared."""
    told_at = time.monotonic()

    def is_due() -> bool:
        nonlocal told_at
        if time.monotonic() - told_at < _PROGRESS_EVERY_S:
            return False
        told_at = time.monotonic()
        return True

    if as_json:
        yield lambda what, n: write_progress("consistency.progress", what=what, n=n) if is_due() else None
        return
    from rich.console import Console

    with Console(stderr=True).status("comparing") as status:
        yield lambda what, n: status.update(f"comparing {what}: {n:,}") if is_due() else None


def _show(report: Report, repairs: bool) -> None:
    counted = ", ".join(f"{n:,} {what}" for what, n in report.counted.items())
    click.echo(f"compared {counted or 'nothing'} in {report.seconds:.1f} s")
    if report.in_flight:
        click.echo(f"{report.in_flight:,} changes were under way and are not counted")
    for one in report.differences:
        _show_difference(one)
    if not report.differences:
        click.echo("no difference")
    elif report.exit_code and not repairs:
        click.echo("try: cortex doctor --consistency --repair")
    click.echo(f"index {report.index_sha256}\ncatalog {report.catalog_sha256}")


def _show_difference(one: Difference) -> None:
    mark, colour = ("!", "yellow") if one.is_harmless or not one.n_left else ("✗", "red")
    click.secho(f"{mark} ", fg=colour, nl=False)
    click.echo(f"{one.code.value:<20} {one.n_found:,} {one.meaning}")
    if one.n_mended:
        click.echo(f"  {'':<20} mended: {one.n_mended:,}")
    if one.n_to_reload:
        click.echo(f"  {'':<20} mended by the next load of their source: {one.n_to_reload:,}")
    for example in one.examples[:3]:
        click.echo(f"  {'':<20} {example}")


if __name__ == "__main__":
    main()
