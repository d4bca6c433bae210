"""Both placements as ready-made apps: `serve build serve_apps.apps:staged`, which takes an app and no builder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from serve_apps.query import BuildArgs, build

if TYPE_CHECKING:
    from ray.serve import Application

    fused: Application
    staged: Application


def __getattr__(name: str) -> Application:
    """Build an app when it is asked for: its options come from the settings of that moment."""
    if name == "fused":
        return build(BuildArgs(placement="fused"))
    if name == "staged":
        return build(BuildArgs(placement="staged"))
    raise AttributeError(name)
