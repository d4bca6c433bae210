"""How the vector index is reached: one set of options for whoever reads or writes it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import orjson
from qdrant_client import QdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from cortex.settings import Settings

ALIAS = "chunks"
_MOST_CONNECTIONS = 64
# The client would open a connection per request to a local server.
_CONNECTIONS = httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=16)


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
        if _is_loopback(url):
            warnings.filterwarnings("ignore", "Api key is used with an insecure connection", UserWarning)
        yield


class AsyncWire:
    """Qdrant's REST API as JSON, for reading; opens its connections in the loop that first uses it.

    aiohttp takes a third of the processor that the client's own httpx takes, a tenth of a search.
    """

    def __init__(self, url: str, key: str, timeout_s: int) -> None:
        self._url = url.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        # Nothing here is large enough for packing to take less time than sending.
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        self._headers |= {"api-key": key} if key else {}
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str) -> Any:
        """Get a result; raises what `translated` knows."""
        return await self._ask("GET", path, None)

    async def post(self, path: str, request: Mapping[str, Any]) -> Any:
        """Post a request that reads, vectors as arrays, and return its result; raises what `translated` knows."""
        return await self._ask("POST", path, orjson.dumps(request, option=orjson.OPT_SERIALIZE_NUMPY))

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        try:
            return await self._once(method, path, body)
        except aiohttp.ServerDisconnectedError:
            return await self._once(method, path, body)  # the server had ended a connection that stood open

    async def _once(self, method: str, path: str, body: bytes | None) -> Any:
        async with self._open().request(method, self._url + path, data=body) as response:
            return _result(response.status, response.reason or "", await response.read())

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_MOST_CONNECTIONS),
                timeout=self._timeout,
                headers=self._headers,
                trust_env=not _is_loopback(self._url),
            )
        return self._session


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def _result(status: int, reason: str, content: bytes) -> Any:
    """Read the result out of an answer; raises UnexpectedResponse for a refusal, ApiException for what is no answer."""
    if not 200 <= status < 300:
        raise UnexpectedResponse(status, reason, content, httpx.Headers())
    try:
        return orjson.loads(content)["result"]
    except (ValueError, KeyError, TypeError) as error:
        raise ResponseHandlingException(error) from error
