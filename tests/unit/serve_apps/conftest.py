"""The app over twins, called without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from cortex.principals import Principal
from cortex.settings import Settings
from cortex.tokens import local_private_key, sign
from serve_apps.http import make_app
from serve_apps.service import Backend
from tests.twins.service import ADA, TwinDesk, TwinService

BASE = "http://127.0.0.1:8642"
MakeClient = Callable[..., httpx.AsyncClient]


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, max_query_chars=500, max_body_bytes=10_000, request_timeout_s=0.3)


@pytest.fixture
def service() -> TwinService:
    return TwinService()


@pytest.fixture
async def make_client(service: TwinService) -> AsyncIterator[MakeClient]:
    """Make clients of an app over the twin; `user` signs a token, none sends nothing."""
    clients: list[httpx.AsyncClient] = []

    def make(
        settings: Settings, user: str = "", scopes: str = "search", peer: str = "127.0.0.1"
    ) -> httpx.AsyncClient:
        app = make_app(Backend(service, TwinDesk()), settings)
        transport = httpx.ASGITransport(app, raise_app_exceptions=True, client=(peer, 5000))
        headers = {"authorization": f"Bearer {token(settings, user, scopes)}"} if user else {}
        clients.append(httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()


@pytest.fixture
def ada(make_client: MakeClient, home: Settings) -> httpx.AsyncClient:
    return make_client(home, ADA)


def token(
    settings: Settings, user: str, scopes: str = "search", ttl_s: int = 60, tenant_id: str = "default"
) -> str:
    principal = Principal(tenant_id, user, frozenset(scopes.split()))
    return sign(principal, local_private_key(settings), ttl_s)
