"""Sources, for operators: what is loaded, how the last run went, and adding a folder."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from cortex import api
from cortex.principals import Principal
from serve_apps.identity import Identity
from serve_apps.service import SourceDesk


def source_routes(desk: SourceDesk, identity: Identity) -> APIRouter:
    """Make the routes of the sources' desk; all need the scope `operate`."""
    router = APIRouter(prefix="/v1/sources", tags=["sources"])
    operator = Depends(identity.admitted("operate"))

    @router.get("", summary="List sources")
    async def sources(principal: Principal = operator) -> api.SourcesResponse:
        """Every source with its document count and its last run: counts, and what failed with the reason."""
        return api.SourcesResponse(sources=await desk.sources(principal.tenant_id))

    @router.post("", status_code=202, summary="Add a folder")
    async def add(body: api.SourceRequest, principal: Principal = operator) -> api.SourceModel:
        """Register a folder of the server's machine and start loading it; watch it with GET /v1/sources."""
        return await desk.add_folder(principal, body.path, body.collection)

    return router
