"""Patience: when a call to Cortex that failed is made again, and after which pause; one rule for all that ask over HTTP.

What clients ask may be asked twice: searches, answers and documents are read, a thumb given again is the same thumb. A
replica that dies takes along what it held, so that its callers meet a connection that broke, or a bare error of the
server in front of it. An answer whose stream has begun is past all this: whoever has read its beginning is told that it
broke off, and asks again if they want to.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import httpx

ATTEMPTS = 4
_LONGEST_S = 30.0  # no call begins later than this after the first
_FIRST_PAUSE_S = 0.25  # doubled each time; a new replica takes seconds, and its proxy lets calls wait for it
_JITTER = 0.25  # who was refused together does not come back together
_PROBLEM = "application/problem+json"
_NOT_NOW = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
_STANDS = "index.missing"  # nothing is loaded yet, and no pause loads it
_NOT_OURS = (HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.BAD_GATEWAY)

Outcome = httpx.Response | httpx.HTTPError


class Patience:
    """What one call has left: so many attempts, within so many seconds."""

    def __init__(self) -> None:
        self._give_up_at_s = time.monotonic() + _LONGEST_S
        self._n_made = 0

    def pause_s(self, outcome: Outcome) -> float | None:
        """Say how long to wait before the call is made again; None where this outcome is the last word."""
        self._n_made += 1
        if self._n_made >= ATTEMPTS or not _passes(outcome):
            return None
        pause_s = _told_s(outcome)
        if pause_s is None:
            pause_s = _FIRST_PAUSE_S * 2 ** (self._n_made - 1)
        pause_s *= 1 + _JITTER * random.random()  # noqa: S311 - spreads calls, no secret
        return pause_s if time.monotonic() + pause_s < self._give_up_at_s else None


def patiently(send: Callable[[], httpx.Response]) -> httpx.Response:
    """Send until there is a last word, and return it, or raise the httpx error that it is; an error's body is read."""
    patience = Patience()
    while True:
        outcome: Outcome
        try:
            outcome = send()
            if outcome.is_error:
                outcome.read()
        except httpx.HTTPError as error:
            outcome = error
        pause_s = patience.pause_s(outcome)
        if pause_s is None:
            return _last(outcome)
        time.sleep(pause_s)


async def patiently_async(send: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """The same, asynchronous."""
    patience = Patience()
    while True:
        outcome: Outcome
        try:
            outcome = await send()
        except httpx.HTTPError as error:
            outcome = error
        pause_s = patience.pause_s(outcome)
        if pause_s is None:
            return _last(outcome)
        await asyncio.sleep(pause_s)


def _passes(outcome: Outcome) -> bool:
    """Say whether an outcome may be another in a moment.

    A connection that nobody accepts may not: nothing runs there. Nor may a silence: it was waited for long enough.
    """
    if isinstance(outcome, httpx.HTTPError):
        is_broken = isinstance(outcome, httpx.NetworkError | httpx.RemoteProtocolError)
        return is_broken and not isinstance(outcome, httpx.ConnectError)
    is_problem = outcome.headers.get("content-type", "").startswith(_PROBLEM)
    if outcome.status_code in _NOT_NOW:
        return not (is_problem and _code(outcome) == _STANDS)
    return outcome.status_code in _NOT_OURS and not is_problem


def _code(problem: httpx.Response) -> str:
    """Read the code of a problem document whose body was read."""
    try:
        document = problem.json()
    except ValueError:
        return ""
    return str(document.get("code")) if isinstance(document, dict) else ""


def _told_s(outcome: Outcome) -> float | None:
    """Read the pause that a response asks for, in seconds; what is no number of seconds asks for none."""
    if isinstance(outcome, httpx.HTTPError):
        return None
    told = outcome.headers.get("retry-after", "")
    return float(told) if told.isascii() and told.isdecimal() else None


def _last(outcome: Outcome) -> httpx.Response:
    if isinstance(outcome, httpx.HTTPError):
        raise outcome
    return outcome
