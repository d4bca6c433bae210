"""MCP over HTTP (streamable HTTP of the Model Context Protocol): one JSON-RPC message per POST, answered as JSON.

Nothing is kept between two messages, so any replica answers any of them. The SDK's session manager lives as long as one
request: it needs no lifespan of the app, which not every server runs, and what it starts ends with the request.
This module imports the SDK, which takes a while; the route loads it when the first message comes.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pydantic_core
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

import cortex
from cortex.errors import CortexError, InputError, NotFound
from cortex.principals import Principal
from cortex.telemetry import attached, span
from serve_apps.account import account
from serve_apps.guard import log_unexpected
from serve_apps.metrics import Metrics
from serve_apps.problems import Unexpected, problem
from serve_apps.stream import while_connected
from serve_apps.tools.toolbox import INSTRUCTIONS, Tool, Toolbox


def make_server(toolbox: Toolbox, metrics: Metrics) -> Server[Any]:
    """Offer the tools; a request's state names the person who calls them."""
    offered = types.ListToolsResult(tools=[_offer(tool) for tool in toolbox.tools])

    async def list_tools(_: ServerRequestContext[Any, Any], __: object) -> types.ListToolsResult:
        return offered

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        assert context.request is not None, "only HTTP calls tools"
        tool = _find(toolbox, params.name)
        called = _Call(toolbox, tool, context.request.state.principal)
        # The SDK would follow a trace that the message names; one request has one trace, that of its HTTP headers.
        with (
            attached(context.request.state.context),
            span(
                f"execute_tool {tool.name}",
                {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool.name},
            ),
        ):
            result = await called.run(params.arguments or {})
        metrics.tool(tool.name, called.code)
        return result

    return Server(
        "cortex",
        version=cortex.__version__,
        title="Cortex",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


class Exchange(Response):
    """One message and its answer; when the client disconnects, the work behind it is dropped."""

    def __init__(self, server: Server[Any], body: bytes, max_body_bytes: int) -> None:
        super().__init__()
        self._server = server
        self._body = body
        self._max_body_bytes = max_body_bytes
        self._is_sent = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(self._body)
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await while_connected(self._answer(scope, send), receive, lambda: self._is_sent)

    async def _answer(self, scope: Scope, send: Send) -> None:
        async def watched(message: Message) -> None:
            await send(message)
            self._is_sent = message["type"] == "http.response.body" and not message.get("more_body", False)

        manager = StreamableHTTPSessionManager(
            self._server, json_response=True, stateless=True, max_request_body_size=self._max_body_bytes
        )
        async with manager.run():
            await manager.handle_request(scope, _Replay(self._body), watched)


class _Replay:
    """A body that was read already, for who wants to receive it again; whether the client is there others watch."""

    def __init__(self, body: bytes) -> None:
        self._messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def __call__(self) -> Message:
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop()


class _Call:
    """One call of a tool by a person. A failure is a result that the model reads, with the same problem as over /v1."""

    def __init__(self, toolbox: Toolbox, tool: Tool, principal: Principal) -> None:
        self._toolbox = toolbox
        self._tool = tool
        self._principal = principal
        self.code = "ok"

    async def run(self, arguments: dict[str, Any]) -> types.CallToolResult:
        """Run it to its result."""
        account().tool = self._tool.name
        try:
            result = await self._toolbox.call(self._principal, self._tool, arguments)
        except CortexError as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - outermost: the SDK would send its message to the caller
            log_unexpected(error)
            return self._failed(Unexpected("unexpected"))
        text = result.model_dump_json()
        return types.CallToolResult(
            content=[types.TextContent(text=text)], structured_content=json.loads(text)
        )

    def _failed(self, error: CortexError) -> types.CallToolResult:
        self.code = error.error_code
        account().fail(error)
        text = problem(error).model_dump_json()
        # No structured content: some hosts hold that against the schema of a success.
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def _offer(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.about,
        input_schema=_lean(tool.arguments.model_json_schema()),
        output_schema=_lean(tool.result.model_json_schema(mode="serialization")),
        annotations=types.ToolAnnotations(
            title=tool.title, read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )


def _lean(schema: Any) -> Any:
    """Leave out of a schema what only repeats names, and patterns, which not every host reads; models read it each time."""
    if isinstance(schema, list):
        return [_lean(each) for each in schema]
    if isinstance(schema, dict):
        noise = {name for name in ("title", "pattern") if isinstance(schema.get(name), str)}
        return {name: _lean(value) for name, value in schema.items() if name not in noise}
    return schema


def _find(toolbox: Toolbox, name: str) -> Tool:
    try:
        return toolbox.find(name)
    except NotFound as error:
        account().fail(error)
        raise MCPError(types.INVALID_PARAMS, error.message, problem(error).model_dump(mode="json")) from error


def _refusal(body: bytes) -> Response | None:
    """Refuse what is no JSON-RPC message here, because the SDK would repeat in its answer what was sent."""
    try:
        decoded = pydantic_core.from_json(body)
    except ValueError:
        return _refuse(types.PARSE_ERROR, "the body is not valid JSON")
    try:
        message = types.jsonrpc_message_adapter.validate_python(decoded, by_name=False)
    except ValidationError:
        return _refuse(types.INVALID_REQUEST, "the body is not one JSON-RPC 2.0 message")
    if isinstance(message, types.JSONRPCNotification) and "id" in decoded:
        return _refuse(types.INVALID_REQUEST, "the id of a request is a whole number or a text")
    return None


def _refuse(code: int, said: str) -> Response:
    error = InputError(said, code="body.malformed")
    account().fail(error)
    answer = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": code, "message": said, "data": problem(error).model_dump(mode="json")},
    }
    return Response(json.dumps(answer), status_code=error.status, media_type="application/json")
