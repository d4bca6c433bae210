"""Ingest in one process, without Ray: list, compare, parse, group, chunk, embed, upsert."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain

from connectors.registry import build_connector
from cortex.ports.connectors import Connector, SourceConfig
from cortex.settings import Settings
from data_jobs.fingerprints import recipe_of
from data_jobs.parts import (
    ModelNames,
    Models,
    Stores,
    build_models,
    deliver_queued,
    open_catalog,
    open_stores_for,
)
from data_jobs.rows import Row
from data_jobs.run import Counts, IngestReport, Load, SyncRun
from data_jobs.source_lock import source_lock
from data_jobs.stages.parse import ParseStage
from data_jobs.work import EmbedRows, UpsertRows, batches, build_prepare, prepare_one


def ingest(
    settings: Settings,
    config: SourceConfig,
    *,
    allows_empty: bool = False,
    on_progress: Callable[[Counts], None] = lambda counts: None,
) -> IngestReport:
    """Load one source in this process; raises InputError when it cannot be listed, Conflict while it is loaded."""
    with source_lock(settings, config.source_id), open_catalog(settings) as catalog:
        models = build_models(settings)
        load = build_load(settings, config, models.names, allows_empty=allows_empty, on_progress=on_progress)
        with ParseStage(settings) as parse:
            stores = partial(open_stores_for, models, settings, catalog)
            report = SyncRun(load, catalog).run(LocalWork(settings, load.connector, parse, stores, models))
        deliver_queued(settings)
    return report


def build_load(
    settings: Settings,
    config: SourceConfig,
    models: ModelNames,
    *,
    allows_empty: bool,
    on_progress: Callable[[Counts], None],
) -> Load:
    """State what is to be loaded, and by which models and settings."""
    return Load(
        config=config,
        connector=build_connector(config),
        recipe=recipe_of(config, settings, models.lexical),
        embedding_model_version=models.embedding_model_version,
        allows_empty=allows_empty,
        on_progress=on_progress,
    )


class LocalWork:
    """Does the heavy work in this process; only parsing happens in a confined child. Stores open with the first row."""

    def __init__(
        self,
        settings: Settings,
        connector: Connector,
        parse: ParseStage,
        open_stores: Callable[[], Stores],
        models: Models,
    ) -> None:
        self._settings = settings
        self._connector = connector
        self._parse = parse
        self._open_stores = open_stores
        self._models = models

    def __call__(self, rows: Iterator[Row]) -> Generator[Row, None, None]:
        """Yield each document when it is settled: written, found unchanged, or failed."""
        for first in rows:
            stores, models = self._open_stores(), self._models
            prepare = build_prepare(
                self._settings, self._connector, self._parse, stores.objects, models.embedder
            )
            embed, upsert = EmbedRows(models), UpsertRows(stores, models.embedder.version)
            prepared = (prepare_one(prepare, row) for row in chain([first], rows))
            for batch in batches(prepared):
                yield from upsert(embed(batch))
