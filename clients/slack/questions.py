"""Questions, read from what Slack delivers: a mention, a direct message, a slash command, a thumb. None: nothing to do.

See https://docs.slack.dev/reference/events/app_mention, https://docs.slack.dev/reference/events/message.im and
https://docs.slack.dev/interactivity/implementing-slash-commands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ID = re.compile(r"[A-Z][A-Z0-9]{1,30}", re.ASCII)
_TS = re.compile(r"\d{1,12}\.\d{1,9}", re.ASCII)
_MARKUP = re.compile(r"<([^<>]*)>")
_LONGEST_KEY = 200
HELPFUL, UNHELPFUL = "cortex_helpful", "cortex_unhelpful"


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: who asks, in which conversation, in which thread. `key` is the same however often it is delivered.

    A direct one is between the asker and the bot alone. A command comes with the address of its answer.
    """

    key: str
    channel_id: str
    slack_id: str
    text: str
    thread_ts: str = ""
    is_direct: bool = False
    response_url: str = ""


@dataclass(frozen=True, slots=True)
class Rated:
    """One thumb on an answer."""

    key: str
    slack_id: str
    answer_id: str
    is_helpful: bool
    thread_ts: str
    response_url: str


def read_message(body: Mapping[str, Any], team_id: str, bot_id: str) -> Asked | None:
    """Read a mention or a direct message of a person; edits, joins, bots and other workspaces' events are none."""
    event = _object(body.get("event"))
    kind, channel_id, slack_id = event.get("type"), _ident(event.get("channel")), _ident(event.get("user"))
    ts = _ts(event.get("ts"))
    is_direct = event.get("channel_type") == "im" and channel_id.startswith("D")
    if body.get("team_id") != team_id or not (channel_id and slack_id and ts):
        return None
    if kind != "app_mention" and not (kind == "message" and is_direct):
        return None
    if event.get("bot_id") or event.get("subtype") not in (None, "", "file_share") or slack_id == bot_id:
        return None
    return Asked(
        key=f"message {channel_id} {ts}",  # a mention in a direct message comes as both kinds
        channel_id=channel_id,
        slack_id=slack_id,
        text=plain(event.get("text"), bot_id),
        thread_ts=_ts(event.get("thread_ts")) or ts,
        is_direct=is_direct,
    )


def read_command(body: Mapping[str, Any], team_id: str, bot_id: str) -> Asked | None:
    """Read a slash command."""
    channel_id, slack_id = _ident(body.get("channel_id")), _ident(body.get("user_id"))
    trigger, response_url = _text(body.get("trigger_id")), _text(body.get("response_url"))
    if body.get("team_id") != team_id or not (channel_id and slack_id and trigger and response_url):
        return None
    return Asked(
        key=f"command {trigger[:_LONGEST_KEY]}",
        channel_id=channel_id,
        slack_id=slack_id,
        text=plain(body.get("text"), bot_id),
        response_url=response_url,
    )


def read_thumb(body: Mapping[str, Any], team_id: str) -> Rated | None:
    """Read a press on one of an answer's buttons."""
    actions = body.get("actions")
    action = _object(actions[0]) if isinstance(actions, list) and len(actions) == 1 else {}
    name, answer_id = action.get("action_id"), _text(action.get("value"))
    slack_id = _ident(_object(body.get("user")).get("id"))
    trigger, response_url = _text(body.get("trigger_id")), _text(body.get("response_url"))
    is_ours = name in (HELPFUL, UNHELPFUL) and _object(body.get("team")).get("id") == team_id
    if not (is_ours and slack_id and answer_id and trigger and response_url):
        return None
    return Rated(
        key=f"thumb {trigger[:_LONGEST_KEY]}",
        slack_id=slack_id,
        answer_id=answer_id,
        is_helpful=name == HELPFUL,
        thread_ts=_ts(_object(body.get("container")).get("thread_ts")),
        response_url=response_url,
    )


def plain(text: Any, bot_id: str) -> str:
    """Turn Slack's markup into the words that a person typed: labels for links, no mention of the bot."""
    words = _MARKUP.sub(lambda found: _words(found[1], bot_id), _text(text))
    for entity, letter in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        words = words.replace(entity, letter)
    return " ".join(words.replace("\x00", " ").split())


def _words(inside: str, bot_id: str) -> str:
    target, _, label = inside.partition("|")
    match target[:1]:
        case "@":
            return "" if target[1:] == bot_id else label
        case "#":
            return f"#{label}" if label else ""
        case "!":
            return label
        case _:
            return label or target


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _ident(value: Any) -> str:
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def _ts(value: Any) -> str:
    return value if isinstance(value, str) and _TS.fullmatch(value) else ""
