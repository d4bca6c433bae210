"""`python -m serve_apps.empty`: put an app that answers nothing beside the query app: what a route of Serve itself costs.

`cortex bench query` measures against it. It stays until Serve is taken down.
"""

from __future__ import annotations

import logging

import click
import ray
from ray import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cortex.console import command
from cortex.settings import read_settings
from serve_apps.query import LOGGING

PREFIX = "/empty"


@serve.ingress()
class Empty:
    """One replica: its app is made as the query app's is, and holds one route."""

    def __serve_build_asgi_app__(self) -> Starlette:
        return Starlette(routes=[Route("/", _nothing)])


async def _nothing(_: Request) -> Response:
    return Response()


@click.command(help=__doc__)
@command
def main() -> None:
    ray.init(read_settings().ray_address, log_to_driver=False, logging_level=logging.WARNING)
    deployment = serve.deployment(
        Empty, name="empty", logging_config=LOGGING, ray_actor_options={"num_cpus": 0}
    )
    serve.run(deployment.bind(), name="empty", route_prefix=PREFIX)
    ray.shutdown()


if __name__ == "__main__":
    main()
