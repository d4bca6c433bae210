"""Who can read a conversation: everyone by verified address, or nobody knows. Decision 0014 is the rule in words.

Certain are the members of a private channel or group message, and for a public channel, which anybody may open, all
full members of the workspace and the guests in it. A channel that is shared or about to be, a member who is not
certainly known, more people than are checked, an answer of Slack's that leaves a doubt: then nobody knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from clients.slack.people import Account, People
from clients.slack.web import FAILURES, pages
from cortex.errors import CortexError
from cortex.telemetry import event

_AT_ONCE = 10  # accounts looked up side by side
_MOST_APPS = 50  # members of a channel that are no people; more are not looked through
_SHARED = ("is_shared", "is_ext_shared", "is_org_shared")
_MAY_BE_SHARED = ("is_pending_ext_shared", "is_global_shared")
_TEAMS = ("shared_team_ids", "internal_team_ids", "connected_team_ids", "connected_limited_team_ids",
          "pending_shared", "pending_connected_team_ids")  # fmt: skip


class Reach(StrEnum):
    """Who can open a channel."""

    WORKSPACE = "workspace"
    MEMBERS = "members"
    UNKNOWN = "unknown"


def reach(channel: Any, channel_id: str, team_id: str) -> Reach:
    """Say who can open a channel, from Slack's description of it; unknown unless that leaves no doubt."""
    if not isinstance(channel, dict) or channel.get("id") != channel_id or channel.get("is_im"):
        return Reach.UNKNOWN
    if _is_shared(channel, team_id):
        return Reach.UNKNOWN
    if channel.get("is_private") is True or channel.get("is_mpim") is True:
        return Reach.MEMBERS
    is_public = channel.get("is_private") is False and channel.get("is_channel") is True
    return Reach.WORKSPACE if is_public and not channel.get("is_group") else Reach.UNKNOWN


def _is_shared(channel: Mapping[str, Any], team_id: str) -> bool:
    """Say whether people of other workspaces are in a channel, may be soon, or whether that is not said."""
    if any(channel.get(flag) is not False for flag in _SHARED) or any(map(channel.get, _MAY_BE_SHARED)):
        return True
    teams = [channel.get("context_team_id"), *(each for key in _TEAMS for each in channel.get(key) or ())]
    return any(team not in (None, "", team_id) for team in teams)


class Readers:
    """Lists the readers of one workspace's conversations, at most `limit` of them."""

    def __init__(
        self, client: AsyncWebClient, people: People, team_id: str, limit: int, *, is_in_organisation: bool
    ) -> None:
        self._client = client
        self._people = people
        self._team_id = team_id
        self._limit = limit
        self._is_in_organisation = is_in_organisation

    async def of(self, channel_id: str) -> frozenset[str] | None:
        """Return the addresses of everyone who can read a channel; None when that is not certain."""
        try:
            answer = await self._client.api_call("conversations.info", data={"channel": channel_id})
            match reach(answer.get("channel"), channel_id, self._team_id):
                case Reach.MEMBERS:
                    return await self._addresses(self._members(channel_id))
                # An organisation's people may come from any of its workspaces: who is full member where is not certain.
                case Reach.WORKSPACE if not self._is_in_organisation:
                    return await self._addresses(self._workspace(channel_id))
                case _:
                    return None
        except FAILURES as error:
            event("slack.readers_unknown", error=type(error).__name__)
        except CortexError as error:
            event("slack.readers_unknown", error=error.error_code)
        return None

    async def _addresses(self, accounts: AsyncIterator[Account]) -> frozenset[str] | None:
        """Gather addresses by account; None as soon as somebody has none, two share one, or there are too many."""
        found: dict[str, str] = {}
        async for account in accounts:
            if account.is_app or account.is_deleted:
                continue
            if not account.email or found.setdefault(account.email, account.slack_id) != account.slack_id:
                return None
            if len(found) > self._limit:
                return None
        return frozenset(found)

    async def _members(self, channel_id: str) -> AsyncIterator[Account]:
        slack_ids: list[Any] = []
        async for page in pages(self._client, "conversations.members", "members", channel=channel_id):
            slack_ids += page
            if len(slack_ids) > self._limit + _MOST_APPS:
                raise ValueError("too many members to look at")
        if not all(isinstance(slack_id, str) for slack_id in slack_ids):
            raise ValueError("a member without an id")
        for at in range(0, len(slack_ids), _AT_ONCE):
            for account in await asyncio.gather(*map(self._people.reader, slack_ids[at : at + _AT_ONCE])):
                yield account

    async def _workspace(self, channel_id: str) -> AsyncIterator[Account]:
        """List who may open a public channel: those who may open any, and those who are in it."""
        async for account in self._people.everyone():
            if not account.is_guest and not account.is_foreign:
                yield account
        async for account in self._members(channel_id):
            yield account
