"""The commands under `cortex ingest`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cortex.console import command, json_option, write_document, write_progress
from cortex.ports.connectors import SourceConfig
from cortex.settings import settings
from data_jobs.links import LinkReport
from data_jobs.run import Counts, IngestReport
from data_jobs.sources import Naming, any_source, files_source, slack_source, vault_source
from data_jobs.tables import print_table

if TYPE_CHECKING:
    from data_jobs.foresee import Forecast

_PROGRESS_EVERY_S = 0.5


_access_option = click.option(
    "--access",
    type=click.Choice(["posix", "file-only"]),
    default="posix",
    show_default=True,
    help="Who may read where no access file says so: POSIX owner, group and modes, or nobody.",
)


@click.group()
def ingest() -> None:
    """Load documents: only what is new or changed is read, and what is gone is hidden.

    A run can be stopped at any time; the next one goes on.
    """


def loads(describe: Callable[..., SourceConfig]) -> Callable[..., None]:
    """Make a command of a function that describes a source: adds the options of every load, loads it and reports.

    The function gets a `Naming` as `naming`, and the arguments and options of its own.
    """

    @click.option(
        "--collection", default="default", show_default=True, help="The group that searches can name."
    )
    @click.option(
        "--name", default="", help="What to call the source; the place it is loaded from if not given."
    )
    @click.option("--allow-empty", is_flag=True, help="Hide every document of a source that is now empty.")
    @click.option("--no-ray", is_flag=True, help="Load in this process instead of the running Ray.")
    @json_option
    @command
    @wraps(describe)
    def run(collection: str, name: str, allow_empty: bool, no_ray: bool, as_json: bool, **given: Any) -> None:
        config = describe(naming=Naming(name, collection), **given)
        report = _load(config, allow_empty, no_ray, as_json)
        if as_json:
            write_document(report)
        else:
            _show(report)

    return run


def _load(config: SourceConfig, allows_empty: bool, no_ray: bool, as_json: bool) -> IngestReport:
    load: Callable[..., IngestReport]
    if no_ray:
        from data_jobs.ingest import ingest as load
    else:
        from data_jobs.ray_ingest import ray_ingest as load
    from data_jobs.foresee import announcing

    announce = _announce_to_programs if as_json else _announce
    with _progress(as_json) as on_progress:
        watch = announcing(settings(), announce, on_progress)
        return load(settings(), config, allows_empty=allows_empty, on_progress=watch)


def _announce_to_programs(forecast: Forecast) -> None:
    write_progress("ingest.planned", **asdict(forecast), fits=forecast.fits)


def _announce(forecast: Forecast) -> None:
    verdict = (
        ""
        if forecast.fits
        else "\nwarning: that is more than is free; `cortex doctor` shows what takes how much"
    )
    click.echo(
        f"{forecast.documents:,} documents to load, about {forecast.chunks:,} chunks: "
        f"{forecast.disk_bytes / 1e9:.1f} GB of disk ({forecast.free_disk_bytes / 1e9:.1f} free here), "
        f"{forecast.memory_bytes / 1e9:.1f} GB of memory ({forecast.free_memory_bytes / 1e9:.1f} free){verdict}",
        err=True,
    )


@ingest.command("files")
@click.argument("path", type=click.Path(path_type=Path))
@_access_option
@loads
def ingest_files(path: Path, access: str, naming: Naming) -> SourceConfig:
    """Load the folder or file PATH, with its access lists.

    Prints what was indexed, unchanged and removed, each file that failed, with the reason, and how many of which kind
    are left out on purpose.
    """
    return files_source(settings(), path, naming.collection, naming.name, access)


@ingest.command("slack")
@click.argument("path_or_url")
@click.option("--domain", default="", help="acme of acme.slack.com, for the links of an export.")
@click.option("--download", is_flag=True, help="Have the files that an export only links to from Slack.")
@loads
def ingest_slack(path_or_url: str, domain: str, download: bool, naming: Naming) -> SourceConfig:
    """Load a Slack export (a zip or its folder), or a workspace by its Web API: https://slack.com/api/.

    Threads and shared files are loaded with their access: a private channel is for its members. The API's token comes from
    CORTEX_SLACK_TOKEN alone.
    """
    return slack_source(settings(), path_or_url, naming, domain, downloads=download)


@ingest.command("vault")
@click.argument("path", type=click.Path(path_type=Path))
@_access_option
@loads
def ingest_vault(path: Path, access: str, naming: Naming) -> SourceConfig:
    """Load the vault of notes PATH (Obsidian, Foam, Dendron, org-roam), with its links and its access lists.

    Nothing is written into the vault. Prints what was indexed, unchanged and removed, each file that failed, with the
    reason, and the links that lead nowhere or to several notes.
    """
    return vault_source(settings(), path, naming, access)


@ingest.command("source")
@click.argument("source_type")
@click.option(
    "--set", "given", multiple=True, metavar="OPTION=VALUE", help="An option of the connector; repeatable."
)
@loads
def ingest_source(source_type: str, given: tuple[str, ...], naming: Naming) -> SourceConfig:
    """Load a source of any connector, installed ones too, by its type and its own options.

    Options are kept in the catalog: secrets belong into settings.env. Give the source a --name.
    """
    options = {name: value for name, _, value in (option.partition("=") for option in given)}
    return any_source(settings(), source_type, naming, options)


@ingest.command("stop")
@click.argument("run_id")
@json_option
@command
def stop_run(run_id: str, as_json: bool) -> None:
    """Ask the run RUN_ID to stop, wherever it runs; `cortex sources list --json` names it.

    It ends within seconds, but not before its workers have started, and never in the middle of a document. What is
    loaded stays, and the next load of the source goes on from there.
    """
    from data_jobs.parts import open_catalog

    with open_catalog(settings()) as catalog:
        catalog.request_stop(settings().tenant_id, run_id)
    write_document({"run_id": run_id, "is_stopping": True}) if as_json else click.echo("it is stopping")


@contextmanager
def _progress(as_json: bool) -> Iterator[Callable[[Counts], None]]:
    """Report progress on stderr: NDJSON, or a bar with rate and time left."""
    last_at = 0.0

    def is_due(counts: Counts) -> bool:
        nonlocal last_at
        is_last = _done(counts) >= counts.total
        if not is_last and time.monotonic() - last_at < _PROGRESS_EVERY_S:
            return False
        last_at = time.monotonic()
        return True

    if as_json:
        yield lambda counts: write_progress("ingest.progress", **counts.as_dict()) if is_due(counts) else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:.1f} chunks/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("loading", total=None, rate=0.0)
        started = time.monotonic()

        def show(counts: Counts) -> None:
            if is_due(counts):
                rate = counts.chunks / max(time.monotonic() - started, 1e-9)
                bar.update(task, total=counts.total, completed=_done(counts), rate=rate)

        yield show


def _done(counts: Counts) -> int:
    return counts.indexed + counts.unchanged + counts.failed


def _show(report: IngestReport) -> None:
    rate = f", {report.chunks / report.seconds:.1f} chunks/s" if report.chunks and report.seconds else ""
    click.echo(
        f"indexed {report.indexed}, unchanged {report.unchanged}, removed {report.removed}, "
        f"failed {len(report.failed)}; access changed on {report.access_changed} "
        f"({report.seconds:.1f} s{rate})"
    )
    if report.failed:
        print_table(
            ("file", "code", "reason"),
            [(failed.path or ".", failed.code, failed.reason) for failed in report.failed],
        )
    if report.skipped:
        click.echo(f"left out on purpose: {sum(kind.n for kind in report.skipped)}")
        print_table(
            ("number", "code", "reason", "such as"),
            [(str(kind.n), kind.code, kind.reason, kind.example) for kind in report.skipped],
        )
    _show_links(report.links)


def _show_links(links: LinkReport) -> None:
    if links.resolved or links.open:
        click.echo(
            f"links: {links.resolved} lead to a document, {links.dangling} nowhere, {links.ambiguous} to several; "
            f"{links.external} tags, URLs and attachments"
        )
    if links.open:
        rows = [(link.path, str(link.byte_start), link.target, link.state) for link in links.open]
        print_table(("file", "byte", "target", "state"), rows)
