"""The Serve config of a placement, for `serve deploy` and KubeRay: written from the same blocks that `cortex up` uses.

In such a file a deployment's options stand in Serve's own place and win over the shipped ones. `check` refuses a file
that says nothing of a stage: Serve itself would silently take what the code says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.serve.schema import ServeDeploySchema

from cortex.errors import Misconfigured
from cortex.settings import Settings
from serve_apps.placements import Placement, explained, read_blocks, require_all
from serve_apps.query import APP_NAME, LOGGING, BuildArgs

IMPORT_PATH = "serve_apps.query:build"
_READY: Mapping[str, Placement] = {"serve_apps.apps:fused": "fused", "serve_apps.apps:staged": "staged"}
PORT = 8000


def serve_config(settings: Settings, placement: Placement, *, small: bool = False) -> dict[str, Any]:
    """State a placement as a Serve config."""
    blocks = read_blocks(settings, placement, small=small)
    args: dict[str, Any] = {"placement": placement} | ({"small": True} if small else {})
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": PORT},  # noqa: S104  a pod's own network
        "logging_config": dict(LOGGING),
        "applications": [
            {
                "name": APP_NAME,
                "route_prefix": "/",
                "import_path": IMPORT_PATH,
                "args": args,
                "deployments": [{"name": block.name, **block.options} for block in blocks.values()],
            }
        ],
    }


def check(document: object, where: str) -> Placement:
    """Return the placement that a Serve config deploys; raises Misconfigured unless it is whole and Serve takes it."""
    try:
        ServeDeploySchema.model_validate(document)
        application = _application(document)
        placement = _placement(application)
    except (ValueError, TypeError) as error:
        raise Misconfigured(
            f"{where} is no Serve config of Cortex: {explained(error)}",
            code="serve_config.invalid",
            hint="cortex serve-config",
        ) from error
    require_all(placement, {each["name"]: each for each in application.get("deployments") or ()}, where)
    return placement


def _application(document: object) -> Mapping[str, Any]:
    applications = document.get("applications") if isinstance(document, Mapping) else None
    for application in applications or ():
        if application.get("import_path") in (IMPORT_PATH, *_READY):
            return dict(application)
    raise ValueError(f"none of its applications has the import path {IMPORT_PATH}")


def _placement(application: Mapping[str, Any]) -> Placement:
    """Read which placement an application is: by its import path, as `serve build` writes it, or by its arguments."""
    ready = _READY.get(application["import_path"])
    placement = ready or BuildArgs.model_validate(application.get("args") or {}).placement
    if not placement:
        raise ValueError("it does not say `args: {placement: staged}`")
    return placement
