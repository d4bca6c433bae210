"""The commands under `cortex sources`: what is loaded, and taking it out again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from cortex.console import command, json_option, write_document
from cortex.errors import InputError, Misconfigured
from cortex.settings import settings
from data_jobs.tables import print_table

if TYPE_CHECKING:
    from adapters.catalog.removal import CatalogRemoval


@click.group()
def sources() -> None:
    """See what is loaded, and remove it."""


@sources.command("list")
@json_option
@command
def list_sources(as_json: bool) -> None:
    """List the sources with their documents and their last run."""
    from data_jobs.parts import open_catalog

    with open_catalog(settings()) as catalog:
        listed = catalog.list_sources(settings().tenant_id)
    if as_json:
        write_document({"sources": listed})
    elif listed:
        _show_sources(listed)
    else:
        click.echo("nothing is loaded yet; try: cortex ingest files PATH")


@sources.command()
@click.argument("name", metavar="SOURCE")
@json_option
@command
def show(name: str, as_json: bool) -> None:
    """Show one source: what the catalog holds of it, and its latest runs. SOURCE is a name, an id or TYPE:NAME."""
    with _opened() as catalog:
        source = catalog.find(settings().tenant_id, name)
        counts, runs = catalog.counts(source.source_id), catalog.runs(source.source_id)
    if as_json:
        write_document({**asdict(source), "counts": counts, "runs": runs})
        return
    click.echo(f"{source.source_type} {source.name} ({source.source_id})")
    for what, n in asdict(counts).items():
        click.echo(f"  {n:>10,} {what.removeprefix('n_')}")
    rows = [(f"{run['started_at']:%Y-%m-%d %H:%M}", run["status"], str(run["n_failures"])) for run in runs]
    print_table(("run", "status", "failed"), rows)


@sources.command()
@click.argument("name", metavar="SOURCE")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option
@command
def remove(name: str, is_sure: bool, as_json: bool) -> None:
    """Remove a source from every store, and print what was deleted. SOURCE is a name, an id or TYPE:NAME.

    From the next request on nobody finds it. Deleted are its documents, chunks, links, points, permission tuples,
    group memberships, stored contents that no other source has, and its words in recorded answers. The source itself
    is not touched: loading it again brings it back. If this is interrupted, run it again.
    """
    from data_jobs.remove_source import remove_source

    with _opened() as catalog:
        source = catalog.find(settings().tenant_id, name)
        n_documents = catalog.counts(source.source_id).n_documents
    if not is_sure:
        if as_json:
            raise InputError(
                "removing needs --yes with --json", code="confirmation.missing", hint="add --yes"
            )
        click.confirm(f"remove {source.name} with {n_documents:,} documents?", abort=True)
    receipt = remove_source(settings(), source)
    if as_json:
        write_document(receipt)
        return
    for what, value in asdict(receipt).items():
        if isinstance(value, int) and what != "points_left":
            click.echo(f"{value:>10,} {what.replace('_', ' ')}")
    if receipt.objects_kept:
        click.echo(
            "objects are kept while another source is loaded: `cortex doctor --consistency --repair` deletes them later"
        )


@contextmanager
def _opened() -> Iterator[CatalogRemoval]:
    from adapters.catalog.removal import CatalogRemoval

    if not settings().postgres_url:
        raise Misconfigured(
            "no catalog runs here: CORTEX_POSTGRES_URL is empty", code="postgres.missing", hint="cortex up"
        )
    catalog = CatalogRemoval(settings().postgres_url)
    try:
        yield catalog
    finally:
        catalog.close()


def _show_sources(listed: list[Any]) -> None:
    rows = []
    for source in listed:
        run = source["run"]
        state = f"{run['status']}, {run['started_at']:%Y-%m-%d %H:%M}" if run else "never loaded"
        failed = str(len(run["failures"])) if run else ""
        rows.append(
            (
                source["name"],
                source["source_type"],
                source["collection"],
                str(source["n_documents"]),
                state,
                failed,
            )
        )
    print_table(("source", "type", "collection", "documents", "last run", "failed"), rows)
