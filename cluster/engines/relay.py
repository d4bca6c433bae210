"""The relay: takes queued side effects from the catalog's outbox to SpiceDB and the vector index."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from cluster.engine import Engine, Launch


async def _probe(env: Mapping[str, str]) -> None:
    return  # it listens to nobody: running is all there is to see


ENGINE = Engine(
    name="relay",
    summary="outbox to SpiceDB and the index",
    probe=_probe,
    provides=lambda place: {},
    launch=lambda place: Launch((sys.executable, "-m", "data_jobs.relay")),
    depends_on=("postgres", "qdrant", "spicedb"),
)
