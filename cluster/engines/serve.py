"""The serve app: the HTTP API and the web page, deployed into the running Ray."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from cluster.engine import Engine, Launch
from cluster.place import Place
from cluster.probe import probe_http
from cortex.errors import Unavailable

_MARK_VARIABLE = "CORTEX_SERVE_READY_FILE"


def _provides(place: Place) -> dict[str, str]:
    port = place.http_port()
    host = place.settings.http_host
    reached = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104  compared, not bound
    mark = place.folder("run") / "serve.ready"
    url = f"http://{reached}:{port}"
    return {"CORTEX_HTTP_URL": url, "CORTEX_HTTP_PORT": str(port), _MARK_VARIABLE: str(mark)}


def _launch(place: Place) -> Launch:
    (place.folder("run") / "serve.ready").unlink(missing_ok=True)
    return Launch((sys.executable, "-m", "serve_apps.run"))


async def _probe(env: Mapping[str, str]) -> None:
    # An ingress that outlived an earlier deployer still answers; the new one says itself when it has taken over.
    if not Path(env[_MARK_VARIABLE]).exists():
        raise Unavailable("the query app is starting")
    await probe_http(f"{env['CORTEX_HTTP_URL']}/healthz")


ENGINE = Engine(
    name="serve",
    summary="HTTP API and web page",
    probe=_probe,
    provides=_provides,
    launch=_launch,
    depends_on=("postgres", "qdrant", "spicedb", "objects", "ray"),
    starts_early=True,  # its imports take as long as half of Ray's start
    bound_to=("ray",),
    start_timeout_s=300.0,  # in the staged placement seven processes and more import at once
    stop_timeout_s=20.0,
)
