"""A plain HTTP client for timing: one kept connection, blocking, so that it takes next to nothing of what it measures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from cortex.errors import Unavailable

_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, and the milliseconds from the call to its last byte."""

    body: bytes
    took_ms: float

    def document(self) -> Any:
        """Read it as JSON."""
        return json.loads(self.body)


class Client:
    """One connection to a server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def get(self, path: str) -> Reply:
        """Get a path; raises Unavailable unless it is answered with 200."""
        return self._whole("GET", path, None, {})

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Post JSON; raises Unavailable unless it is answered with 200."""
        return self._whole("POST", path, body, headers)

    def lines(self, path: str, body: bytes, headers: Mapping[str, str]) -> Iterator[tuple[float, bytes]]:
        """Post JSON and yield the answer's lines, each with the milliseconds from the call to its arrival."""
        started = time.perf_counter()
        response = self._begin("POST", path, body, headers)
        while line := response.readline():
            yield (time.perf_counter() - started) * 1000, line

    def _whole(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        started = time.perf_counter()
        read = self._begin(method, path, body, headers).read()
        return Reply(read, (time.perf_counter() - started) * 1000)

    def _begin(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> HTTPResponse:
        sent = {"content-type": "application/json", **headers} if body is not None else dict(headers)
        try:
            self._connection.request(method, path, body=body, headers=sent)
            response = self._connection.getresponse()
        except (OSError, HTTPException) as error:
            raise Unavailable(f"{path} broke off: {error!r}", code="scratch.failed") from error
        if response.status != 200:
            said = response.read()[:300].decode(errors="replace")
            raise Unavailable(f"{path} was answered with {response.status}: {said}", code="scratch.failed")
        return response
