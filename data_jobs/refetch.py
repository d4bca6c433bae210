"""Refetch: reads again what pushes name, one source, until none of its pushes waits: `python -m data_jobs.refetch --source ID`.

An ordinary load in this process, of those items alone: people and groups first, then what is gone, then what changed.
Where a connector cannot be asked for single items, or a push concerns everything, it is a load of the whole source. A
push is settled after the load that saw it, so one that is killed is done again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import click

from adapters.catalog.pushes import CatalogPushes
from cortex.console import command
from cortex.documents import Acl, Document, Item, Membership, ParsedBody
from cortex.errors import Conflict
from cortex.ports.connectors import EVERYTHING, Connector, Fetched, Refetcher, SourceConfig, WebhookEvent
from cortex.ports.ingest import Push
from cortex.settings import Settings, settings
from cortex.telemetry import event, setup_logging
from data_jobs.ingest import LocalWork, build_load
from data_jobs.parts import Models, build_models, deliver_queued, open_catalog, open_stores_for
from data_jobs.run import IngestReport, SyncRun
from data_jobs.source_lock import source_lock
from data_jobs.stages.parse import ParseStage

# Pushes come in bursts (a message, its unfurled link, its thread's count): a moment later they are one load.
_GATHER_S = 1.0
_LOOK_AGAIN_S = 1.0


def refetch(given: Settings, source_id: str) -> None:
    """Act on a source's pushes until none waits; while another load has the source, wait for it."""
    pushes = CatalogPushes(given.postgres_url)
    models = build_models(given)
    while waiting := pushes.waiting(source_id):
        time.sleep(_GATHER_S)
        config = pushes.source(source_id)
        if config is None:  # removed meanwhile, and its pushes with it
            return
        try:
            with source_lock(given, source_id):
                waiting = pushes.waiting(source_id)
                report = load_some(given, config, models, waiting)
                pushes.settle(source_id, [push.push_id for push in waiting])
        except Conflict as error:
            if error.error_code != "run.active":
                raise
            time.sleep(_LOOK_AGAIN_S)
        else:
            event("refetch.finish", source_id=source_id, n_pushes=len(waiting), run_id=report.run_id)


def load_some(given: Settings, config: SourceConfig, models: Models, waiting: Iterable[Push]) -> IngestReport:
    """Load what some pushes name; the caller holds the source's lock."""
    ids = frozenset(external_id for push in waiting for external_id in push.changed_ids)
    with open_catalog(given) as catalog, ParseStage(given) as parse:
        load = build_load(given, config, models.names, allows_empty=False, on_progress=lambda counts: None)
        connector = load.connector
        if EVERYTHING not in ids and isinstance(connector, Refetcher):
            some = SomeItems(connector, connector, sorted(ids))
            load = replace(load, connector=some, allows_empty=True, only=ids)
        stores = partial(open_stores_for, models, given, catalog)
        report = SyncRun(load, catalog).run(LocalWork(given, connector, parse, stores, models))
    deliver_queued(given)
    return report


class SomeItems:
    """A connector that lists some items of its source, and is otherwise the one it stands for."""

    source_type: ClassVar[str] = ""

    def __init__(self, connector: Connector, refetcher: Refetcher, external_ids: Sequence[str]) -> None:
        self._connector = connector
        self._refetcher = refetcher
        self._external_ids = external_ids

    def fetch(self, cursor: str) -> Iterator[Fetched]:
        return self._refetcher.refetch(self._external_ids)

    def normalize(self, item: Item, parsed: ParsedBody, content_sha256: str) -> Document:
        return self._connector.normalize(item, parsed, content_sha256)

    def acls(self, item: Item) -> Acl:
        return self._connector.acls(item)

    def memberships(self) -> Iterable[Membership]:
        return self._connector.memberships()

    def cursor(self, items: Sequence[Item]) -> str:
        return self._connector.cursor(items)

    def webhook(self, headers: Mapping[str, str], body: bytes) -> WebhookEvent:
        return self._connector.webhook(headers, body)


@click.command()
@click.option("--source", "source_id", required=True, help="Id of a source that the catalog knows.")
@command
def main(source_id: str) -> None:
    """Act on the pushes of a source that the catalog knows."""
    given = settings()
    setup_logging(given.log_level)
    refetch(given, source_id)


if __name__ == "__main__":
    main()
