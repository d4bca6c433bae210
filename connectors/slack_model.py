"""What a Slack workspace is made of, read tolerantly from its JSON: people, channels, user groups.

The export and the Web API share these shapes (https://docs.slack.dev/reference/objects). A missing or masked value
never opens anything: who is not certainly a full member is not one, and a channel that is not certainly public is
private.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from connectors.storable import storable

_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_LONGEST_ADDRESS = 254  # RFC 5321
PREFIX = "slack:"  # of every group that Slack defines


class ChannelKind(StrEnum):
    """Who may open a channel: everyone in the workspace, or its members."""

    PUBLIC = "public"
    PRIVATE = "private"
    GROUP_DM = "group_dm"
    DM = "dm"


@dataclass(frozen=True, slots=True)
class User:
    """One account. `identity` is whom Cortex knows: the verified e-mail address, else the Slack id.

    Neither full members nor guests are: bots, deleted accounts, and people of other workspaces.
    """

    user_id: str
    name: str
    identity: str
    is_full_member: bool = False
    is_guest: bool = False

    @property
    def is_active(self) -> bool:
        """Whether the account can open anything at all."""
        return self.is_full_member or self.is_guest


@dataclass(frozen=True, slots=True)
class Channel:
    """One conversation; `member_ids` is None when the source does not say."""

    channel_id: str
    name: str
    kind: ChannelKind
    member_ids: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Workspace:
    """Everything that messages refer to, by id."""

    team_id: str = ""
    domain: str = ""
    users: Mapping[str, User] = field(default_factory=dict)
    channels: Mapping[str, Channel] = field(default_factory=dict)
    usergroups: Mapping[str, tuple[str, frozenset[str]]] = field(default_factory=dict)  # handle, members


def obj(value: Any) -> dict[str, Any]:
    """Take a JSON object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def arr(value: Any) -> list[Any]:
    """Take a JSON array as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def word(value: Any) -> str:
    """Take a JSON string as one line that can be stored, anything else as an empty one."""
    return " ".join(storable(value).split()) if isinstance(value, str) else ""


def ident(value: Any) -> str:
    """Take a JSON string that can be one of Slack's ids, anything else as none: ids become groups, paths and addresses."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else ""


def read_users(raws: list[Any], team_id: str) -> dict[str, User]:
    """Read accounts by id. An address that two active accounts claim identifies neither."""
    users = {user.user_id: user for raw in raws if (user := _user(obj(raw), team_id)).user_id}
    seen: dict[str, int] = {}
    for user in users.values():
        seen[user.identity] = seen.get(user.identity, 0) + user.is_active
    return {
        user_id: user
        if seen[user.identity] < 2
        else User(user_id, user.name, user_id, user.is_full_member, user.is_guest)
        for user_id, user in users.items()
    }


def home_team(raws: list[Any]) -> str:
    """Return the team that most accounts of a list belong to: the workspace itself."""
    teams = [team for raw in raws if (team := ident(obj(raw).get("team_id")))]
    return max(sorted(set(teams)), key=teams.count, default="")


def read_channel(raw: Any, kind: ChannelKind | None, member_ids: frozenset[str] | None) -> Channel | None:
    """Read a channel; `kind` is what its list says, which the channel itself may only narrow. None: it has no id."""
    given = obj(raw)
    channel_id = ident(given.get("id"))
    if not channel_id:
        return None
    own = _kind(given, channel_id)
    if kind is None or (kind is ChannelKind.PUBLIC and _says_private(given, channel_id)):
        kind = own
    name = word(given.get("name")) or word(given.get("name_normalized")) or channel_id
    return Channel(channel_id, name, kind, member_ids)


def read_usergroups(raws: list[Any]) -> dict[str, tuple[str, frozenset[str]]]:
    """Read user groups by id: handle and members; a disabled one has none."""
    groups = {}
    for raw in map(obj, raws):
        members = [] if raw.get("date_delete") else arr(raw.get("users"))
        name = word(raw.get("handle")) or word(raw.get("name")) or word(raw.get("id"))
        groups[ident(raw.get("id"))] = (name, ids(members))
    groups.pop("", None)
    return groups


def ids(values: list[Any]) -> frozenset[str]:
    """Collect the ids in a list, blanks left out."""
    return frozenset(filter(None, map(ident, values)))


def _user(raw: dict[str, Any], team_id: str) -> User:
    profile = obj(raw.get("profile"))
    user_id = ident(raw.get("id"))
    name = next(
        filter(
            None,
            map(
                word,
                (
                    profile.get("display_name"),
                    profile.get("real_name"),
                    raw.get("real_name"),
                    raw.get("name"),
                ),
            ),
        ),
        user_id,
    )
    email = word(profile.get("email")).lower() if raw.get("is_email_confirmed") is True else ""
    is_stranger = raw.get("is_stranger") is True or bool(
        team_id and word(raw.get("team_id")) not in ("", team_id)
    )
    is_nobody = bool(raw.get("deleted") or raw.get("is_bot") or is_stranger or user_id == "USLACKBOT")
    is_guest = bool(raw.get("is_restricted") or raw.get("is_ultra_restricted"))
    return User(
        user_id,
        name,
        email if "@" in email and len(email) <= _LONGEST_ADDRESS else user_id,
        is_full_member=not is_nobody and not is_guest,
        is_guest=not is_nobody and is_guest,
    )


def _says_private(raw: dict[str, Any], channel_id: str) -> bool:
    return bool(raw.get("is_private") or raw.get("is_im") or raw.get("is_mpim")) or channel_id[0] in "DG"


def _kind(raw: dict[str, Any], channel_id: str) -> ChannelKind:
    if raw.get("is_im") or channel_id.startswith("D"):
        return ChannelKind.DM
    if raw.get("is_mpim"):
        return ChannelKind.GROUP_DM
    is_public = raw.get("is_private") is False and not _says_private(raw, channel_id)
    return ChannelKind.PUBLIC if is_public and not raw.get("is_group") else ChannelKind.PRIVATE
