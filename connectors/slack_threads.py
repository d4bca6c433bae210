"""Threads: how a channel's messages become items.

A thread is one item, with all its replies, under the id `<channel>/<ts of its root>`. Messages outside of threads are
one item per channel and day (UTC), `<channel>/<date>`: a line such as "done, see above" can be found and understood
only among its neighbours, and each message keeps an address of its own all the same. A message that gets its first
reply moves from its day to its thread; both items then change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from connectors.slack_messages import Said, instant
from connectors.slack_model import Channel, ChannelKind, Workspace
from cortex.conversations import Conversation, Turn

_TITLE_CHARS = 80
_EMPHASIS = re.compile(r"(?<!\w)([*_~`])(\S(?:.*?\S)?)\1(?!\w)")


@dataclass(frozen=True, slots=True)
class Unit:
    """One item in the making. `active_us` is when it last changed; the listing is ordered by it."""

    external_id: str
    permalink: str
    active_us: int
    conversation: Conversation


def units(workspace: Workspace, channel: Channel, said: Mapping[str, Said]) -> Iterator[Unit]:
    """Group a channel's messages, given by id and in order, into threads and days."""
    threads: dict[str, list[Said]] = {}
    days: dict[str, list[Said]] = {}
    roots = {reply_ts: one.ts for one in said.values() for reply_ts in one.reply_ts}
    roots |= {one.ts: one.ts for one in said.values() if one.reply_ts}
    for one in said.values():
        root_ts = one.thread_ts or roots.get(one.ts, "")
        if root_ts:
            threads.setdefault(root_ts, []).append(one)
        else:
            days.setdefault(day_of(one.at_us), []).append(one)
    place = place_of(workspace, channel)
    for day, messages in days.items():
        yield _unit(workspace, channel, day, messages, f"{place}, {day}", "")
    for root_ts, messages in threads.items():
        title = f"{place}: {_first_line(messages[0].text)}"
        yield _unit(workspace, channel, root_ts, messages, title, root_ts)


def day_of(at_us: int) -> str:
    """Return the day of an instant, UTC, as YYYY-MM-DD."""
    return f"{instant(at_us):%Y-%m-%d}"


def place_of(workspace: Workspace, channel: Channel) -> str:
    """Name a channel as people do: `#general`, or the people of a direct message."""
    if channel.kind in (ChannelKind.DM, ChannelKind.GROUP_DM) and channel.member_ids:
        names = (
            workspace.users[each].name if each in workspace.users else each for each in channel.member_ids
        )
        return ", ".join(sorted(names))
    return f"#{channel.name}"


def file_item_id(channel: Channel, file_id: str) -> str:
    """Return the id of a file's item: it belongs to the conversation, as its messages do."""
    return f"{channel.channel_id}/{file_id}"


def mark_of(ts: str) -> str:
    """Return what a message's permalink ends in: `p` and its id without the point."""
    return f"p{ts.replace('.', '')}"


def permalink(workspace: Workspace, channel_id: str, ts: str, thread_ts: str) -> str:
    """Return a message's permalink; within a thread it opens the thread beside the channel."""
    host = f"{workspace.domain}.slack.com" if workspace.domain else "slack.com"
    query = f"?thread_ts={thread_ts}&cid={channel_id}" if thread_ts else ""
    return f"https://{host}/archives/{channel_id}/{mark_of(ts)}{query}"


def _unit(
    workspace: Workspace, channel: Channel, name: str, messages: Iterable[Said], title: str, thread_ts: str
) -> Unit:
    listed = list(messages)
    turns = tuple(_turn(channel, one) for one in listed)
    return Unit(
        external_id=f"{channel.channel_id}/{name}",
        permalink=permalink(workspace, channel.channel_id, listed[0].ts, thread_ts),
        active_us=max(one.active_us for one in listed),
        conversation=Conversation(title, turns),
    )


def _turn(channel: Channel, one: Said) -> Turn:
    shared = tuple(file_item_id(channel, file.file_id) for file in one.files if file.is_readable)
    return Turn(one.speaker, one.text, one.at, mark_of(one.ts), shared)


def _first_line(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip(" `>")), "").strip()
    line = _EMPHASIS.sub(r"\2", line)
    return line if len(line) <= _TITLE_CHARS else f"{line[:_TITLE_CHARS].rsplit(' ', 1)[0]} …"
