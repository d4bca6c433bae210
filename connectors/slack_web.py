"""A Slack workspace by the Web API: channels, people, members, history, and the replies of every thread."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from connectors.slack_api import SlackApi
from connectors.slack_download import Downloads
from connectors.slack_files import SharedFile, read_files
from connectors.slack_messages import micros, read_ts
from connectors.slack_model import (
    Channel,
    ChannelKind,
    User,
    Workspace,
    ident,
    ids,
    obj,
    read_channel,
    read_usergroups,
    read_users,
    word,
)
from connectors.slack_source import Raw
from cortex.documents import Item
from cortex.errors import CortexError, Misconfigured, NotFound, Unparsable
from cortex.ports.connectors import FetchFailure, Skipped

_KINDS = "public_channel,private_channel,mpim,im"
_DAY_US = 86_400_000_000
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class SlackWeb:
    """A workspace as one token sees it."""

    def __init__(self, url: str, token: str) -> None:
        self._api = SlackApi(url, token)
        self._downloads = Downloads(token, url)
        self._failures: list[FetchFailure] = []

    def workspace(self) -> Workspace:
        """Read the team, its people, user groups and channels with their members."""
        self._failures = []
        me = self._api.call("auth.test")
        team_id = ident(me.get("team_id"))
        users = read_users(list(self._api.pages("users.list", "members")), team_id)
        channels = {channel.channel_id: channel for channel in self._channels(users)}
        return Workspace(team_id, _domain(word(me.get("url"))), users, channels, self._usergroups())

    def problems(self) -> list[FetchFailure]:
        """Say which channels and groups could not be read."""
        return self._failures

    def skipped(self) -> list[Skipped]:
        """Say nothing: the API gives messages alone."""
        return []

    def messages(self, channel: Channel, since_us: int) -> Iterator[Raw | FetchFailure]:
        """List a channel's history from the day of `since_us` on, and after each root the replies of its thread."""
        channel_id = channel.channel_id
        oldest = {"oldest": f"{since_us // _DAY_US * _DAY_US // 1_000_000}.000000"} if since_us else {}
        try:
            for message in self._api.pages("conversations.history", "messages", channel=channel_id, **oldest):
                yield Raw(f"{channel_id}/{read_ts(obj(message).get('ts')) or '?'}", message)
                yield from self._replies(channel_id, obj(message), since_us)
        except NotFound as error:
            yield FetchFailure(
                channel_id, "channel.unreadable", f"{error.message}; invite the app to the channel"
            )

    def some(self, channel: Channel, names: Collection[str]) -> Iterator[Raw | FetchFailure]:
        """List the replies of each thread named, and the history of each day."""
        for name in sorted(names):
            try:
                for message in self._named(channel.channel_id, name):
                    yield Raw(f"{channel.channel_id}/{name}", message)
            except NotFound as error:
                if error.fields.get("says") != "thread_not_found":
                    yield FetchFailure(channel.channel_id, "channel.unreadable", error.message)
                    return

    def _named(self, channel_id: str, name: str) -> Iterator[Any]:
        if ts := read_ts(name):
            yield from self._api.pages("conversations.replies", "messages", channel=channel_id, ts=ts)
        elif _DAY.fullmatch(name):
            start_s = int(datetime.fromisoformat(f"{name}T00:00:00+00:00").timestamp())
            bounds = {
                "oldest": f"{start_s}.000000",
                "latest": f"{start_s + 86_399}.999999",
                "inclusive": "true",
            }
            yield from self._api.pages("conversations.history", "messages", channel=channel_id, **bounds)

    def find(self, file: SharedFile) -> str:
        """Return nothing: a workspace's files have to be downloaded."""
        return ""

    def content(self, item: Item, max_bytes: int) -> bytes:
        """Download a file; where its message gives no address, ask for the file itself."""
        try:
            url = item.meta["url"] or self._address(item.meta["file_id"])
        except CortexError as error:
            raise Unparsable(error.message, code="file.refused") from error
        return self._downloads.get(url, item.media_type, max_bytes)

    def close(self) -> None:
        """Close the connections."""
        self._api.close()
        self._downloads.close()

    def _address(self, file_id: str) -> str:
        return "".join(
            file.url for file in read_files({"file": self._api.call("files.info", file=file_id)["file"]})
        )

    def _replies(self, channel_id: str, root: dict[str, Any], since_us: int) -> Iterator[Raw]:
        """List a thread's replies, unless the last one is older than what is asked for."""
        ts, latest = read_ts(root.get("ts")), read_ts(root.get("latest_reply"))
        is_old = bool(latest) and micros(latest) < since_us
        if not root.get("reply_count") or not ts or is_old:
            return
        for reply in self._api.pages("conversations.replies", "messages", channel=channel_id, ts=ts):
            if read_ts(obj(reply).get("ts")) != ts:
                yield Raw(f"{channel_id}/{ts}", reply)

    def _channels(self, users: dict[str, User]) -> Iterator[Channel]:
        has_guests = any(user.is_guest for user in users.values())
        for raw in self._api.pages("conversations.list", "channels", types=_KINDS, exclude_archived="false"):
            channel = read_channel(raw, None, None)
            if channel is None:
                self._failures.append(
                    FetchFailure("channels", "channel.malformed", "a channel has no id of Slack's")
                )
            elif channel.kind is ChannelKind.PUBLIC and not has_guests:
                yield channel
            else:
                members = self._members(channel.channel_id)
                yield Channel(channel.channel_id, channel.name, channel.kind, members)

    def _members(self, channel_id: str) -> frozenset[str] | None:
        try:
            return ids(list(self._api.pages("conversations.members", "members", channel=channel_id)))
        except NotFound:
            return None

    def _usergroups(self) -> dict[str, tuple[str, frozenset[str]]]:
        """Read user groups; a token without the scope for them loses names in the text, and no access."""
        try:
            answer = self._api.call("usergroups.list", include_users="true")
        except Misconfigured as error:
            self._failures.append(FetchFailure("usergroups", error.error_code, error.message))
            return {}
        listed = answer.get("usergroups")
        return read_usergroups(listed if isinstance(listed, list) else [])


def _domain(url: str) -> str:
    """Take acme of https://acme.slack.com/."""
    host = urlsplit(url).hostname or ""
    return host.removesuffix(".slack.com") if host.endswith(".slack.com") else ""
