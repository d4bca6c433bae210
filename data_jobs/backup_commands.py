"""The command `cortex backup`."""

from __future__ import annotations

from pathlib import Path

import click

from cortex.console import command, json_option, write_document
from cortex.settings import settings


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--with-keys", is_flag=True, help="Also the keys that sign tokens, and settings.env: guard it well."
)
@json_option
@command
def backup(path: Path, with_keys: bool, as_json: bool) -> None:
    """Back this home up into the new folder PATH, while Cortex runs.

    Holds the catalog in one snapshot, the objects that it refers to, the index with its vectors, and a manifest with
    hashes. It appears whole or not at all. Whoever can read it can read every document: guard it like the home.
    """
    from data_jobs.backup import backup as back_up
    from data_jobs.progress import counting

    with counting("backup.progress", "copying", as_json) as on_progress:
        manifest = back_up(settings(), path.absolute(), with_keys=with_keys, on_progress=on_progress)
    if as_json:
        write_document(manifest)
        return
    n_rows = sum(table.n_rows for table in manifest.dump.tables)
    click.echo(
        f"{path}: {n_rows:,} rows, {manifest.n_objects:,} objects ({manifest.n_object_bytes / 1e6:.1f} MB), "
        f"{sum(manifest.points.values()):,} points" + (", keys" if with_keys else "; no keys")
    )
    if manifest.n_lost_objects:
        click.secho(
            f"{manifest.n_lost_objects:,} objects were missing or damaged: cortex doctor --consistency --repair",
            fg="yellow",
        )
