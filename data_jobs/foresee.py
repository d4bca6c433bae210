"""Foresees what a large load adds to the home, before its first document is read: by the home's proportions, as planned."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from adapters.catalog.census import Census, count
from cortex.settings import Settings
from data_jobs.patience import patiently
from data_jobs.plan import Plan, plan
from data_jobs.run import Counts

# Fewer documents fit wherever Cortex runs at all.
LARGE_DOCUMENTS = 1_000


@dataclass(frozen=True, slots=True)
class Forecast:
    """What so many documents add, all engines together, and what this machine has free."""

    documents: int
    chunks: int
    disk_bytes: int
    memory_bytes: int
    free_disk_bytes: int
    free_memory_bytes: int

    @property
    def fits(self) -> bool:
        """Say whether this machine has room, if it holds all engines."""
        return self.disk_bytes <= self.free_disk_bytes and self.memory_bytes <= self.free_memory_bytes


def foresee(settings: Settings, n_documents: int) -> Forecast:
    """Plan the home with so many documents more; raises Unavailable when the catalog does not answer."""
    return forecast(
        count(settings.postgres_url),
        n_documents,
        shutil.disk_usage(settings.home).free,
        psutil.virtual_memory().available,
    )


def forecast(now: Census, n_documents: int, free_disk_bytes: int, free_memory_bytes: int) -> Forecast:
    """Compare two plans: of the home as it is, and with the documents."""
    n_chunks = round(n_documents * plan(now, 0).chunks_per_document)
    made = plan(now, 0, (now.n_chunks, now.n_chunks + n_chunks))
    added = (_added_bytes(made, "disk"), _added_bytes(made, "memory"))
    return Forecast(n_documents, n_chunks, *added, free_disk_bytes, free_memory_bytes)


def announcing(
    settings: Settings, announce: Callable[[Forecast], None], on_progress: Callable[[Counts], None]
) -> Callable[[Counts], None]:
    """Make a watcher of progress that announces a large load at the first word of how large it is."""
    is_known = False

    def watch(counts: Counts) -> None:
        nonlocal is_known
        n_documents = counts.total - counts.unchanged - counts.failed
        if not is_known and n_documents >= LARGE_DOCUMENTS:
            announce(patiently(lambda: foresee(settings, n_documents)))
        is_known = True
        on_progress(counts)

    return watch


def _added_bytes(made: Plan, kind: str) -> int:
    return sum(part.step_bytes[1] - part.step_bytes[0] for part in made.parts if part.kind == kind)
