"""Ingest in one process, without Ray: list, compare, parse, group, chunk, embed, upsert."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from connectors.registry import build_connector
from cortex.ports import Connector, SourceConfig
from cortex.settings import Settings
from data_jobs.fingerprints import recipe_of
from data_jobs.parts import Models, Stores, build_models, open_stores
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
    with source_lock(settings, config.source_id), open_stores(settings) as stores:
        models = build_models(settings)
        load = build_load(settings, config, models, allows_empty=allows_empty, on_progress=on_progress)
        stores.index.ensure(models.embedder.version, models.embedder.dimension)
        with ParseStage(settings) as parse:
            work = LocalWork(settings, load.connector, parse, stores, models)
            return SyncRun(load, stores.catalog).run(work)


def build_load(
    settings: Settings,
    config: SourceConfig,
    models: Models,
    *,
    allows_empty: bool,
    on_progress: Callable[[Counts], None],
) -> Load:
    """State what is to be loaded, and by which models and settings."""
    return Load(
        config=config,
        connector=build_connector(config),
        recipe=recipe_of(config, settings, models.lexical),
        embedding_model_version=models.embedder.version,
        allows_empty=allows_empty,
        on_progress=on_progress,
    )


class LocalWork:
    """Does the heavy work in this process; only parsing happens in a confined child."""

    def __init__(
        self, settings: Settings, connector: Connector, parse: ParseStage, stores: Stores, models: Models
    ) -> None:
        self._prepare = build_prepare(settings, connector, parse, stores.objects, models)
        self._embed = EmbedRows(models)
        self._upsert = UpsertRows(stores, models)

    def __call__(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yield each document when it is settled: written, found unchanged, or failed."""
        prepared = (prepare_one(self._prepare, row) for row in rows)
        for batch in batches(prepared):
            yield from self._upsert(self._embed(batch))
