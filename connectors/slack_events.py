"""Slack's pushes (Events API): verified by their v0 signature and age, read as the items that they change.

See https://docs.slack.dev/authentication/verifying-requests-from-slack.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from connectors.slack_messages import micros, read_ts
from connectors.slack_model import obj, word
from connectors.slack_threads import day_of
from cortex.errors import InputError, Unauthenticated
from cortex.ports import WebhookEvent

MAX_AGE_S = 300  # Slack's own advice against replays


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> None:
    """Raise Unauthenticated unless a push bears a fresh signature made with the signing secret."""
    given = {name.lower(): value for name, value in headers.items()}
    sent_at = given.get("x-slack-request-timestamp", "")
    signature = given.get("x-slack-signature", "")
    if not secret or not sent_at.isdecimal() or not sent_at.isascii() or len(sent_at) > 12 or not signature:
        raise Unauthenticated("the push is not signed", code="webhook.unsigned")
    expected = (
        "v0=" + hmac.new(secret.encode(), b"v0:%s:%s" % (sent_at.encode(), body), hashlib.sha256).hexdigest()
    )
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
        raise Unauthenticated("the push's signature is not Slack's", code="webhook.forged")
    if abs(time.time() - int(sent_at)) > MAX_AGE_S:
        raise Unauthenticated("the push is too old, or comes from the future", code="webhook.expired")


def read_event(body: bytes) -> WebhookEvent:
    """Name the items that a verified push changes; empty for what changes none. Raises InputError when it is no JSON."""
    try:
        given = obj(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise InputError("the push is not valid JSON", code="webhook.malformed") from error
    event = obj(given.get("event"))
    if word(event.get("type")) not in ("message", "app_mention"):
        return WebhookEvent()
    channel_id = word(event.get("channel"))
    changed = dict.fromkeys(f"{channel_id}/{name}" for name in _names(event)) if channel_id else {}
    return WebhookEvent(changed_ids=tuple(changed))


def _names(event: dict[str, Any]) -> Iterator[str]:
    """Name the thread and the day that a message event touches: a first reply takes its root out of the day."""
    for raw in (event, obj(event.get("message")), obj(event.get("previous_message"))):
        thread_ts, ts = read_ts(raw.get("thread_ts")), read_ts(raw.get("ts"))
        if thread_ts:
            yield thread_ts
        for each in filter(None, (thread_ts, "" if raw.get("message") else ts)):
            yield day_of(micros(each))
    if deleted_ts := read_ts(event.get("deleted_ts")):
        yield from (deleted_ts, day_of(micros(deleted_ts)))
