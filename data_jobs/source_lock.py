"""One run per source at a time on this machine: a lock that the kernel lets go when its holder dies."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from cortex.errors import Conflict
from cortex.settings import Settings


@contextmanager
def source_lock(settings: Settings, source_id: str) -> Iterator[None]:
    """Hold a source for one run; raises Conflict while another run holds it."""
    folder = settings.home / "run"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"ingest-{source_id}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(
                "this source is being loaded already",
                code="run.active",
                hint="watch it with `cortex sources list`",
            ) from error
        yield


def others_are_loaded(settings: Settings, source_id: str) -> bool:
    """Say whether another source is being loaded on this machine."""
    for path in (settings.home / "run").glob("ingest-*.lock"):
        if path.name == f"ingest-{source_id}.lock":
            continue
        with path.open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False
