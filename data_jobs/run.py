"""A sync run: everything about loading a source except who does the heavy work (one process, or Ray).

In order: people and groups, access lists that changed, what is gone, and then the documents that have to be made. All
writes can be repeated, so that the run after a crash finishes what this one began.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from cortex.documents import GrantKind
from cortex.errors import Conflict, CortexError, InputError
from cortex.ports.connectors import Connector, FetchFailure, Skipped, SourceConfig
from cortex.ports.ingest import AclWrite, IngestCatalog, KnownDocument
from cortex.telemetry import event
from data_jobs.compare import Survey, changed, survey
from data_jobs.links import LinkReport, report_links
from data_jobs.patience import patiently
from data_jobs.rows import LASTING_FAILURES, Row

# Gives each row when it is settled, and None now and then while that takes long: the run can be stopped there.
Process = Callable[[Iterator[Row]], Generator[Row | None, None, None]]

_ACLS_PER_WRITE = 200
_FINGERPRINTS_PER_WRITE = 500
_PUBLISH_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Counts:
    """How far a run is. `total` entries are listed; each becomes indexed, unchanged or failed.

    `skipped` counts what the source holds beside them and is left out on purpose.
    """

    total: int = 0
    indexed: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    skipped: int = 0
    access_changed: int = 0
    chunks: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name, as the catalog keeps them."""
        return {name: getattr(self, name) for name in self.__slots__}


class RunStopped(Conflict):
    """Somebody stopped the run: by its id, or with Ctrl-C."""

    code = "run.stopped"


@dataclass(frozen=True, slots=True)
class FailedItem:
    """One entry that is not in the index, and why."""

    path: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What a run did."""

    indexed: int
    unchanged: int
    removed: int
    failed: tuple[FailedItem, ...]
    access_changed: int
    chunks: int
    source_id: str
    run_id: str
    seconds: float
    links: LinkReport = field(default_factory=LinkReport)
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """What to load: a source with its connector, and by which models and settings.

    `allows_empty` lets a source that lists nothing remove all its documents. `only`, if given, are the items that the
    connector was asked for: no other is gone because it is not listed.
    """

    config: SourceConfig
    connector: Connector
    recipe: str
    embedding_model_version: str
    allows_empty: bool = False
    only: frozenset[str] | None = None
    on_progress: Callable[[Counts], None] = field(default=lambda counts: None)


class SyncRun:
    """One run over one source."""

    def __init__(self, load: Load, catalog: IngestCatalog) -> None:
        self._load = load
        self._catalog = catalog
        self._counts = Counts()
        self._failures: list[FetchFailure] = []
        self._skipped: tuple[Skipped, ...] = ()
        self._fingerprints: dict[str, str] = {}
        self._published_at = 0.0

    def run(self, process: Process) -> IngestReport:
        """Bring catalog and index to the source's state; raises InputError when the source cannot be listed."""
        started = time.monotonic()
        source_id = self._load.config.source_id
        patiently(lambda: self._catalog.ensure_source(self._load.config))
        run_id = patiently(lambda: self._catalog.start_run(source_id))
        try:
            self._sync(run_id, process)
        except (KeyboardInterrupt, RunStopped) as error:
            with suppress(CortexError):
                self._finish(run_id, "stopped")
            raise RunStopped(
                f"stopped; the {self._counts.indexed} documents loaded so far can be searched",
                hint="run the same command again: it goes on where this one stopped",
            ) from error
        except BaseException as error:
            self._failures.append(FetchFailure("", *_cause(error)))
            with suppress(CortexError):  # the catalog itself may be what failed; the next run closes this one
                self._finish(run_id, "failed")
            raise
        patiently(lambda: self._finish(run_id, "succeeded"))
        return self._report(run_id, time.monotonic() - started)

    def _sync(self, run_id: str, process: Process) -> None:
        load, catalog = self._load, self._catalog
        known = patiently(
            lambda: catalog.known_documents(load.config.source_id, load.embedding_model_version)
        )
        found = survey(load.connector, known, load.recipe)
        self._failures += found.failures
        self._skipped = tuple(sorted(found.skipped.values(), key=lambda kind: kind.code))
        self._refuse_vanished(found, known)
        n_failed = len(found.failures)
        self._count(total=found.n_items + n_failed, unchanged=found.n_unchanged, failed=n_failed)
        self._count(skipped=sum(kind.n for kind in self._skipped))
        self._settle_access(found)
        gone = [one for one in found.gone if load.only is None or one.external_id in load.only]
        for document in gone:
            patiently(partial(catalog.tombstone, document.document_id))
        self._count(removed=len(gone))
        with closing(process(self._rows(known))) as rows:
            for row in rows:
                if row is not None:
                    self._take(row)
                self._publish(run_id)
        self._keep_fingerprints()

    def _rows(self, known: dict[str, KnownDocument]) -> Iterator[Row]:
        """Yield what has to be made; an entry that could not be listed this time, but before, is a failure too."""
        reported = set(self._failures)
        for found in changed(self._load.connector, known, self._load.recipe):
            if isinstance(found, Row):
                yield found
            elif found not in reported:
                self._failures.append(found)
                self._count(failed=1)

    def _refuse_vanished(self, found: Survey, known: dict[str, KnownDocument]) -> None:
        """Stop before anything is removed because a folder is not mounted."""
        if root := found.unreadable_root:
            raise InputError(
                f"the source cannot be listed: {root.reason}",
                code="source.unreadable",
                hint="what was loaded before stays; mount or correct the folder and run again",
            )
        if known and found.n_items == 0 and not self._load.allows_empty:
            raise InputError(
                f"the source is empty, but {len(known)} of its documents are indexed; nothing was removed",
                code="source.empty",
                hint="if it is meant to be empty, run again with --allow-empty",
            )

    def _settle_access(self, found: Survey) -> None:
        """Write people, groups and changed access lists before anything else."""
        config, catalog = self._load.config, self._catalog
        memberships = list(self._load.connector.memberships())
        people = {edge.member.name for edge in memberships if edge.member.kind is GrantKind.USER}
        people |= found.user_ids
        patiently(lambda: catalog.ensure_users(config.tenant_id, people, config.source_id))
        patiently(lambda: catalog.set_memberships(config.tenant_id, config.source_id, memberships))
        for batch in _batches(found.acl_writes, _ACLS_PER_WRITE):
            patiently(partial(catalog.set_acls, config.tenant_id, config.source_id, batch))
        self._count(access_changed=len(found.acl_writes))

    def _take(self, row: Row) -> None:
        """Count what became of a document."""
        if row.failure is not None:
            self._failures.append(row.failure)
            self._count(failed=1)
            self._hide_outdated(row)
        elif row.is_unchanged:
            self._count(unchanged=1)
            if row.known is not None:
                self._fingerprints[row.known.document_id] = row.fingerprint
            if len(self._fingerprints) >= _FINGERPRINTS_PER_WRITE:
                self._keep_fingerprints()
        else:
            self._count(indexed=1, chunks=row.n_chunks)

    def _hide_outdated(self, row: Row) -> None:
        """Hide a document whose present content holds no text: its old text is no longer at the source."""
        known, failure = row.known, row.failure
        is_textless = failure is not None and failure.code in LASTING_FAILURES
        if known is not None and is_textless and known.content_sha256 != row.content_sha256:
            patiently(lambda: self._catalog.tombstone(known.document_id))

    def _keep_fingerprints(self) -> None:
        if self._fingerprints:
            patiently(lambda: self._catalog.set_fingerprints(self._fingerprints))
            self._fingerprints = {}

    def _count(self, **more: int) -> None:
        counts = self._counts
        self._counts = replace(counts, **{name: getattr(counts, name) + n for name, n in more.items()})
        self._load.on_progress(self._counts)

    def _publish(self, run_id: str) -> None:
        """Let others watch the run, and stop it, about once a second; missing one update costs nothing."""
        if time.monotonic() - self._published_at >= _PUBLISH_EVERY_S:
            self._published_at = time.monotonic()
            is_unwanted = False
            with suppress(CortexError):
                is_unwanted = self._catalog.update_run(run_id, self._counts.as_dict())
            if is_unwanted:
                raise RunStopped("somebody asked the run to stop")

    def _finish(self, run_id: str, status: str) -> None:
        self._catalog.finish_run(run_id, status, self._counts.as_dict(), self._failures, self._skipped)
        event("ingest.finished", run_id=run_id, status=status, **self._counts.as_dict())

    def _report(self, run_id: str, seconds: float) -> IngestReport:
        counts = self._counts
        return IngestReport(
            indexed=counts.indexed,
            unchanged=counts.unchanged,
            removed=counts.removed,
            failed=tuple(
                FailedItem(failure.external_id, failure.code, failure.reason) for failure in self._failures
            ),
            access_changed=counts.access_changed,
            chunks=counts.chunks,
            source_id=self._load.config.source_id,
            run_id=run_id,
            seconds=round(seconds, 3),
            links=patiently(lambda: report_links(self._catalog, self._load.config.source_id)),
            skipped=self._skipped,
        )


def _batches(items: Sequence[AclWrite], size: int) -> Iterator[Sequence[AclWrite]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _cause(error: BaseException) -> tuple[str, str]:
    if isinstance(error, CortexError):
        return error.error_code, error.message
    return "run.broken", f"the run ended by {type(error).__name__}"
