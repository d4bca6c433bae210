"""The embedded engines, in the order of starting, and which of them a command means."""

from __future__ import annotations

from cluster.engine import Engine
from cluster.engines import objects, postgres, qdrant, ray, relay, serve, spicedb
from cortex.errors import InputError

ENGINES: tuple[Engine, ...] = (
    ray.ENGINE,  # the slowest first
    postgres.ENGINE,
    qdrant.ENGINE,
    objects.ENGINE,
    spicedb.ENGINE,
    relay.ENGINE,
    serve.ENGINE,
)


def choose(names: str) -> tuple[Engine, ...]:
    """Return the engines of a comma-separated list, in order; all when it is empty. Raises InputError."""
    wanted = {name.strip() for name in names.split(",") if name.strip()}
    known = {engine.name for engine in ENGINES}
    if unknown := sorted(wanted - known):
        raise InputError(
            f"there is no engine called {', '.join(unknown)}",
            code="engine.unknown",
            hint=f"choose from {', '.join(sorted(known))}",
        )
    return tuple(engine for engine in ENGINES if not wanted or engine.name in wanted)
