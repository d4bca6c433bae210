"""SpiceDB: permission checks. It keeps tuples in memory, so each start reloads them from the catalog before it serves."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from cluster.engine import Engine, Launch
from cluster.place import Place
from cluster.probe import probe_tcp


def _provides(place: Place) -> dict[str, str]:
    return {
        "CORTEX_SPICEDB_URL": f"127.0.0.1:{place.port('spicedb')}",
        "CORTEX_SPICEDB_TOKEN": place.secret("spicedb"),
    }


async def _probe(env: Mapping[str, str]) -> None:
    await probe_tcp(env["CORTEX_SPICEDB_URL"])


def _launch(place: Place) -> Launch:
    port = str(place.port("spicedb"))
    return Launch((sys.executable, "-m", "cluster.engines.spicedb_server", "--port", port))


ENGINE = Engine(
    name="spicedb",
    summary="permission checks",
    probe=_probe,
    provides=_provides,
    launch=_launch,
    given_url=lambda settings: settings.spicedb_url,
    depends_on=("postgres",),
    steps=("data_jobs.reload_permissions",),
)
