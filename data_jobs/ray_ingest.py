"""Ingest as a Ray Data job in the running Ray; as a program: `python -m data_jobs.ray_ingest --source ID`.

Documents travel as rows of paths, in blocks of a few. A pool of actors, one per core and nicer than anything that
serves, parses (in a confined child), chunks and embeds. This process lists, compares, and writes what comes back in
the order of the listing: one writer, so that near-duplicates are grouped alike in every run.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Any

import click

from connectors.registry import build_connector
from cortex.console import command, write_document
from cortex.errors import NotFound, Unavailable
from cortex.ports import SourceConfig
from cortex.settings import Settings, settings
from cortex.telemetry import setup_logging
from data_jobs.ingest import build_load
from data_jobs.parts import (
    Models,
    Stores,
    build_models,
    build_objects,
    deliver_queued,
    open_catalog,
    open_stores,
)
from data_jobs.rows import Row
from data_jobs.run import Counts, IngestReport, SyncRun
from data_jobs.source_lock import source_lock
from data_jobs.stages.parse import ParseStage
from data_jobs.work import EmbedRows, UpsertRows, batches, build_prepare, prepare_one

# A block is what an actor takes at once, and what is lost and repeated when it dies.
_ROWS_PER_BLOCK = 16
# What is held of the listing at once: about a kilobyte a row where rows are paths.
_ROWS_PER_DATASET = 20_000
_BYTES_PER_DATASET = 64_000_000
_NICENESS = 5
_CONNECT_TIMEOUT_S = 5.0


def ray_ingest(
    settings: Settings,
    config: SourceConfig,
    *,
    allows_empty: bool = False,
    on_progress: Callable[[Counts], None] = lambda counts: None,
) -> IngestReport:
    """Load one source in the running Ray; raises Unavailable when none runs, else as `data_jobs.ingest.ingest`."""
    require_ray(settings)
    with source_lock(settings, config.source_id), open_catalog(settings) as catalog:
        models = build_models(settings)
        load = build_load(settings, config, models, allows_empty=allows_empty, on_progress=on_progress)
        stores = partial(open_stores, settings, catalog, models)
        report = SyncRun(load, catalog).run(RayWork(settings, config, stores, models))
        deliver_queued(settings)
    return report


def require_ray(settings: Settings) -> None:
    """Raise Unavailable unless the Ray that settings name accepts connections."""
    hint = "start it with `cortex up`, or load in this process with --no-ray"
    if not settings.ray_address:
        raise Unavailable("no Ray is running for this home", code="ray.missing", hint=hint)
    host, _, port = settings.ray_address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
            return
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"Ray does not answer at {settings.ray_address}", code="ray.unavailable", hint=hint
        ) from error


class RayWork:
    """Does the heavy work in Ray. Connects when the first document needs it: an unchanged source never does."""

    def __init__(
        self,
        settings: Settings,
        config: SourceConfig,
        open_stores: Callable[[], Stores],
        models: Models,
    ) -> None:
        self._settings = settings
        self._config = config
        self._open_stores = open_stores
        self._models = models

    def __call__(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield each document when it is settled: written, found unchanged, or failed."""
        for first in rows:
            upsert = UpsertRows(self._open_stores(), self._models)
            connect(self._settings)
            for window in _windows(chain([first], rows)):
                for batch in batches(self._embedded(window)):
                    yield from upsert(batch)

    def _embedded(self, window: list[Row]) -> Iterator[Row]:
        import ray.data

        n_blocks = -(-len(window) // _ROWS_PER_BLOCK)
        n_actors = min(n_blocks, self._settings.ingest_workers or _n_cores())
        dataset = ray.data.from_items([{"row": row} for row in window], override_num_blocks=n_blocks)
        made = dataset.map_batches(
            MakeRows,
            batch_size=_ROWS_PER_BLOCK,
            fn_constructor_args=(self._settings, self._config),
            compute=ray.data.ActorPoolStrategy(size=n_actors),
            # The serving app holds Ray's logical CPUs, and even a hundredth of one would wait for it for ever.
            num_cpus=0,
        )
        for item in made.iter_rows():
            yield item["row"]


class MakeRows:
    """The actor: takes rows from their item to their vectors. A document that fails carries the reason on."""

    def __init__(self, settings: Settings, config: SourceConfig) -> None:
        os.nice(_NICENESS)
        setup_logging(settings.log_level)
        models = build_models(settings)
        self._parse = ParseStage(settings)
        connector = build_connector(config)
        objects = build_objects(settings)
        self._prepare = build_prepare(settings, connector, self._parse, objects, models)
        self._embed = EmbedRows(models)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch's rows with their vectors, in order."""
        return {"row": self._embed([prepare_one(self._prepare, row) for row in batch["row"]])}


def connect(settings: Settings) -> None:
    """Connect this process to the running Ray, once, and keep Ray's own chatter off the console."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if settings.ray_address.startswith("127."):
        # Otherwise Ray replaces the loopback address by one of the machine's others, where no embedded head listens.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if settings.ray_token_path:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN_PATH", settings.ray_token_path)
    import ray
    from ray.data import DataContext

    if ray.is_initialized():
        return
    try:
        ray.init(address=settings.ray_address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Unavailable(
            f"Ray at {settings.ray_address} refused the connection: {type(error).__name__}",
            code="ray.unavailable",
            hint="cortex status",
        ) from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True


def _windows(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Cut the listing into what one dataset holds."""
    while window := list(islice(rows, 1)):
        n_bytes = len(window[0].item.content or b"")
        while n_bytes < _BYTES_PER_DATASET and len(window) < _ROWS_PER_DATASET:
            row = next(rows, None)
            if row is None:
                break
            n_bytes += len(row.item.content or b"")
            window.append(row)
        yield window


def _n_cores() -> int:
    import ray

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def configured_source(settings: Settings, source_id: str) -> SourceConfig:
    """Look up a source by id; raises NotFound."""
    with open_catalog(settings) as catalog:
        for source in catalog.list_sources(settings.tenant_id):
            if source["source_id"] == source_id:
                return SourceConfig(
                    tenant_id=settings.tenant_id,
                    source_id=source_id,
                    source_type=source["source_type"],
                    name=source["name"],
                    collection=source["collection"],
                    options=source["options"],
                )
    raise NotFound("there is no such source", code="source.not_found")


@click.command()
@click.option("--source", "source_id", required=True, help="Id of a source that the catalog knows.")
@command
def main(source_id: str) -> None:
    """Load a source that the catalog knows; its sync run can be watched there."""
    given = settings()
    setup_logging(given.log_level)
    write_document(ray_ingest(given, configured_source(given, source_id)))


if __name__ == "__main__":
    main()
