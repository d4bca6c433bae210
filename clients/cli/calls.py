"""Calls to the HTTP API: signed, with problem documents turned back into the errors they came from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from clients.patience import patiently
from cortex.errors import (
    Busy,
    Conflict,
    CortexError,
    Forbidden,
    InputError,
    NotFound,
    TimedOut,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from cortex.principals import Principal
from cortex.settings import Settings
from cortex.tokens import local_private_key, sign

_SILENCE_TIMEOUT_S = 120.0  # a model on a small machine may think this long between two words
TIMEOUT = httpx.Timeout(_SILENCE_TIMEOUT_S, connect=5.0)
_TOKEN_TTL_S = 300
_BY_STATUS: dict[int, type[CortexError]] = {
    kind.status: kind
    for kind in (
        InputError,
        TooLarge,
        Unauthenticated,
        Forbidden,
        NotFound,
        Conflict,
        Busy,
        Unavailable,
        TimedOut,
    )
}


class Caller:
    """One connection to the API as one person."""

    def __init__(self, settings: Settings, user_id: str) -> None:
        self._url = api_url(settings)
        self._client = httpx.Client(
            base_url=self._url,
            headers={"authorization": f"Bearer {bearer(settings, user_id)}"},
            timeout=TIMEOUT,
            trust_env=False,  # a proxy for the internet is no way to this machine
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Post and return the JSON document; raises the error that a problem document states."""
        with reaching(self._url):
            response = patiently(lambda: self._client.post(path, json=body))
            raise_problem(response)
            found: dict[str, Any] = response.json()
            return found

    def stream(self, path: str, body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Post and yield server-sent events as name and data; raises an `error` event's problem.

        What was begun is not begun again: a stream that breaks off is an error.
        """
        request = self._client.build_request("POST", path, json={**body, "stream": True})
        with (
            reaching(self._url),
            closing(patiently(lambda: self._client.send(request, stream=True))) as response,
        ):
            raise_problem(response)
            name = ""
            for line in response.iter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    data = json.loads(value)
                    if name == "error":
                        raise _error(data)
                    yield name, data


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turn what breaks on the way to Cortex into errors that say what to do."""
    try:
        yield
    except httpx.TimeoutException as error:
        raise TimedOut(f"Cortex at {url} did not answer in time", hint="cortex status") from error
    except httpx.ConnectError as error:
        raise Unavailable(
            f"Cortex is not running at {url}", code="server.unreachable", hint="cortex up"
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise Unavailable(
            f"the connection to {url} broke off", code="server.interrupted", hint="cortex status"
        ) from error


def bearer(settings: Settings, user_id: str) -> str:
    """Sign a token that lasts for a few minutes, or take the one in CORTEX_TOKEN."""
    if user_id:
        return sign(Principal(settings.tenant_id, user_id), local_private_key(settings), _TOKEN_TTL_S)
    if token := os.environ.get("CORTEX_TOKEN", "").strip():
        return token
    raise InputError("who asks?", code="person.missing", hint="add --as USER, or export CORTEX_TOKEN")


def api_url(settings: Settings) -> str:
    """Say where the API is reached from this machine."""
    return settings.http_url or f"http://{_reachable(settings.http_host)}:{settings.http_port}"


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not bound


def raise_problem(response: httpx.Response) -> None:
    """Raise the error that a problem document states, if the response is one."""
    if response.is_error:
        try:
            problem = response.json()
        except ValueError:
            problem = {}
        raise _error(problem if isinstance(problem, dict) else {}, response.status_code)


def _error(problem: dict[str, Any], status: int = 500) -> CortexError:
    kind = _BY_STATUS.get(problem.get("status", status), CortexError)
    message = problem.get("detail") or f"the server answered with status {status}"
    if kind is CortexError and problem.get("trace_id"):
        message += f" ({problem['trace_id']})"
    return kind(message, code=problem.get("code", "server.unexpected"), hint=problem.get("hint", ""))
