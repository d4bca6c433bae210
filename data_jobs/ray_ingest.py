"""Ingest as a Ray Data job in the running Ray; as a program: `python -m data_jobs.ray_ingest --source ID`.

Two pools of actors, nicer than anything that serves: one reads, parses (in a confined child) and chunks portions of the
listing, the other embeds pieces of what came out, shortest chunks first. Between them and this process lies the
checkpoint in the home. This process lists, compares, and writes what is embedded in the order of the listing: one
writer, so that near-duplicates are grouped alike in every run.
"""

from __future__ import annotations

import logging
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import click

from cortex.console import command, write_document
from cortex.errors import NotFound
from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings, settings
from cortex.telemetry import event, setup_logging
from data_jobs.checkpoint import Checkpoint, Part, checkpoint_folder
from data_jobs.ingest import build_load
from data_jobs.parts import (
    Stores,
    build_index,
    build_models,
    deliver_queued,
    name_models,
    open_catalog,
    open_stores,
)
from data_jobs.portions import Portion, portions, windows
from data_jobs.ray_cluster import connect, data_session, require_ray
from data_jobs.ray_pools import Pools, choose_pools
from data_jobs.ray_stages import EmbedPieces, Job, PreparePortions
from data_jobs.rows import Row
from data_jobs.run import Counts, IngestReport, SyncRun
from data_jobs.source_lock import source_lock
from data_jobs.work import UpsertRows


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
        models = name_models(settings)
        load = build_load(settings, config, models, allows_empty=allows_empty, on_progress=on_progress)
        stores = partial(open_stores, settings, catalog, models.embedding_model_version)
        folder = checkpoint_folder(settings, config.source_id, load.recipe, load.embedding_model_version)
        report = SyncRun(load, catalog).run(
            RayWork(Job(settings, config, folder), stores, models.embedding_model_version)
        )
        deliver_queued(settings)
    return report


class RayWork:
    """Does the heavy work in Ray. Connects when the first document needs it: an unchanged source never does."""

    def __init__(self, job: Job, open_stores: Callable[[int], Stores], model_version: str) -> None:
        self._job = job
        self._open_stores = open_stores
        self._model_version = model_version
        self._upsert: UpsertRows | None = None
        self._checkpoint = Checkpoint(job.folder)
        self._is_noted = False

    def __call__(self, rows: Iterator[Row]) -> Generator[Row | None, None, None]:
        """Yield each document when it is settled: written, found unchanged, or failed; None for each piece before."""
        for first in rows:
            connect(self._job.settings)
            pools = choose_pools(self._job.settings)
            prepared = self._begin()
            with data_session(self._job.settings), ThreadPoolExecutor(1) as beside:
                beside.submit(build_index, self._job.settings)  # a second of imports, while actors start
                for window in windows(portions(chain([first], rows), prepared)):
                    yield from self._settled(window, pools)
        self._checkpoint.clear()

    def _begin(self) -> dict[tuple[str, str], Part]:
        prepared = self._checkpoint.open()
        self._job.attempts.reset()
        self._checkpoint.settle(0)
        return prepared

    def _settled(self, window: list[Portion], pools: Pools) -> Iterator[Row | None]:
        """Write each portion when all its pieces are embedded, in order, and drop its part."""
        with closing(self._embedded(window, pools)) as pieces:
            for portion in window:
                part = next(pieces)
                for _ in range(1, part.n_pieces):
                    yield None
                    part = next(pieces)
                assert part.name == portion.name  # Ray Data keeps the order that it is told to keep
                assert self._upsert is not None  # the first piece has opened it
                yield from self._upsert(self._checkpoint.complete(part, portion.rows))
                self._checkpoint.settle(portion.first + len(portion.rows))
                self._checkpoint.drop(part)
            deque(pieces, maxlen=0)  # lets Ray Data see its end, and release its actors

    def _embedded(self, window: list[Portion], pools: Pools) -> Generator[Part, None, None]:
        """Run a window through both kinds of actors: the part of each piece, in the order of the portions."""
        import ray.data

        light = [
            {"portion": replace(portion, rows=()) if portion.is_prepared else portion} for portion in window
        ]
        pools = pools.fitting(len(window), sum(portion.n_bytes for portion in window))
        pieces = (
            ray.data.from_items(light, override_num_blocks=len(light))
            .map_batches(PreparePortions, batch_size=1, **_pool(self._job, pools.n_prepare))
            .map_batches(EmbedPieces, batch_size=1, **_pool(self._job, pools.n_embed, pools.gpu_share))
        )
        with self._diagnosed():
            for piece in pieces.iter_rows():
                self._note_device(bool(piece["is_on_gpu"]), pools)
                self._open(int(piece["dimension"]))
                yield Part(piece["name"], int(piece["n_pieces"]))

    def _open(self, dimension: int) -> None:
        """Open the stores once it is known what goes there: only those who embed have the model open."""
        if self._upsert is None:
            self._upsert = UpsertRows(self._open_stores(dimension), self._model_version)

    @contextmanager
    def _diagnosed(self) -> Iterator[None]:
        """Where actors do not start, say why: a model that cannot be opened there cannot be opened here."""
        import ray

        try:
            yield
        except ray.exceptions.RayError:
            build_models(self._job.settings)
            raise

    def _note_device(self, is_on_gpu: bool, pools: Pools) -> None:
        """Say once that a worker holds a GPU and cannot use it; its own log says more."""
        if pools.gpu_share and not is_on_gpu and not self._is_noted:
            self._is_noted = True
            hint = (
                "install onnxruntime-gpu in the place of onnxruntime, or set CORTEX_INGEST_GPUS_PER_WORKER=0"
            )
            event("ingest.without_gpu", level=logging.WARNING, code="model.without_gpu", hint=hint)


def _pool(job: Job, n_actors: int, gpu_share: float = 0.0) -> dict[str, Any]:
    import ray.data

    return {
        **({"num_gpus": gpu_share} if gpu_share else {}),
        "fn_constructor_args": (job,),
        # Two tasks at an actor keep it busy; more would leave one actor with all that remains at the end.
        "compute": ray.data.ActorPoolStrategy(size=n_actors, max_tasks_in_flight_per_actor=2),
        # The serving app holds Ray's logical CPUs, and even a hundredth of one would wait for it for ever.
        "num_cpus": 0,
    }


def configured_source(settings: Settings, named: str) -> SourceConfig:
    """Look up a source by its id or name; raises NotFound."""
    with open_catalog(settings) as catalog:
        for source in catalog.list_sources(settings.tenant_id):
            if named in (source["source_id"], source["name"]):
                return SourceConfig(
                    tenant_id=settings.tenant_id,
                    source_id=source["source_id"],
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
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # as Ctrl-C: what is done stays done, and counted
    write_document(ray_ingest(given, configured_source(given, source_id)))


if __name__ == "__main__":
    main()
