"""How the vector index is reached: one set of options for whoever reads or writes it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from cortex.settings import Settings

ALIAS = "chunks"
# The client would open a connection per request to a local server.
_CONNECTIONS = httpx.Limits(max_connections=64, max_keepalive_connections=16)


def open_client(settings: Settings, timeout_s: int) -> QdrantClient:
    """Make a client of `CORTEX_QDRANT_URL`; the first call opens the connection."""
    with _loopback_is_safe(settings.qdrant_url):
        return QdrantClient(**_options(settings, timeout_s))


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


class AsyncWire:
    """Qdrant's REST API with requests as models and answers as JSON; opens its connections in the loop that first uses it."""

    def __init__(self, url: str, key: str, timeout_s: int) -> None:
        headers = {"content-type": "application/json"} | ({"api-key": key} if key else {})
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout_s, limits=_CONNECTIONS)

    async def get(self, path: str) -> Any:
        """Get a result; raises what `translated` knows."""
        return _result(await self._http.get(path))

    async def post(self, path: str, request: BaseModel) -> Any:
        """Post a request and return its result; raises what `translated` knows."""
        body = request.model_dump_json(exclude_unset=True, exclude_none=True)
        return _result(await self._http.post(path, content=body))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _result(response: httpx.Response) -> Any:
    """Read the result out of an answer; raises UnexpectedResponse for a refusal, ApiException for what is no answer."""
    if not response.is_success:
        raise UnexpectedResponse.for_response(response)
    try:
        return json.loads(response.content)["result"]
    except (ValueError, KeyError, TypeError) as error:
        raise ResponseHandlingException(error) from error
