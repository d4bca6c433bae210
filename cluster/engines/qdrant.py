"""The Qdrant engine: the vector index, one owner process that speaks Qdrant's REST API."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from cluster.engine import Engine, Launch
from cluster.place import Place
from cluster.probe import probe_http


def _provides(place: Place) -> dict[str, str]:
    return {
        "CORTEX_QDRANT_URL": f"http://127.0.0.1:{place.port('qdrant')}",
        "CORTEX_QDRANT_API_KEY": place.secret("qdrant"),
    }


async def _probe(env: Mapping[str, str]) -> None:
    await probe_http(f"{env['CORTEX_QDRANT_URL'].rstrip('/')}/readyz")


def _launch(place: Place) -> Launch:
    folder, port = place.folder("qdrant"), place.port("qdrant")
    arguments = ("--path", str(folder), "--port", str(port))
    return Launch((sys.executable, "-m", "cluster.engines.qdrant_server", *arguments))


ENGINE = Engine(
    name="qdrant",
    summary="vector index",
    probe=_probe,
    provides=_provides,
    launch=_launch,
    given_url=lambda settings: settings.qdrant_url,
    stop_timeout_s=30.0,
)
