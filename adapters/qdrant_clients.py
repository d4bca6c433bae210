"""How the vector index is reached: one set of options for whoever reads or writes it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
from qdrant_client import AsyncQdrantClient, QdrantClient

from cortex.settings import Settings

ALIAS = "chunks"
# The client would open a connection per request to a local server.
_CONNECTIONS = httpx.Limits(max_connections=64, max_keepalive_connections=16)


def open_client(settings: Settings, timeout_s: int) -> QdrantClient:
    """Make a client of `CORTEX_QDRANT_URL`; the first call opens the connection."""
    with _loopback_is_safe(settings.qdrant_url):
        return QdrantClient(**_options(settings, timeout_s))


def open_async_client(settings: Settings, timeout_s: int) -> AsyncQdrantClient:
    """The same, asynchronous."""
    with _loopback_is_safe(settings.qdrant_url):
        return AsyncQdrantClient(**_options(settings, timeout_s))


def _options(settings: Settings, timeout_s: int) -> dict[str, Any]:
    return {
        "url": settings.qdrant_url,
        "api_key": settings.qdrant_api_key.get_secret_value() or None,
        "timeout": timeout_s,
        "check_compatibility": False,
        "limits": _CONNECTIONS,
    }


@contextmanager
def _loopback_is_safe(url: str) -> Iterator[None]:
    """Silence the client's warning about a key without TLS where nothing leaves the machine; elsewhere it stands."""
    with warnings.catch_warnings():
        if urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost"):
            warnings.filterwarnings("ignore", "Api key is used with an insecure connection", UserWarning)
        yield
