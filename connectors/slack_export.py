"""A Slack export: `users.json`, one list per kind of channel, and `<channel>/<date>.json`.

See https://slack.com/help/articles/220556107. Private channels and direct messages are in the exports of some plans.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from connectors.slack_archive import Archive, open_archive, read_json
from connectors.slack_download import Downloads
from connectors.slack_files import SharedFile
from connectors.slack_model import (
    Channel,
    ChannelKind,
    Workspace,
    home_team,
    ids,
    obj,
    read_channel,
    read_usergroups,
    read_users,
    word,
)
from connectors.slack_source import Raw
from cortex.documents import Item
from cortex.errors import InputError, Unparsable
from cortex.ports.connectors import FetchFailure, Skipped

_USERS = ("users.json", "org_users.json")
_CHANNELS = {
    "channels.json": ChannelKind.PUBLIC,
    "groups.json": ChannelKind.PRIVATE,
    "mpims.json": ChannelKind.GROUP_DM,
    "dms.json": ChannelKind.DM,
}
_USERGROUPS = "usergroups.json"
# Tools that export with files keep each under its id: `__uploads/<id>/<name>`, `<channel>/attachments/<id>-<name>`.
_FILE = re.compile(r"/(F[0-9A-Z]{2,})(?:/|-)[^/]+$")


class SlackExport:
    """An export archive, packed or unpacked."""

    def __init__(self, path: Path, domain: str = "", downloads: Downloads | None = None) -> None:
        self._domain = domain
        self._downloads = downloads
        try:
            self._archive: Archive = open_archive(path)
        except Unparsable as error:
            raise InputError(f"{path.name}: {error.message}", code="source.unreadable") from error
        self._names = self._archive.names()
        self._prefix = self._find_prefix(path)
        self._folders: dict[str, list[str]] = {}
        for name in self._names:
            folder, _, _ = name.removeprefix(self._prefix).rpartition("/")
            self._folders.setdefault(folder, []).append(name)
        self._folder_of: dict[str, str] = {}
        self._failures: list[FetchFailure] = []
        self._files = {found[1]: name for name in self._names if (found := _FILE.search(name))}
        self._found: set[str] = set()

    def workspace(self) -> Workspace:
        """Read the lists at the top of the archive; a list that cannot be read stops the run: access depends on it."""
        self._failures = [
            FetchFailure(name, "archive.entry_refused", reason) for name, reason in self._archive.problems
        ]
        raw_users = [raw for name in _USERS for raw in self._list(name)]
        team_id = home_team(raw_users)
        channels = {channel.channel_id: channel for channel in self._channels()}
        self._close_strays(channels)
        usergroups = read_usergroups(self._list(_USERGROUPS))
        return Workspace(team_id, self._domain, read_users(raw_users, team_id), channels, usergroups)

    def problems(self) -> list[FetchFailure]:
        """Say which entries were refused."""
        return self._failures

    def skipped(self) -> list[Skipped]:
        """Count the files that hold no messages and that no message shares."""
        lists = {self._prefix + name for name in (*_USERS, *_CHANNELS, _USERGROUPS)}
        channels = set(self._folder_of.values())
        unread = [
            name.removeprefix(self._prefix)
            for folder, names in self._folders.items()
            for name in names
            if (folder not in channels or not name.endswith(".json"))
            and name not in lists
            and name not in self._found
        ]
        reason = "files of the export that hold no messages"
        return [Skipped("archive.not_read", reason, len(unread), min(unread))] if unread else []

    def messages(self, channel: Channel, since_us: int) -> Iterator[Raw | FetchFailure]:
        """List a channel's messages, file by file in the order of days; the whole channel, whatever `since_us` is."""
        for name in self._folders.get(self._folder_of.get(channel.channel_id, ""), []):
            if not name.endswith(".json"):
                continue
            place = name.removeprefix(self._prefix)
            try:
                listed = read_json(self._archive, name)
                if not isinstance(listed, list):
                    raise Unparsable(f"{place} is no list of messages", code="archive.corrupt")
            except Unparsable as error:
                yield FetchFailure(channel.channel_id, "day.unreadable", error.message)
                continue
            for number, message in enumerate(listed, start=1):
                yield Raw(f"{place}#{number}", message)

    def some(self, channel: Channel, names: Collection[str]) -> Iterator[Raw | FetchFailure]:
        """List the whole channel: an export has no other order than that of days, and threads span them."""
        return self.messages(channel, 0)

    def find(self, file: SharedFile) -> str:
        """Return the path of a file that lies in the archive under its id; empty when it does not."""
        place = self._files.get(file.file_id, "")
        self._found.add(place)
        return place

    def content(self, item: Item, max_bytes: int) -> bytes:
        """Read a file from the archive, or from Slack if that was asked for."""
        if place := item.meta["place"]:
            content = self._archive.read(place)
            if len(content) > max_bytes:
                raise Unparsable(f"it has over {max_bytes:,} bytes", code="document.too_large")
            return content
        if self._downloads is None:
            reason = "the export holds its address and not its content; with --download Slack is asked for it"
            raise Unparsable(reason, code="file.not_exported")
        return self._downloads.get(item.meta["url"], item.media_type, max_bytes)

    def close(self) -> None:
        """Close the archive, and the connections if there are any."""
        self._archive.close()
        if self._downloads is not None:
            self._downloads.close()

    def _find_prefix(self, path: Path) -> str:
        """Find the folder inside the archive that holds the lists: some tools pack the export's own folder."""
        tops = [name.rpartition("/")[0] for name in self._names if name.rpartition("/")[2] in _USERS]
        if not tops:
            raise InputError(
                f"{path.name} holds no users.json: it is no Slack export", code="source.unreadable"
            )
        top = min(tops, key=lambda name: (name.count("/"), name))
        return f"{top}/" if top else ""

    def _list(self, name: str) -> list[Any]:
        full = self._prefix + name
        if full not in self._folders.get("", []):
            return []
        try:
            listed = read_json(self._archive, full)
        except Unparsable as error:
            raise InputError(
                f"{error.message}; nobody's access can be known without it", code="source.unreadable"
            ) from error
        if not isinstance(listed, list):
            raise InputError(f"{name} is no list", code="source.unreadable")
        return listed

    def _channels(self) -> Iterator[Channel]:
        for name, kind in _CHANNELS.items():
            for raw in self._list(name):
                members = obj(raw).get("members")
                channel = read_channel(raw, kind, ids(members) if isinstance(members, list) else None)
                if channel is None:
                    self._failures.append(
                        FetchFailure(name, "channel.malformed", "a channel has no id of Slack's")
                    )
                elif channel.channel_id in self._folder_of:
                    reason = "the export lists this channel twice; the first one counts"
                    self._failures.append(FetchFailure(channel.channel_id, "channel.repeated", reason))
                else:
                    self._folder_of[channel.channel_id] = self._folder(channel, word(obj(raw).get("name")))
                    yield channel

    def _folder(self, channel: Channel, name: str) -> str:
        """Return the folder of a channel: named as it is, direct messages by their id."""
        return name if name and name in self._folders else channel.channel_id

    def _close_strays(self, channels: dict[str, Channel]) -> None:
        """Load a folder that no list names too, with nobody to see it."""
        claims = Counter(self._folder_of.values())
        for channel_id, folder in self._folder_of.items():
            if claims[folder] > 1:  # whose messages are these? Nobody's, then
                channels[channel_id] = replace(
                    channels[channel_id], kind=ChannelKind.PRIVATE, member_ids=None
                )
        known = set(claims)
        for folder, names in sorted(self._folders.items()):
            days = [name for name in names if name.endswith(".json")]
            if folder and folder not in known and days and "/" not in folder:
                channels[folder] = Channel(folder, folder, ChannelKind.PRIVATE, None)
                self._folder_of[folder] = folder
