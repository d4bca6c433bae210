"""Compares catalog, index, objects and permissions with one another; `cortex doctor --consistency` runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial

from adapters.catalog.inventory import CatalogInventory
from adapters.catalog.mend import CatalogMender
from adapters.catalog.outbox import PostgresOutbox
from adapters.objects import ObstoreObjects
from adapters.qdrant_reader import QdrantIndexReader
from adapters.spicedb.reader import SpiceDBReader
from adapters.spicedb.writer import SpiceDBWriter
from cortex.errors import Unavailable
from cortex.settings import Settings
from data_jobs.actor import operator
from data_jobs.consistency.digests import ContentHash
from data_jobs.consistency.menders import ContentMender, IndexMender, TupleMender
from data_jobs.consistency.objects import check_objects
from data_jobs.consistency.permissions import check_catalog, check_tuples
from data_jobs.consistency.points import check_points
from data_jobs.consistency.rebuild import PointBuilder
from data_jobs.consistency.report import Difference, Kind, Ledger, Report
from data_jobs.consistency.vectors import hash_vectors
from data_jobs.deliver import INDEX_TOPICS, PERMISSION_TOPICS
from data_jobs.parts import (
    Stores,
    build_index,
    build_models,
    build_objects,
    deliver_queued,
    open_catalog,
    require,
)
from data_jobs.reload_permissions import reload_permissions
from data_jobs.stages.parse import ParseStage

_SETTLE_S = 30.0
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class _Opened:
    """The stores of one home, for reading."""

    inventory: CatalogInventory
    index: QdrantIndexReader
    objects: ObstoreObjects
    spicedb: SpiceDBReader
    outbox: PostgresOutbox


def check(
    settings: Settings,
    *,
    repairs: bool = False,
    reads_objects: bool = True,
    reads_vectors: bool = False,
    on_progress: Callable[[str, int], None] = lambda what, n: None,
) -> Report:
    """Compare everything while the home runs, and mend what differs if asked to.

    Permissions come first, then points, so that what is hidden is hidden everywhere. Raises Unavailable when an engine
    does not answer: half a comparison says nothing.
    """
    started = time.monotonic()
    ledger = Ledger(on_progress)
    with _opened(settings) as stores, ExitStack() as stack:
        menders = _Menders(settings, stores, ledger, stack) if repairs else None
        _check_parked(settings, stores, ledger, menders is not None)
        check_catalog(stores.inventory, ledger, menders.tuples if menders else None)
        settle = partial(_settle, settings, stores.outbox, repairs)
        check_tuples(stores.inventory, stores.spicedb, ledger, menders.tuples if menders else None, settle)
        settle()
        index_sha256 = check_points(
            stores.inventory, stores.index, ledger, menders.points if menders else None
        )
        check_objects(
            stores.inventory,
            stores.objects,
            ledger,
            menders.contents if menders else None,
            reads_content=reads_objects,
        )
        vectors_sha256 = hash_vectors(stores.index, ledger) if reads_vectors else ""
        catalog_sha256 = _hash_catalog(stores.inventory)
        if repairs:
            deliver_queued(settings)
    return Report(
        ledger.differences(),
        dict(sorted(ledger.counted.items())),
        ledger.in_flight,
        index_sha256,
        vectors_sha256,
        catalog_sha256,
        round(time.monotonic() - started, 2),
    )


def mend_points(settings: Settings) -> tuple[Difference, ...]:
    """Bring the index to what the catalog says, without SpiceDB; returns what differed."""
    ledger = Ledger(lambda what, n: None)
    with ExitStack() as stack:
        inventory = CatalogInventory(settings.postgres_url)
        stack.callback(inventory.close)
        index = QdrantIndexReader.from_settings(settings)
        stack.callback(index.close)
        outbox = PostgresOutbox(settings.postgres_url)
        stack.callback(outbox.close)
        check_points(inventory, index, ledger, _index_mender(settings, index, outbox, ledger, stack))
    return ledger.differences()


@contextmanager
def _opened(settings: Settings) -> Iterator[_Opened]:
    for url, engine in (
        (settings.postgres_url, "postgres"),
        (settings.qdrant_url, "qdrant"),
        (settings.spicedb_url, "spicedb"),
    ):
        require(url, engine)
    with ExitStack() as stack:
        inventory = CatalogInventory(settings.postgres_url)
        stack.callback(inventory.close)
        index = QdrantIndexReader.from_settings(settings)
        stack.callback(index.close)
        spicedb = SpiceDBReader(
            settings.spicedb_url, settings.spicedb_token.get_secret_value(), settings.spicedb_tls
        )
        stack.callback(spicedb.close)
        spicedb.ping()
        outbox = PostgresOutbox(settings.postgres_url)
        stack.callback(outbox.close)
        yield _Opened(inventory, index, ObstoreObjects.from_settings(settings), spicedb, outbox)


class _Menders:
    """The menders of one home."""

    def __init__(self, settings: Settings, stores: _Opened, ledger: Ledger, stack: ExitStack) -> None:
        catalog = CatalogMender(settings.postgres_url, operator())
        stack.callback(catalog.close)
        self.tuples = TupleMender(catalog, ledger)
        self.points = _index_mender(settings, stores.index, stores.outbox, ledger, stack)
        self.contents = ContentMender(settings, stores.inventory, stores.objects, ledger)


def _index_mender(
    settings: Settings, index: QdrantIndexReader, outbox: PostgresOutbox, ledger: Ledger, stack: ExitStack
) -> IndexMender:
    """Build the mender of points; models and parser are loaded when the first has to be made again."""
    catalog = CatalogMender(settings.postgres_url, operator())
    stack.callback(catalog.close)
    builder = cache(lambda: _builder(settings, index, stack))
    return IndexMender(settings.postgres_url, catalog, outbox, build_index(settings), builder, ledger)


def _builder(settings: Settings, index: QdrantIndexReader, stack: ExitStack) -> PointBuilder | None:
    """Open what makes points; None when searches read another model's collection, which must not be changed from here."""
    models = build_models(settings)
    if index.serving() not in ("", index.collection_of(models.embedder.version)):
        return None
    writer = build_index(settings)
    writer.ensure(models.embedder.version, models.embedder.dimension)
    catalog = stack.enter_context(open_catalog(settings))
    parse = stack.enter_context(ParseStage(settings))
    return PointBuilder(settings, Stores(catalog, writer, build_objects(settings)), models, parse)


def _check_parked(settings: Settings, stores: _Opened, ledger: Ledger, repairs: bool) -> None:
    """Find events that were given up. Index events are tried again; a whole reload stands for permission events."""
    parked = stores.inventory.parked()
    for topic, n in parked.items():
        ledger.found(Kind.OUTBOX_PARKED, topic, n)
    if not repairs or not parked:
        return
    if set(parked) & set(PERMISSION_TOPICS):
        writer = SpiceDBWriter(
            settings.spicedb_url, settings.spicedb_token.get_secret_value(), settings.spicedb_tls
        )
        try:
            reload_permissions(stores.outbox, writer, stores.spicedb)
        finally:
            writer.close()
    if set(parked) & set(INDEX_TOPICS):
        stores.outbox.unpark(INDEX_TOPICS)
        deliver_queued(settings)
    ledger.mended(Kind.OUTBOX_PARKED, sum(parked.values()) - sum(stores.inventory.parked().values()))


def _settle(settings: Settings, outbox: PostgresOutbox, delivers: bool) -> None:
    """Wait until what is queued by now is delivered, or deliver it; what still waits then counts as in flight."""
    if delivers:
        deliver_queued(settings)
        return
    newest_id = outbox.backlog().newest_id
    deadline = time.monotonic() + _SETTLE_S
    while outbox.waits_up_to(newest_id) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    if outbox.waits_up_to(newest_id, PERMISSION_TOPICS):
        raise Unavailable(
            "queued permission changes are not delivered, so tuples cannot be compared",
            code="outbox.slow",
            hint="cortex status; the relay delivers them",
        )


def _hash_catalog(inventory: CatalogInventory) -> str:
    content = ContentHash()
    for row in inventory.shown_texts():
        content.add(*row)
    return content.hexdigest()
