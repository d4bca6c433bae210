"""Asking a home over HTTP without a socket: its real engines behind the app that serves them."""

from __future__ import annotations

import asyncio
import time

import httpx

from cortex.principals import Principal
from cortex.settings import Settings
from cortex.tokens import local_private_key, sign
from serve_apps.backend import open_backend
from serve_apps.http import make_app


def token(settings: Settings, user_id: str, age_s: float = 0.0) -> str:
    """Sign a token of that age for a person."""
    principal = Principal(settings.tenant_id, user_id)
    return sign(principal, local_private_key(settings), 3_600, now_s=time.time() - age_s)


def search(settings: Settings, text: str, *tokens: str) -> list[tuple[int, object]]:
    """Search with each token: the status, and the titles found or the error's code."""
    return asyncio.run(_search(settings, text, tokens))


async def _search(settings: Settings, text: str, tokens: tuple[str, ...]) -> list[tuple[int, object]]:
    backend = await open_backend(settings)
    transport = httpx.ASGITransport(make_app(backend, settings))
    said: list[tuple[int, object]] = []
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8642") as client:
            for each in tokens:
                headers = {"authorization": f"Bearer {each}"}
                response = await client.post("/v1/search", json={"query": text}, headers=headers)
                body = response.json()
                found = sorted(hit["title"] for hit in body["hits"]) if response.is_success else body["code"]
                said.append((response.status_code, found))
    finally:
        await backend.close()
    return said
