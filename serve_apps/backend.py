"""The backend of an ingress: the query path over real engines, or over the stages that hold them, and the sources' desk."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from adapters.catalog.pushes import CatalogPushes
from cortex.settings import Settings
from retrieval.path import Parts
from serve_apps.folders import FolderDesk
from serve_apps.fused import FusedQueries
from serve_apps.handles import StageClient
from serve_apps.metrics import StageMetrics
from serve_apps.parts import open_parts
from serve_apps.pushes import CatalogPushDesk, reading_process
from serve_apps.service import Backend
from serve_apps.staged import open_staged_parts


async def open_backend(settings: Settings) -> Backend:
    """Open everything behind HTTP in the running event loop; its `close` gives it back."""
    return await _open(settings, open_parts(settings))


async def open_staged_backend(
    settings: Settings, stages: Mapping[str, StageClient], metrics: StageMetrics
) -> Backend:
    """Open everything behind HTTP over stages; its `close` gives it back."""
    return await _open(settings, open_staged_parts(settings, stages), metrics)


async def _open(
    settings: Settings, opening: AbstractAsyncContextManager[Parts], stages: StageMetrics | None = None
) -> Backend:
    stack = AsyncExitStack()
    parts = await stack.enter_async_context(opening)
    pushes = CatalogPushDesk(CatalogPushes(settings.postgres_url), reading_process(settings))
    await pushes.open()
    stack.push_async_callback(pushes.close)
    desk = FolderDesk(settings, parts.catalog)
    return Backend(FusedQueries(parts), desk, stack.aclose, pushes, stages)
