"""Slack's pushes (Events API): verified by their v0 signature and age, read as what they change.

See https://docs.slack.dev/authentication/verifying-requests-from-slack.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from connectors.slack_files import read_files
from connectors.slack_messages import micros, read_ts
from connectors.slack_model import ident, obj, word
from connectors.slack_threads import day_of
from cortex.errors import InputError, Unauthenticated
from cortex.ports.connectors import EVERYTHING, WebhookEvent

MAX_AGE_S = 300  # Slack's own advice against replays
_MAX_CHALLENGE_CHARS = 1_000
_MAX_ID_CHARS = 100
# Who belongs to what: the groups are read anew, no document changes.
_ACCESS = frozenset(
    {
        *("member_joined_channel", "member_left_channel", "team_join", "user_change"),
        *("channel_join", "channel_leave", "group_join", "group_leave", "group_left", "channel_left"),
        *("subteam_created", "subteam_updated", "subteam_members_changed"),
    }
)
# A channel that opens, closes or goes concerns everything in it.
_WHOLE = frozenset(
    {
        *("channel_convert_to_private", "channel_convert_to_public", "channel_deleted", "group_deleted"),
        *("channel_rename", "group_rename", "channel_shared", "channel_unshared"),
    }
)


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
    """Say what a verified push changes; empty for what changes nothing. Raises InputError when it is no JSON."""
    try:
        given = obj(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise InputError("the push is not valid JSON", code="webhook.malformed") from error
    if given.get("type") == "url_verification":
        return WebhookEvent(reply=word(given.get("challenge"))[:_MAX_CHALLENGE_CHARS])
    event, push_id = obj(given.get("event")), word(given.get("event_id"))[:_MAX_ID_CHARS]
    kind, subtype = word(event.get("type")), word(event.get("subtype"))
    if kind in _WHOLE or subtype in _WHOLE:
        return WebhookEvent((EVERYTHING,), push_id=push_id)
    if kind in _ACCESS or subtype in _ACCESS:
        return WebhookEvent(changes_access=True, push_id=push_id)
    channel_id = ident(event.get("channel"))
    if kind not in ("message", "app_mention") or not channel_id:
        return WebhookEvent()
    changed = dict.fromkeys(f"{channel_id}/{name}" for name in _names(event))
    return WebhookEvent(changed_ids=tuple(changed), push_id=push_id)


def _names(event: dict[str, Any]) -> Iterator[str]:
    """Name the thread, the day and the files that a message event touches: a first reply takes its root out of the day."""
    for raw in (event, obj(event.get("message")), obj(event.get("previous_message"))):
        thread_ts, ts = read_ts(raw.get("thread_ts")), read_ts(raw.get("ts"))
        yield from (file.file_id for file in read_files(raw))
        if thread_ts:
            yield thread_ts
        for each in filter(None, (thread_ts, "" if raw.get("message") else ts)):
            yield day_of(micros(each))
    if deleted_ts := read_ts(event.get("deleted_ts")):
        yield from (deleted_ts, day_of(micros(deleted_ts)))
