"""`python -m serve_apps.run`: deploy the query app into the running Ray, say when it is ready, take it down on SIGTERM."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading

import click
import ray
from ray import serve

from cortex.console import describe, write_document
from cortex.errors import CortexError, Misconfigured, Unavailable
from cortex.settings import Settings, read_settings
from cortex.telemetry import event, setup_logging
from serve_apps.query import APP_NAME, BuildArgs, build


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
    _connect(settings)
    try:
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": settings.http_host, "port": settings.http_port},
            logging_config={"enable_access_log": False, "log_level": "WARNING"},
        )
        serve.run(build(BuildArgs(home=str(settings.home), backend=backend)), name=APP_NAME, route_prefix="/")
        url = f"http://{settings.http_host}:{settings.http_port}"
        event("serve.ready", url=url)
        click.echo(json.dumps({"ready": True, "url": url, "pid": os.getpid()}))
        stop.wait()
    finally:
        event("serve.stop")
        serve.shutdown()
        ray.shutdown()


def _connect(settings: Settings) -> None:
    if not settings.ray_address:
        raise Misconfigured(
            "no Ray is known here: CORTEX_RAY_ADDRESS is empty", code="ray.missing", hint="cortex up"
        )
    try:
        ray.init(settings.ray_address, namespace=APP_NAME, log_to_driver=False, logging_level=logging.WARNING)
    except ConnectionError as error:
        raise Unavailable(
            f"Ray does not answer at {settings.ray_address}", code="ray.unavailable", hint="cortex status"
        ) from error


if __name__ == "__main__":
    main()
