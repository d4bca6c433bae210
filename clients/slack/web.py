"""Slack's Web API as the bot calls it: one client that obeys Retry-After and never repeats a call that may have arrived."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState
from slack_sdk.web.async_client import AsyncWebClient

from cortex.errors import Corrupt, Misconfigured, Unavailable
from cortex.settings import Settings
from cortex.telemetry import event

# What a call raises when Slack refuses it, is not reached, or says something that is not its API's.
FAILURES = (SlackClientError, aiohttp.ClientError, TimeoutError, ValueError)
PAGE_SIZE = 200  # what Slack recommends
TIMEOUT_S = 30
ATTEMPTS = 3
_LONGEST_PAUSE_S = 60
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Pauses(AsyncRateLimitErrorRetryHandler):  # type: ignore[misc]  # the SDK's types are not read
    """Waits as long as Slack asks, unless that is longer than anybody waits for an answer."""

    async def _can_retry_async(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        if response is None or response.status_code != 429:
            return False
        pauses = [
            value[0] for name, value in response.headers.items() if name.lower() == "retry-after" and value
        ]
        return all(pause.isdecimal() and int(pause) <= _LONGEST_PAUSE_S for pause in pauses)


class _Retold(logging.Filter):
    """Turns what the SDKs log into events of ours without the details, which may hold messages, names and tickets."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = str(record.msg).partition("(")[0].partition(":")[0].strip()[:80]
        event("slack.sdk_error", level=record.levelno, said=said)
        return False


def quiet_logger() -> logging.Logger:
    """Make the logger that the SDKs get."""
    logger = logging.getLogger("cortex.slack.sdk")
    logger.setLevel(logging.ERROR)
    if not logger.filters:
        logger.addFilter(_Retold())
    return logger


def open_client(settings: Settings) -> AsyncWebClient:
    """Make the client; its token goes to the one host of the settings. Raises Misconfigured."""
    token = settings.slack_bot_token.get_secret_value()
    if not token:
        raise Misconfigured(
            "there is no token for the Slack bot",
            code="slack.token_missing",
            hint="set CORTEX_SLACK_BOT_TOKEN, in settings.env",
        )
    require_safe(settings.slack_api_url)
    return AsyncWebClient(
        token=token,
        base_url=settings.slack_api_url.rstrip("/") + "/",
        timeout=TIMEOUT_S,
        logger=quiet_logger(),
        # The SDK's default repeats a call whose connection broke: a message might then be posted twice.
        retry_handlers=[Pauses(max_retry_count=ATTEMPTS)],
    )


def require_safe(url: str) -> None:
    """Raise Misconfigured for an address at which anybody on the way could read along."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise Misconfigured(
            "an address of Slack's must be https", code="slack.url", hint="check CORTEX_SLACK_API_URL"
        )


async def pages(client: AsyncWebClient, method: str, key: str, **parameters: str) -> AsyncIterator[list[Any]]:
    """Yield the entries under `key`, page by page; raises one of FAILURES, or Corrupt for pages that go in circles."""
    cursor, seen = "", {""}
    while True:
        given = {**parameters, "limit": str(PAGE_SIZE)} | ({"cursor": cursor} if cursor else {})
        answer = await client.api_call(method, data=given)
        entries = answer.get(key)
        if not isinstance(entries, list):
            raise ValueError(f"Slack's {method} lists no {key}")
        yield entries
        following = answer.get("response_metadata") or {}
        cursor = following.get("next_cursor") or ""
        if not cursor:
            return
        if cursor in seen:
            raise Corrupt(f"Slack's {method} gives the same page again and again", code="slack.loop")
        seen.add(cursor)


async def whoami(client: AsyncWebClient) -> tuple[str, str, bool]:
    """Ask whose token it is: the workspace, the bot's own account, and whether the workspace is part of an organisation.

    Raises Misconfigured when Slack refuses the token, Unavailable when Slack is not reached.
    """
    try:
        said = await client.auth_test()
    except SlackClientError as error:
        raise Misconfigured(
            "Slack refuses the bot's token",
            code="slack.refused",
            hint="check CORTEX_SLACK_BOT_TOKEN: docs/howto/answer-in-slack.md",
        ) from error
    except FAILURES as error:
        raise Unavailable("Slack does not answer", code="slack.unavailable") from error
    team_id, user_id = str(said.get("team_id") or ""), str(said.get("user_id") or "")
    if not team_id or not user_id:
        raise Misconfigured("Slack does not say whose token this is", code="slack.refused")
    return team_id, user_id, bool(said.get("enterprise_id"))
