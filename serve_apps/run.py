"""`python -m serve_apps.run`: deploy the query app into Ray as soon as that runs, say when a real query is answered, take
it down on SIGTERM.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import click
import httpx
import ray
from ray import serve

from cortex.console import describe, write_document
from cortex.errors import CortexError, Misconfigured, Unavailable
from cortex.settings import Settings, read_settings
from cortex.telemetry import event, setup_logging
from serve_apps.capacity import refuse_impossible
from serve_apps.placements import read_blocks
from serve_apps.query import APP_NAME, LOGGING, BuildArgs, build

# The supervisor ends an app that does not come up; these only keep a hand-started one from waiting for ever.
_RAY_TIMEOUT_S = 300.0
_QUERY_TIMEOUT_S = 60.0
_PAUSE_S = 0.1


@click.command(help=__doc__)
@click.option(
    "--backend", default=BuildArgs().backend, help="module:function that opens what is behind HTTP."
)
def main(backend: str) -> None:
    try:
        settings = read_settings()
        setup_logging(settings.log_level)
        serve_until_told(settings, backend)
    except CortexError as error:
        write_document({"error": describe(error)})
        sys.exit(error.exit_code)


def serve_until_told(settings: Settings, backend: str) -> None:
    """Deploy, write one line of JSON to stdout when the first request would be answered, and wait for a signal."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    # Beside an embedded Ray everything shares one machine.
    is_small = bool(os.environ.get("CORTEX_RAY_TEMP_DIR"))
    args = BuildArgs(home=str(settings.home), backend=backend, small=is_small)
    blocks = read_blocks(settings, settings.placement, small=is_small)
    _connect(settings, stop)
    try:
        refuse_impossible(blocks.values(), ray.cluster_resources())
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": settings.http_host, "port": settings.http_port},
            logging_config=LOGGING,
        )
        serve.run(build(args), name=APP_NAME, route_prefix="/")
        url = settings.http_url or f"http://{settings.http_host}:{settings.http_port}"
        _await_query(url, stop)
        if mark := os.environ.get("CORTEX_SERVE_READY_FILE"):
            Path(mark).write_text(str(os.getpid()))
        event("serve.ready", url=url)
        click.echo(json.dumps({"ready": True, "url": url, "pid": os.getpid()}))
        stop.wait()
    finally:
        event("serve.stop")
        serve.shutdown()
        ray.shutdown()


def _connect(settings: Settings, stop: threading.Event) -> None:
    if not settings.ray_address:
        raise Misconfigured(
            "no Ray is known here: CORTEX_RAY_ADDRESS is empty", code="ray.missing", hint="cortex up"
        )
    _await_ray(settings, stop)
    try:
        ray.init(settings.ray_address, namespace=APP_NAME, log_to_driver=False, logging_level=logging.WARNING)
    except ConnectionError as error:
        raise Unavailable(
            f"Ray does not answer at {settings.ray_address}", code="ray.unavailable", hint="cortex status"
        ) from error


def _await_ray(settings: Settings, stop: threading.Event) -> None:
    """Wait until Ray's node takes work: an embedded head says so in its folder, another one by accepting connections."""
    folder = os.environ.get("CORTEX_RAY_TEMP_DIR", "")
    address = settings.ray_address.removeprefix("ray://")
    give_up_at = time.monotonic() + _RAY_TIMEOUT_S
    while not stop.wait(_PAUSE_S):
        if (not folder or (Path(folder) / "ray_current_cluster").exists()) and _accepts(address):
            return
        if time.monotonic() > give_up_at:
            raise Unavailable(
                f"Ray does not answer at {settings.ray_address}", code="ray.unavailable", hint="cortex status"
            )
    raise SystemExit(0)


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host or "127.0.0.1", int(port)), timeout=3.0):
            return True
    except (OSError, ValueError):
        return False


def _await_query(url: str, stop: threading.Event) -> None:
    """Wait until a real query is answered through HTTP, or only an index is missing, as in a home that has loaded
    nothing; raises Unavailable with what the app says otherwise.
    """
    give_up_at = time.monotonic() + _QUERY_TIMEOUT_S
    while True:
        try:
            answer = httpx.get(f"{url}/readyz", timeout=_QUERY_TIMEOUT_S)
            said = f"answers {answer.status_code}"
            if answer.status_code == httpx.codes.OK or '"index.missing"' in answer.text:
                return
        except httpx.HTTPError as error:
            said = type(error).__name__
        if time.monotonic() > give_up_at or stop.wait(_PAUSE_S):
            raise Unavailable(
                f"the query app does not answer a query: {said}",
                code="serve.unready",
                hint="cortex logs serve",
            )


if __name__ == "__main__":
    main()
