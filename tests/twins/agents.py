"""An agent: the MCP SDK's own client over an app, without a socket."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

BASE = "http://127.0.0.1:8642"


@asynccontextmanager
async def agent(app: FastAPI, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    """Connect as the person of a token; `mode` is how the SDK finds the protocol's version."""
    transport = httpx2.ASGITransport(app)
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(transport=transport, base_url=BASE, headers=headers) as http,
        Client(streamable_http_client(f"{BASE}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def said(result: CallToolResult) -> Any:
    """Read a tool's result from its text, which is the only content it has."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return json.loads(content.text)
