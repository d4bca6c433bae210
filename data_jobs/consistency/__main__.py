"""The program behind `cortex doctor --consistency`."""

from __future__ import annotations

import click

from cortex.console import command, json_option, write_document
from cortex.settings import settings
from data_jobs.consistency.check import check
from data_jobs.consistency.report import Difference, Report
from data_jobs.progress import counting


@click.command()
@click.option("--repair", "repairs", is_flag=True)
@click.option("--quick", is_flag=True)
@click.option("--vectors", is_flag=True)
@json_option
@command
def main(repairs: bool, quick: bool, vectors: bool, as_json: bool) -> None:
    """Compare, print the report, and end with the exit code of what is left."""
    with counting("consistency.progress", "comparing", as_json) as on_progress:
        report = check(
            settings(),
            repairs=repairs,
            reads_objects=not quick,
            reads_vectors=vectors,
            on_progress=on_progress,
        )
    if as_json:
        write_document(report)
    else:
        _show(report, repairs)
    raise SystemExit(report.exit_code)


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
    if report.vectors_sha256:
        click.echo(f"vectors {report.vectors_sha256}")


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
