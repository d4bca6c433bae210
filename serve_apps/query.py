"""The Serve app of both placements: an ingress with the HTTP API, and in the staged one a deployment for each stage.

`serve_apps.query:build` is its import path, here and in a cluster's Serve config.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from ray import serve
from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from cortex.settings import Settings
from serve_apps.http import make_app
from serve_apps.metrics import StageMetrics
from serve_apps.placements import INGRESS, Block, CallLimits, deployments_of, read_blocks
from serve_apps.process import begin, settings_of
from serve_apps.replica import StageReplica
from serve_apps.service import Backend
from serve_apps.tracing import flush_traces

APP_NAME = "cortex"
# Serve's own log stays small: the ingress writes one event per request itself.
LOGGING = {"enable_access_log": False, "log_level": "WARNING"}


class BuildArgs(BaseModel):
    """What a Serve config may say of the app.

    `placement` is the setting when empty. `small`: one machine holds everything. `backend` opens everything behind HTTP
    in the fused placement: `module:function` of the settings.
    """

    model_config = ConfigDict(extra="forbid")
    home: str = ""
    placement: Literal["", "fused", "staged"] = ""
    small: bool = False
    backend: str = "serve_apps.backend:open_backend"


@serve.ingress()
class Query:
    """One replica of the ingress: opens its backend, then answers HTTP. Without stages, it holds the whole path."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        home: str,
        backend: str,
        stages: Mapping[str, DeploymentHandle[Any]] | None = None,
        limits: Mapping[str, CallLimits] | None = None,
    ) -> None:
        self._settings = begin(home, INGRESS["staged" if stages else "fused"])
        if stages:
            self._backend = await _open_staged(self._settings, stages, limits or {})
        else:
            module, _, function = backend.partition(":")
            self._backend = await getattr(import_module(module), function)(self._settings)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return make_app(self._backend, self._settings)

    async def __del__(self) -> None:
        if hasattr(self, "_backend"):
            await self._backend.close()
        await asyncio.to_thread(flush_traces)


async def _open_staged(
    settings: Settings, handles: Mapping[str, DeploymentHandle[Any]], limits: Mapping[str, CallLimits]
) -> Backend:
    from serve_apps.backend import open_staged_backend
    from serve_apps.handles import StageClient

    metrics = StageMetrics()
    stages = {
        name: StageClient(name, handle, limits.get(name, CallLimits()), metrics)
        for name, handle in handles.items()
    }
    return await open_staged_backend(settings, stages, metrics)


def build(args: BuildArgs | Mapping[str, Any]) -> Application:
    """Make the app for `serve.run`, or from the arguments in a Serve config, which Serve hands over as they stand."""
    args = BuildArgs.model_validate(args)
    settings = settings_of(args.home)
    placement = args.placement or settings.placement
    blocks = read_blocks(settings, placement, small=args.small)
    ingress, *stages = deployments_of(placement)
    return _deployment(Query, blocks[ingress]).bind(
        args.home,
        args.backend,
        {name: _deployment(StageReplica, blocks[name]).bind(args.home, name) for name in stages},
        {name: blocks[name].limits for name in stages},
    )


def _deployment(holds: type, block: Block) -> serve.Deployment:
    return serve.deployment(holds, name=block.name, logging_config=LOGGING, **block.options)
