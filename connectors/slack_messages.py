"""Messages: what one raw Slack message says to the channel that holds it.

A message is a turn, a change or a removal of an earlier one, or noise: who came, who left, what was pinned. Noise is
counted, never indexed. See https://docs.slack.dev/reference/events/message for the subtypes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from connectors.slack_files import SharedFile, read_files
from connectors.slack_model import arr, obj, word
from connectors.slack_text import Renderer
from cortex.ports.connectors import Skipped

_TS = re.compile(r"\d{1,11}(?:\.\d{1,6})?")
_CHANGES = frozenset({"message_changed", "message_replied"})
_NOISE = frozenset(
    {
        *(
            "channel_join",
            "channel_leave",
            "channel_archive",
            "channel_unarchive",
            "channel_convert_to_private",
        ),
        *(
            "channel_convert_to_public",
            "channel_posting_permissions",
            "group_join",
            "group_leave",
            "group_archive",
        ),
        *(
            "group_unarchive",
            "bot_add",
            "bot_remove",
            "bot_enable",
            "bot_disable",
            "pinned_item",
            "unpinned_item",
        ),
        *("reminder_add", "assistant_app_thread", "ekm_access_denied", "message_ekm_access_denied"),
    }
)


_REASONS = {
    "deleted": "it was deleted at its source",
    "empty": "it has no text",
    "ekm_access_denied": "its organisation has locked it with a key of its own",
    "message_ekm_access_denied": "its organisation has locked it with a key of its own",
}


@dataclass(frozen=True, slots=True)
class Said:
    """One message as it stands now. `ts` is its id in its channel; `thread_ts` is its thread's, empty outside of one."""

    ts: str
    thread_ts: str
    speaker: str
    text: str
    edited_us: int = 0
    reply_ts: tuple[str, ...] = ()
    files: tuple[SharedFile, ...] = ()

    @property
    def at_us(self) -> int:
        """When it was written, in microseconds since 1970."""
        return micros(self.ts)

    @property
    def active_us(self) -> int:
        """When it was written or last edited."""
        return max(self.at_us, self.edited_us)

    @property
    def at(self) -> datetime:
        """When it was written."""
        return instant(self.at_us)


@dataclass(slots=True)
class Notes:
    """What was not indexed and why, counted by kind, and what is broken, by place."""

    skipped: Counter[str] = field(default_factory=Counter)
    broken: list[tuple[str, str]] = field(default_factory=list)  # place, reason


def skipped_messages(left_out: Counter[str]) -> Iterator[Skipped]:
    """Say of each kind of message left out why it is: `message.channel_join` and the like."""
    for kind, n in sorted(left_out.items()):
        reason = _REASONS.get(kind, "it says what happened to the channel, and nothing that one could cite")
        yield Skipped(f"message.{kind}", reason, n)


def micros(ts: str) -> int:
    """Read a message id as microseconds since 1970, exactly."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


def instant(at_us: int) -> datetime:
    """Return an instant by its microseconds since 1970."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).replace(microsecond=at_us % 1_000_000)


def read_ts(value: Any) -> str:
    """Return a message id in its one spelling, with six decimals; empty when it is none."""
    text = f"{value:.6f}" if isinstance(value, float) else str(value)
    if isinstance(value, bool) or not _TS.fullmatch(text):
        return ""
    seconds, _, fraction = text.partition(".")
    return f"{seconds}.{fraction:<06}"


def read_messages(raws: Iterable[tuple[str, Any]], renderer: Renderer, notes: Notes) -> dict[str, Said]:
    """Read a channel's messages, each with the place it was found at, into what stands in the end, by id.

    A later change replaces a message, a removal drops it; of two that share an id the first one counts.
    """
    said: dict[str, Said] = {}
    for place, raw in raws:
        _take(place, obj(raw), renderer, said, notes)
    return dict(sorted(said.items(), key=lambda pair: micros(pair[0])))


def _take(place: str, raw: dict[str, Any], renderer: Renderer, said: dict[str, Said], notes: Notes) -> None:
    subtype = word(raw.get("subtype"))
    if subtype in _CHANGES:
        inner = obj(raw.get("message"))
        said.pop(read_ts(inner.get("ts")), None)
        _take(
            place,
            {**inner, "subtype": "" if inner.get("subtype") in _CHANGES else inner.get("subtype")},
            renderer,
            said,
            notes,
        )
        return
    gone = subtype in ("message_deleted", "tombstone")
    ts = read_ts(
        raw.get("deleted_ts") or obj(raw.get("previous_message")).get("ts") or raw.get("ts")
        if gone
        else raw.get("ts")
    )
    if not ts:
        notes.broken.append((place, "a message without a usable timestamp cannot be placed or cited"))
    elif gone:
        said.pop(ts, None)
        notes.skipped["deleted"] += 1
    elif subtype in _NOISE:
        notes.skipped[subtype] += 1
    else:
        _say(place, _said(raw, ts, renderer), said, notes)


def _say(place: str, one: Said, said: dict[str, Said], notes: Notes) -> None:
    known = said.get(one.ts)
    if not one.text:
        notes.skipped["empty"] += 1
    elif known is None:
        said[one.ts] = one
    elif (known.speaker, known.text) != (one.speaker, one.text):
        notes.broken.append((place, f"two messages share the id {one.ts}; the first one counts"))


def _said(raw: dict[str, Any], ts: str, renderer: Renderer) -> Said:
    thread_ts = read_ts(raw.get("thread_ts")) if raw.get("thread_ts") else ""
    edited_ts = read_ts(obj(raw.get("edited")).get("ts"))
    replies = tuple(filter(None, (read_ts(obj(reply).get("ts")) for reply in arr(raw.get("replies")))))
    return Said(
        ts,
        thread_ts,
        _speaker(raw, renderer),
        renderer.message(raw),
        micros(edited_ts) if edited_ts else 0,
        replies,
        read_files(raw),
    )


def _speaker(raw: dict[str, Any], renderer: Renderer) -> str:
    """Name who wrote a message; empty when it does not say."""
    user_id = word(raw.get("user")) or word(obj(raw.get("comment")).get("user"))
    shown = obj(raw.get("user_profile"))
    names = (
        word(raw.get("username")) if raw.get("subtype") == "bot_message" else "",
        renderer.person(user_id, word(shown.get("display_name")) or word(shown.get("real_name")))
        if user_id
        else "",
        word(raw.get("username")),
        word(obj(raw.get("bot_profile")).get("name")),
        "bot" if raw.get("bot_id") else "",
    )
    return next(filter(None, names), "")
