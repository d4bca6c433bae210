"""The backend of an ingress on one machine: the query path over real engines, and the sources' desk."""

from __future__ import annotations

from contextlib import AsyncExitStack

from adapters.catalog.pushes import CatalogPushes
from cortex.settings import Settings
from serve_apps.folders import FolderDesk
from serve_apps.fused import FusedQueries
from serve_apps.parts import open_parts
from serve_apps.pushes import CatalogPushDesk, reading_process
from serve_apps.service import Backend


async def open_backend(settings: Settings) -> Backend:
    """Open everything behind HTTP in the running event loop; its `close` gives it back."""
    stack = AsyncExitStack()
    parts = await stack.enter_async_context(open_parts(settings))
    pushes = CatalogPushDesk(CatalogPushes(settings.postgres_url), reading_process(settings))
    await pushes.open()
    stack.push_async_callback(pushes.close)
    desk = FolderDesk(settings, parts.catalog)
    return Backend(FusedQueries(parts), desk, stack.aclose, pushes)
