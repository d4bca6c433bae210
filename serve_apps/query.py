"""The Serve app: one deployment that holds the whole query path and the HTTP API (the fused placement).

`serve_apps.query:build` is its import path, here and in a cluster's Serve config.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from ray import serve
from ray.serve import Application

from cortex.errors import Misconfigured
from cortex.settings import read_settings
from cortex.telemetry import setup_logging
from serve_apps.http import make_app
from serve_apps.tracing import setup_tracing

APP_NAME = "cortex"
# Beyond the questions that the guard counts: pages, health checks and refusals must not wait in Serve's queue.
_SPARE_REQUESTS = 64


class BuildArgs(BaseModel):
    """What a Serve config may say. `backend` opens everything behind HTTP: `module:function` of the settings."""

    home: str = ""
    backend: str = "serve_apps.backend:open_backend"


@serve.ingress()
class Query:
    """One replica: opens its backend, then answers HTTP."""

    async def __init__(self, home: str, backend: str) -> None:  # type: ignore[misc]  # Serve awaits it
        if home:
            os.environ["CORTEX_HOME"] = home
        self._settings = read_settings()
        setup_logging(self._settings.log_level)
        setup_tracing(self._settings)
        module, _, function = backend.partition(":")
        self._backend = await getattr(import_module(module), function)(self._settings)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return make_app(self._backend, self._settings)

    async def __del__(self) -> None:
        if hasattr(self, "_backend"):
            await self._backend.close()


def build(args: BuildArgs) -> Application:
    """Make the app for `serve.run` or a Serve config."""
    settings = read_settings()
    if settings.placement != "fused":
        raise Misconfigured(
            "this version serves the fused placement only",
            code="placement.unknown",
            hint="CORTEX_PLACEMENT=fused",
        )
    options: dict[str, Any] = {
        "name": "query",
        # The engines beside it do the work; on one machine a reserved core would be taken from bulk jobs.
        "ray_actor_options": {"num_cpus": 0},
        "max_ongoing_requests": settings.max_concurrent_requests + _SPARE_REQUESTS,
        "graceful_shutdown_timeout_s": 5,
        "logging_config": {"enable_access_log": False, "log_level": "WARNING"},
    }
    return serve.deployment(Query, **options).bind(args.home, args.backend)
