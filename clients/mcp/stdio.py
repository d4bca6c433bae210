"""MCP on stdin and stdout: passes a client's tool calls on to the running Cortex, and brings back what it says.

The tools are Cortex's own (its route /mcp); nothing is decided here, and nothing is kept but the connection.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import click
import httpx
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types.version import LATEST_HANDSHAKE_VERSION

import cortex
from clients.cli.calls import TIMEOUT, api_url, bearer, raise_problem, reaching
from clients.patience import patiently_async
from cortex.api import Problem
from cortex.errors import CortexError, Unavailable
from cortex.settings import Settings

_CLIENT = {"name": "cortex mcp", "version": cortex.__version__}
_HELLO = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": _CLIENT}


def serve(settings: Settings, user_id: str) -> None:
    """Serve until stdin ends; raises what Cortex says when it cannot be reached or refuses the person."""
    if sys.stdin.isatty():
        click.secho("speaking MCP here: meant for an MCP client, see cortex mcp --help", dim=True, err=True)
    asyncio.run(_serve(settings, user_id))


async def _serve(settings: Settings, user_id: str) -> None:
    async with Upstream(settings, user_id) as upstream:
        try:
            hello = types.InitializeResult.model_validate(await upstream.call("initialize", _HELLO))
        except (MCPError, ValueError) as error:
            raise Unavailable("Cortex refused to speak MCP", code="mcp.missing") from error
        server = make_server(upstream, hello)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread waits for stdin and would hold the process
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


class Upstream:
    """The running Cortex, asked as one person over one kept connection."""

    def __init__(self, settings: Settings, user_id: str) -> None:
        self._settings = settings
        self._user_id = user_id
        self._url = api_url(settings)
        self._client = httpx.AsyncClient(
            base_url=self._url,
            headers={"mcp-protocol-version": LATEST_HANDSHAKE_VERSION},
            timeout=TIMEOUT,
            trust_env=False,  # a proxy for the internet is no way to this machine
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send one request and return its result; raises MCPError for a JSON-RPC error, CortexError for the rest."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"authorization": f"Bearer {bearer(self._settings, self._user_id)}"}
        with reaching(self._url):
            # Every tool of Cortex only reads, so a call that a lost replica had may be made again.
            response = await patiently_async(lambda: self._client.post("/mcp", json=body, headers=headers))
            raise_problem(response)
            reply = response.json()
        match reply:
            case {"result": dict(result)}:
                return result
            case {"error": {"code": int(code), "message": str(message), **more}}:
                raise MCPError(code, message, more.get("data"))
        raise Unavailable(f"what answers at {self._url} does not speak MCP", code="mcp.missing")


def make_server(upstream: Upstream, hello: types.InitializeResult) -> Server[Any]:
    """Make a server that is known as Cortex is and whose tools are Cortex's."""

    async def list_tools(_: ServerRequestContext[Any, Any], __: object) -> types.ListToolsResult:
        try:
            return types.ListToolsResult.model_validate(await upstream.call("tools/list", {}))
        except CortexError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message, _problem(error).model_dump()) from error

    async def call_tool(
        _: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        asked = {"name": params.name, "arguments": params.arguments or {}}
        try:
            return types.CallToolResult.model_validate(await upstream.call("tools/call", asked))
        except CortexError as error:
            said = types.TextContent(text=_problem(error).model_dump_json())
            return types.CallToolResult(content=[said], is_error=True)

    return Server(
        hello.server_info.name,
        version=hello.server_info.version,
        title=hello.server_info.title,
        instructions=hello.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _problem(error: CortexError) -> Problem:
    """State an error of the way to Cortex in the shape that Cortex's own have."""
    return Problem(
        type=f"/docs#{error.error_code}",
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        detail=error.message,
        code=error.error_code,
        remedy=error.remedy.value,
        hint=error.hint,
    )
