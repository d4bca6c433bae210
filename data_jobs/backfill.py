"""Backfills: loads that are handed to a Ray cluster by its address, recorded in the catalog, and watched from anywhere.

A submission's id comes from what it would load: the source, the recipe, and the last run that loaded all of it. So a
repeat meets the first one, whoever sends it.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial

from adapters.catalog.backfills import Backfill, PostgresBackfills
from connectors.registry import build_connector
from cortex.errors import Conflict, CortexError, NotFound
from cortex.ids import sha256_hex
from cortex.ports.connectors import SourceConfig
from cortex.settings import Settings
from cortex.telemetry import event, setup_logging
from data_jobs.ingest import build_load
from data_jobs.parts import name_models, open_catalog, require

_BEAT_S = 5.0
_PROGRESS_EVERY = 10  # beats


@dataclass(frozen=True, slots=True)
class Submission:
    """What a cluster is asked to load."""

    submission_id: str
    config: SourceConfig


def claim(settings: Settings, config: SourceConfig) -> Submission:
    """Record a submission before the cluster is told; raises Conflict naming the one that has the source."""
    build_connector(config)  # a source that cannot be read here would fail there
    record = backfills(settings)
    submission = Submission(_submission_id(settings, config, record.cursor(config.source_id)), config)
    holder = record.claim(submission.submission_id, config.tenant_id, config.source_id, settings.ray_address)
    if holder:
        raise Conflict(
            f"backfill {holder} is loading this source",
            code="backfill.active",
            hint=f"cortex backfill status {holder}",
        )
    return submission


def backfills(settings: Settings) -> PostgresBackfills:
    """Open the record of backfills; raises Misconfigured."""
    require(settings.postgres_url, "postgres")
    return PostgresBackfills(settings.postgres_url)


def found(settings: Settings, submission_id: str) -> Backfill:
    """Look up one submission; raises NotFound."""
    for backfill in backfills(settings).listed(settings.tenant_id, submission_id):
        return backfill
    raise NotFound("there is no such backfill", code="backfill.unknown", hint="cortex backfill status")


def stop(settings: Settings, submission_id: str) -> None:
    """Ask a backfill to stop, and wait until its run is told; raises Conflict when it does not run."""
    backfill = found(settings, submission_id)
    if backfill.status != "running":
        raise Conflict(f"the backfill has ended: it {backfill.status}", code="backfill.ended")
    if not backfill.run_id:
        raise Conflict(
            "the backfill is starting and has no run yet",
            code="backfill.starting",
            hint="try again in a moment",
        )
    with open_catalog(settings) as catalog:
        catalog.request_stop(settings.tenant_id, backfill.run_id)


def carry_out(
    settings: Settings, submission: Submission, load: Callable[[Settings, SourceConfig], object]
) -> str:
    """Load, with a beat and the log in the catalog; returns how it ended."""
    record = backfills(settings)
    with _recorded(record, submission.submission_id):
        status = _outcome(lambda: load(settings, submission.config))
    record.finish(submission.submission_id, status)
    return status


def _outcome(load: Callable[[], object]) -> str:
    try:
        load()
    except CortexError as error:
        event("backfill.ended", code=error.error_code, message=error.message)
        return "stopped" if error.error_code == "run.stopped" else "failed"
    # The outermost loop of a process that nobody watches: the record must say how it ended.
    except Exception as error:  # noqa: BLE001
        event("backfill.broke", error=type(error).__name__)
        return "failed"
    return "succeeded"


def _submission_id(settings: Settings, config: SourceConfig, cursor: str) -> str:
    load = build_load(settings, config, name_models(settings), allows_empty=False, on_progress=lambda _: None)
    content = [asdict(config), load.recipe, load.embedding_model_version, cursor]
    return f"backfill-{sha256_hex(json.dumps(content, sort_keys=True, default=dict).encode())[:16]}"


class _Lines(logging.Handler):
    """Keeps what is logged until the next beat. Events never hold a document's content."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._lines.append(self.format(record) + "\n")

    def hand_over(self, hear: Callable[[str], None]) -> None:
        """Tell what came since the last time; where that raises, it is told again with the next."""
        kept = self._lines[:]
        hear("".join(kept))
        del self._lines[: len(kept)]


@contextmanager
def _recorded(record: PostgresBackfills, submission_id: str) -> Iterator[None]:
    """Beat in the record until the end, with what is logged meanwhile."""
    lines, is_over = _Lines(), threading.Event()
    setup_logging()
    log = logging.getLogger("cortex")
    log.addHandler(lines)

    def beat() -> None:
        is_last = False
        while not is_last:
            is_last = is_over.wait(_BEAT_S)
            with suppress(CortexError):  # the catalog restarts: the next beat says that we live
                lines.hand_over(partial(record.hear, submission_id))

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        log.removeHandler(lines)
