"""The serve app: the HTTP API and the web page, deployed into the running Ray."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from cluster.engine import Engine, Launch
from cluster.place import Place
from cluster.probe import probe_http


def _provides(place: Place) -> dict[str, str]:
    port = place.http_port()
    host = place.settings.http_host
    reached = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104  compared, not bound
    return {"CORTEX_HTTP_URL": f"http://{reached}:{port}", "CORTEX_HTTP_PORT": str(port)}


async def _probe(env: Mapping[str, str]) -> None:
    await probe_http(f"{env['CORTEX_HTTP_URL']}/healthz")


ENGINE = Engine(
    name="serve",
    summary="HTTP API and web page",
    probe=_probe,
    provides=_provides,
    launch=lambda place: Launch((sys.executable, "-m", "serve_apps.run")),
    depends_on=("postgres", "qdrant", "spicedb", "objects", "ray"),
    bound_to=("ray",),
    start_timeout_s=180.0,
    stop_timeout_s=20.0,
)
