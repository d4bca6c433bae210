"""A small client of Slack's Web API: pages by cursor, one token bucket per workspace and method, Retry-After obeyed.

See https://docs.slack.dev/apis/web-api/rate-limits. The token goes to the one host given, and is never logged.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from connectors.slack_model import arr, obj, word
from cortex.errors import Busy, Corrupt, CortexError, Misconfigured, NotFound, Unavailable

PAGE_SIZE = 200  # what Slack recommends
_PER_MINUTE = {
    "conversations.list": 20,
    "users.list": 20,
    "usergroups.list": 20,
    "conversations.members": 100,
    "files.info": 100,
}
_PER_MINUTE_OTHERS = 50  # tier 3: history and replies
_TIMEOUT_S = 30.0
_ATTEMPTS = 6
_LONGEST_WAIT_S = 600.0
_REFUSED = frozenset(
    {
        *(
            "not_authed",
            "invalid_auth",
            "account_inactive",
            "token_revoked",
            "token_expired",
            "no_permission",
        ),
        *("missing_scope", "not_allowed_token_type", "org_login_required", "ekm_access_denied"),
    }
)
_NOT_OURS = frozenset(
    {
        "not_in_channel",
        "channel_not_found",
        "thread_not_found",
        "is_archived",
        "method_not_supported_for_channel_type",
    }
)
_PASSING = frozenset(
    {
        *("internal_error", "fatal_error", "service_unavailable", "request_timeout"),
        *("accesslimited", "team_added_to_org"),
    }
)


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as the client sees it, so that tests need not wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Bucket:
    """Tokens of one method of one workspace; all clients of this process share it."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._interval_s = 60.0 / per_minute
        self._burst_s = self._interval_s * max(1, per_minute // 10)
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at = clock.now() - self._burst_s

    def take(self) -> None:
        """Wait until a call may be made."""
        with self._lock:
            now = self._clock.now()
            self._free_at = max(self._free_at, now - self._burst_s) + self._interval_s
            wait_s = self._free_at - now
        if wait_s > 0:
            self._clock.sleep(wait_s)

    def rest(self, seconds: float) -> None:
        """Let nobody call before a pause is over, because Slack asked for it."""
        with self._lock:
            self._free_at = max(self._free_at, self._clock.now() + seconds - self._interval_s)


class SlackApi:
    """Calls of one workspace."""

    _buckets: dict[tuple[str, str], Bucket] = {}  # noqa: RUF012 - shared on purpose
    _buckets_lock = threading.Lock()

    def __init__(self, url: str, token: str, clock: Clock | None = None) -> None:
        parts = urlsplit(url)
        is_local = parts.hostname in ("127.0.0.1", "::1", "localhost")
        if (parts.scheme != "https" and not (is_local and parts.scheme == "http")) or not parts.hostname:
            raise Misconfigured("a Slack URL must be https", code="slack.url", hint="https://slack.com/api/")
        if not token:
            raise Misconfigured(
                "there is no Slack token",
                code="slack.token_missing",
                hint="set CORTEX_SLACK_TOKEN, in settings.env",
            )
        self._url = url.rstrip("/") + "/"
        self._token = token
        self._clock = clock or Clock()
        self._workspace = f"{self._url}|{hashlib.sha256(token.encode()).hexdigest()}"
        # Plain HTTP, loopback alone, has no certificate to verify; reading all the roots would cost half a second.
        self._client = httpx.Client(
            timeout=_TIMEOUT_S, follow_redirects=False, verify=parts.scheme == "https"
        )

    def pages(self, method: str, key: str, **parameters: str) -> Iterator[Any]:
        """Yield the entries under `key` of all pages, in the order Slack gives them."""
        cursor = ""
        seen = set()
        while True:
            extra = {"cursor": cursor} if cursor else {}
            answer = self.call(method, limit=str(PAGE_SIZE), **parameters, **extra)
            yield from arr(answer.get(key))
            cursor = word(obj(answer.get("response_metadata")).get("next_cursor"))
            if not cursor:
                return
            if cursor in seen:
                raise Corrupt(f"Slack's {method} gives the same page again and again", code="slack.loop")
            seen.add(cursor)

    def call(self, method: str, **parameters: str) -> dict[str, Any]:
        """Call a method and return its answer.

        Raises NotFound for a channel that the token cannot read, Misconfigured for a token that Slack refuses, Busy
        or Unavailable when Slack stays busy or down, and Corrupt for any other error: asking again would not help, and
        what it is said of may still exist.
        """
        bucket = self._bucket(method)
        problem: CortexError = Unavailable(f"Slack's {method} did not answer", code="slack.unavailable")
        for attempt in range(_ATTEMPTS):
            bucket.take()
            try:
                return self._once(method, parameters)
            except Busy as error:
                problem = error
                bucket.rest(float(error.fields["retry_after_s"]))
            except Unavailable as error:
                problem = error
                self._clock.sleep(2.0**attempt)
        raise problem

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _once(self, method: str, parameters: dict[str, str]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._token}"}
        try:
            response = self._client.post(self._url + method, data=parameters, headers=headers)
            answer = obj(response.json()) if response.status_code == httpx.codes.OK else {}
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable(
                f"Slack's {method} failed: {type(error).__name__}", code="slack.unavailable"
            ) from error
        if response.status_code == httpx.codes.TOO_MANY_REQUESTS or answer.get("error") == "ratelimited":
            raise _busy(method, response.headers.get("Retry-After", ""))
        if response.status_code != httpx.codes.OK:
            raise Unavailable(f"Slack's {method} answered {response.status_code}", code="slack.unavailable")
        if answer.get("ok") is not True:
            raise _refusal(method, word(answer.get("error")) or "an unknown error")
        return answer

    def _bucket(self, method: str) -> Bucket:
        with self._buckets_lock:
            key = (self._workspace, method)
            if key not in self._buckets:
                self._buckets[key] = Bucket(_PER_MINUTE.get(method, _PER_MINUTE_OTHERS), self._clock)
            return self._buckets[key]


def _busy(method: str, retry_after: str) -> Busy:
    wait_s = float(retry_after) if retry_after.isdecimal() else 30.0
    return Busy(
        f"Slack's {method} asks for a pause",
        code="slack.busy",
        retry_after_s=min(max(wait_s, 1.0), _LONGEST_WAIT_S),
    )


def _refusal(method: str, error: str) -> CortexError:
    if error in _NOT_OURS:
        return NotFound(f"Slack's {method} says {error}", code="slack.not_readable", says=error)
    if error in _REFUSED:
        hint = "check CORTEX_SLACK_TOKEN and the app's scopes: docs/reference/connectors.md"
        return Misconfigured(f"Slack's {method} says {error}", code="slack.refused", hint=hint)
    if error in _PASSING:
        return Unavailable(f"Slack's {method} says {error}", code="slack.unavailable")
    return Corrupt(f"Slack's {method} says {error}", code="slack.unexpected", says=error)
