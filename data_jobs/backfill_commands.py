"""The commands `cortex backfill …`."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import data_jobs.backfill as jobs
from adapters.catalog.backfills import Backfill
from cortex.console import command, json_option, write_document
from cortex.errors import NotFound
from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings, settings
from data_jobs.parts import open_catalog
from data_jobs.sources import files_source

_FOLLOW_EVERY_S = 2.0
_CUT = '{"event": "log.cut"}\n'  # lines in between were forgotten before they were read


@click.group()
def backfill() -> None:
    """Load a source in a Ray cluster, without waiting for it.

    The load runs in the cluster and goes on when this terminal closes, a worker dies or a node is lost.
    """


@backfill.command()
@click.argument("source")
@click.option(
    "--address", default="", metavar="HOST:PORT", help="The cluster's head; the running Ray if not given."
)
@json_option
@command
def submit(source: str, address: str, as_json: bool) -> None:
    """Load SOURCE in a cluster: an id or name from `cortex sources list`, or a folder that all its nodes see.

    Refused while a backfill loads the source already: the error names it. The cluster's nodes need Cortex, the
    addresses of the engines, and the home on shared storage.
    """
    from data_jobs.ray_backfill import start
    from data_jobs.ray_cluster import require_ray

    given = settings()
    if address:
        given = given.model_copy(update={"ray_address": address})
    require_ray(given)
    config = _source(given, source)
    submission = jobs.claim(given, config)
    start(given, submission)
    if as_json:
        write_document({"submission_id": submission.submission_id, "source_id": config.source_id})
    else:
        click.echo(submission.submission_id)


@backfill.command()
@click.argument("submission_id", default="")
@json_option
@command
def status(submission_id: str, as_json: bool) -> None:
    """Show backfills, newest first, or one: running, succeeded, failed, stopped, or lost when it is not heard of."""
    given = settings()
    listed = (
        [jobs.found(given, submission_id)] if submission_id else jobs.backfills(given).listed(given.tenant_id)
    )
    if as_json:
        write_document({"backfills": [_without_log(one) for one in listed]})
    for one in () if as_json else listed:
        counts = " ".join(f"{name} {n}" for name, n in one.counts.items() if n)
        click.echo(
            f"{one.submission_id}  {one.status:<9}  {one.submitted_at:%Y-%m-%d %H:%M}  {one.source}  {counts}"
        )


@backfill.command()
@click.argument("submission_id")
@click.option("--follow", "-f", is_flag=True, help="Go on until it ends.")
@command
def logs(submission_id: str, follow: bool) -> None:
    """Print a backfill's events, one JSON object a line; the text of documents is never among them."""
    printed = ""
    while True:
        one = jobs.found(settings(), submission_id)
        click.echo(_news(printed, one.log), nl=False)
        printed = one.log
        if not follow or one.status != "running":
            return
        time.sleep(_FOLLOW_EVERY_S)


@backfill.command()
@click.argument("submission_id")
@json_option
@command
def stop(submission_id: str, as_json: bool) -> None:
    """Ask a backfill to stop. What is loaded stays; submit the source again to go on."""
    jobs.stop(settings(), submission_id)
    if as_json:
        write_document({"submission_id": submission_id, "is_stopping": True})
    else:
        click.echo("it is stopping")


def _source(given: Settings, named: str) -> SourceConfig:
    """Look a source up, or describe and register a folder that is not one yet."""
    from data_jobs.ray_ingest import configured_source

    try:
        return configured_source(given, named)
    except NotFound:
        if not Path(named).expanduser().exists():
            raise
    config = files_source(given, Path(named))
    with open_catalog(given) as catalog:
        catalog.ensure_source(config)
    return configured_source(given, config.source_id)


def _without_log(one: Backfill) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if name != "log"}


def _news(printed: str, log: str) -> str:
    """Return what follows what is printed; the record forgets its beginning when it grows long, and says where it did."""
    if log.startswith(printed):
        return log[len(printed) :]
    _, is_known, rest = log.partition(printed[-500:])
    return rest if is_known else _CUT + log.partition("\n")[2]
