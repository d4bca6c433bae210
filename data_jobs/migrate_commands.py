"""The command `cortex migrate`."""

from __future__ import annotations

import click

from cortex.console import command, json_option, write_document
from cortex.settings import settings


@click.command()
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Print what would be applied; change nothing.")
@json_option
@command
def migrate(is_dry_run: bool, as_json: bool) -> None:
    """Bring the catalog's tables to this version of Cortex.

    `cortex up` does it by itself. It refuses a database that is newer than this version, or whose migrations have
    been edited since they were applied.
    """
    from data_jobs.migrate import migrate as migrate_catalog

    report = migrate_catalog(settings(), is_dry_run=is_dry_run)
    if as_json:
        write_document(report)
        return
    for name in report.applied:
        click.echo(f"{'would apply' if is_dry_run else 'applied'} {name}")
    if not report.applied:
        click.echo(f"nothing to do: {len(report.present)} migrations are in place")
