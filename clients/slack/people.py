"""Who somebody in Slack is to Cortex: the verified e-mail address of an account that certainly belongs to this workspace.

A missing value never makes somebody known. See https://docs.slack.dev/reference/objects/user-object.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from clients.slack.web import pages

_ADDRESS = re.compile(r"[^\s@]{1,64}@[^\s@]{1,255}")
_LONGEST_ADDRESS = 254  # RFC 5321
_KEPT_S = 60.0


@dataclass(frozen=True, slots=True)
class Account:
    """One account. `email` is empty unless this is a person of the workspace whose address Slack has verified.

    Apps and deleted accounts read nothing that a person would. A foreign account belongs to another workspace.
    """

    slack_id: str
    email: str = ""
    is_app: bool = False
    is_deleted: bool = False
    is_guest: bool = False
    is_foreign: bool = False


def read_account(raw: Any, team_id: str) -> Account:
    """Read a user object of Slack's."""
    given = raw if isinstance(raw, dict) else {}
    slack_id = given.get("id") if isinstance(given.get("id"), str) else ""
    own_team = given.get("team_id")
    is_app = given.get("is_bot") is True or slack_id == "USLACKBOT"
    is_deleted = given.get("deleted") is True
    is_foreign = given.get("is_stranger") is True or bool(own_team and own_team != team_id)
    is_certain = (
        bool(slack_id)
        and own_team == team_id
        and given.get("is_bot") is False
        and given.get("deleted") is False
        and given.get("is_email_confirmed") is True
        and not (is_app or is_foreign)
        and not any(given.get(flag) for flag in ("is_invited_user", "is_workflow_bot", "is_connector_bot"))
    )
    return Account(
        slack_id or "",
        _address(given.get("profile")) if is_certain else "",
        is_app=is_app,
        is_deleted=is_deleted,
        is_guest=bool(given.get("is_restricted") or given.get("is_ultra_restricted")),
        is_foreign=is_foreign,
    )


def _address(profile: Any) -> str:
    """Take the address in the form in which Cortex knows people."""
    email = profile.get("email") if isinstance(profile, dict) else ""
    address = email.strip().lower() if isinstance(email, str) else ""
    is_one = _ADDRESS.fullmatch(address) and address.isprintable() and len(address) <= _LONGEST_ADDRESS
    return address if is_one else ""


class People:
    """The accounts of one workspace. Whoever asks is looked up anew; those who only read are remembered for a minute."""

    def __init__(
        self, client: AsyncWebClient, team_id: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._team_id = team_id
        self._now = now
        self._known: dict[str, tuple[float, Account]] = {}

    async def asker(self, slack_id: str) -> Account:
        """Look an account up; raises one of web.FAILURES."""
        answer = await self._client.api_call("users.info", data={"user": slack_id})
        account = read_account(answer.get("user"), self._team_id)
        if account.slack_id != slack_id:
            return Account(slack_id)
        self._known = {key: kept for key, kept in self._known.items() if kept[0] > self._now()}
        self._known[slack_id] = (self._now() + _KEPT_S, account)
        return account

    async def reader(self, slack_id: str) -> Account:
        """Look an account up, or remember it; raises one of web.FAILURES."""
        until, account = self._known.get(slack_id, (0.0, Account(slack_id)))
        return account if until > self._now() else await self.asker(slack_id)

    async def everyone(self) -> AsyncIterator[Account]:
        """List all accounts of the workspace; raises one of web.FAILURES, or Corrupt."""
        async for page in pages(self._client, "users.list", "members"):
            for raw in page:
                yield read_account(raw, self._team_id)
