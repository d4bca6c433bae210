"""MCP: where agents and assistants reach the same search as people, one message per request, as the person they act for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from opentelemetry.context import get_current

from cortex.errors import InputError
from cortex.principals import Principal
from cortex.settings import Settings
from serve_apps.identity import Identity
from serve_apps.metrics import Metrics
from serve_apps.routes.queries import AnswerDesk
from serve_apps.service import QueryService
from serve_apps.tools.toolbox import Toolbox

PATH = "/mcp"
_JSON = "application/json"
_BODY: dict[str, Any] = {"required": True, "content": {_JSON: {"schema": {"type": "object"}}}}
_ANSWER: dict[str, Any] = {
    "description": "A JSON-RPC response",
    "content": {_JSON: {"schema": {"type": "object"}}},
}
_TAKEN: dict[str, Any] = {"description": "A notification, taken"}


def mcp_routes(queries: QueryService, identity: Identity, settings: Settings, metrics: Metrics) -> APIRouter:
    """Make the route of the Model Context Protocol."""
    router = APIRouter(tags=["agents"])
    caller = Depends(identity.admitted("search"))
    toolbox = Toolbox(AnswerDesk(queries, settings, metrics), settings.fetch_page_chars)
    protocol = _Protocol(toolbox, metrics, settings.max_body_bytes)

    @router.post(
        PATH,
        summary="Speak MCP",
        response_class=Response,
        responses={200: _ANSWER, 202: _TAKEN},
        openapi_extra={"requestBody": _BODY},
    )
    async def exchange(request: Request, principal: Principal = caller) -> Response:
        """One JSON-RPC message of the Model Context Protocol (streamable HTTP, without sessions).

        It offers the tools `search`, `fetch` and `ask` over what the caller may see.
        """
        if "origin" in request.headers:
            identity.require_own_page(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise InputError(f"the body must be {_JSON}", code="body.malformed")
        request.state.principal, request.state.context = principal, get_current()
        return await protocol.exchange(await request.body())

    return router


class _Protocol:
    """The MCP server, loaded with its SDK when the first message comes: who never uses it pays nothing for it."""

    def __init__(self, toolbox: Toolbox, metrics: Metrics, max_body_bytes: int) -> None:
        self._toolbox = toolbox
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes
        self._make: Callable[[bytes], Response] | None = None

    async def exchange(self, body: bytes) -> Response:
        """Make the response that answers one message."""
        if self._make is None:
            self._make = await asyncio.to_thread(self._load)
        return self._make(body)

    def _load(self) -> Callable[[bytes], Response]:
        from serve_apps.tools.protocol import Exchange, make_server

        server = make_server(self._toolbox, self._metrics)
        return lambda body: Exchange(server, body, self._max_body_bytes)
