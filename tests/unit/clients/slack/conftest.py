"""A workspace on loopback, Cortex over twins, and the bot between them, reached as Slack reaches it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from pydantic import SecretStr

from clients.slack.asking import SERVICE, Cortex
from clients.slack.bolt import make_bolt
from clients.slack.deliveries import Deliveries
from clients.slack.desk import Desk
from clients.slack.desk import Workspace as Parts
from clients.slack.ingress import PATH, make_ingress
from clients.slack.people import People
from clients.slack.readers import Readers
from clients.slack.web import open_client
from cortex.settings import Settings
from serve_apps.http import make_app
from serve_apps.service import Backend
from tests.twins.service import BEN, TwinDesk, TwinService
from tests.twins.slack_workspace import TOKEN, Workspace, recorded, serving

TEAM, BOT = "T0ACME", "U0CORTEX"
SECRET = "a signing secret of nobody's"
RECEIPTS = "when are receipts due?"
SALARY = "salary band of a senior engineer"
_ts = itertools.count(1)


def account(slack_id: str, email: str, **more: Any) -> dict[str, Any]:
    """One account as the Web API shows it; a person of the workspace with a verified address unless told otherwise."""
    profile = {"display_name": slack_id.lower(), "real_name": slack_id.lower(), "email": email}
    return {
        "id": slack_id, "team_id": TEAM, "name": slack_id.lower(), "deleted": False, "profile": profile,
        "is_bot": False, "is_restricted": False, "is_ultra_restricted": False, "is_email_confirmed": True,
    } | more  # fmt: skip


def workspace() -> Workspace:
    """Three people that Cortex knows, the bot, and a few channels."""
    users = [
        account("U0ADA", "Ada@example.com"),
        account("U0BEN", BEN),
        account("U0CLEO", "cleo@example.com"),
        account(BOT, "", is_bot=True, is_email_confirmed=False),
        account("U0GONE", "gone@example.com", deleted=True),
    ]
    public, private = {"is_private": False, "is_channel": True}, {"is_private": True, "is_channel": True}
    channels = [
        {"id": "C0GENERAL", "name": "general", **public},
        {"id": "G0PAIR", "name": "pair", **private},
        {"id": "G0ALONE", "name": "alone", **private},
        {"id": "G0GROUP", "name": "mpdm", "is_mpim": True, "is_private": True, "is_channel": False},
        {"id": "D0ADA", "is_im": True},
    ]
    members = {
        "C0GENERAL": ["U0ADA", BOT],
        "G0PAIR": ["U0ADA", "U0BEN", BOT, "U0GONE"],
        "G0ALONE": ["U0ADA", BOT],
        "G0GROUP": ["U0ADA", "U0BEN", "U0CLEO", BOT],
        "D0ADA": ["U0ADA", BOT],
    }
    return Workspace(users, channels, members, {})


def mention(
    text: str = RECEIPTS, user: str = "U0ADA", channel: str = "G0PAIR", **more: Any
) -> dict[str, Any]:
    """An app_mention as recorded, with its own values in it."""
    shape = recorded("AppMentionPayload")
    ts = f"1790000000.{next(_ts):06}"
    return envelope(shape["event"], {
        "type": "app_mention", "user": user, "text": f"<@{BOT}> {text}", "ts": ts, "event_ts": ts, "channel": channel,
        "team": TEAM, "user_team": TEAM, "source_team": TEAM, "thread_ts": None, "edited": None,
    } | more)  # fmt: skip


def direct(text: str = RECEIPTS, user: str = "U0ADA", **more: Any) -> dict[str, Any]:
    """A direct message as recorded, with its own values in it."""
    shape = recorded("MessagePayload")
    ts = f"1790000000.{next(_ts):06}"
    return envelope(shape["event"], {
        "type": "message", "user": user, "text": text, "ts": ts, "event_ts": ts, "channel": "D0ADA", "channel_type": "im",
        "team": TEAM, "thread_ts": None, "edited": None,
    } | more)  # fmt: skip


def envelope(shape: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Put an event into the recorded envelope; what the recording masks and a message does not have is left out."""
    outer = recorded("AppMentionPayload")
    masked = (
        "subtype",
        "bot_id",
        "app_id",
        "bot_profile",
        "username",
        "blocks",
        "attachments",
        "files",
        "metadata",
    )
    event = {key: value for key, value in {**shape, **values}.items() if key not in masked or key in values}
    return outer | {
        "type": "event_callback", "team_id": TEAM, "api_app_id": "A0CORTEX", "event_id": f"Ev{next(_ts):08}", "event": event,
        "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": True, "is_enterprise_install": False}],
    }  # fmt: skip


def signed(body: bytes, *, secret: str = SECRET, age_s: float = 0.0) -> dict[str, str]:
    """The headers that Slack sends with a body."""
    sent_at = str(int(time.time() - age_s))
    digest = hmac.new(secret.encode(), b"v0:%s:%s" % (sent_at.encode(), body), hashlib.sha256).hexdigest()
    return {"x-slack-request-timestamp": sent_at, "x-slack-signature": f"v0={digest}"}


@dataclass(slots=True)
class Bot:
    """A running bot and both its sides."""

    workspace: Workspace
    service: TwinService
    desk: Desk
    ingress: httpx.AsyncClient

    async def deliver(self, body: Mapping[str, Any], **headers: str) -> list[dict[str, Any]]:
        """Deliver an event; return what is posted because of it."""
        content = json.dumps(body).encode()
        return await self._post(content, {"content-type": "application/json", **headers})

    async def command(
        self, text: str, user: str = "U0ADA", trigger: str = "", **more: str
    ) -> list[dict[str, Any]]:
        """Type the slash command."""
        fields = {
            "team_id": TEAM, "user_id": user, "channel_id": "C0GENERAL", "command": "/cortex", "text": text,
            "trigger_id": trigger or f"1.{next(_ts)}", "response_url": self._answers_url(), "api_app_id": "A0CORTEX",
        }  # fmt: skip
        return await self._form(fields | more)

    async def press(self, button: Mapping[str, Any], user: str = "U0ADA") -> list[dict[str, Any]]:
        """Press a button of an answer."""
        payload = {
            "type": "block_actions", "team": {"id": TEAM}, "user": {"id": user, "team_id": TEAM}, "api_app_id": "A0CORTEX",
            "trigger_id": f"2.{next(_ts)}", "response_url": self._answers_url(), "channel": {"id": "G0PAIR"},
            "container": {"type": "message", "thread_ts": "1790000000.000001"},
            "actions": [{"type": "button", "action_id": button["action_id"], "value": button["value"], "action_ts": "1.1"}],
        }  # fmt: skip
        return await self._form({"payload": json.dumps(payload)})

    async def _form(self, fields: Mapping[str, str]) -> list[dict[str, Any]]:
        content = urlencode(fields).encode()
        return await self._post(content, {"content-type": "application/x-www-form-urlencoded"})

    async def _post(self, content: bytes, headers: Mapping[str, str]) -> list[dict[str, Any]]:
        n_before = len(self.workspace.posted)
        response = await self.ingress.post(PATH, content=content, headers={**signed(content), **headers})
        assert response.status_code == 200, response.text
        await asyncio.sleep(0.02)  # the delivery is acknowledged before it is worked on
        await self.desk.drain(10.0)
        return self.workspace.posted[n_before:]

    def _answers_url(self) -> str:
        return self.workspace.url.replace("/api/", "/answers/1")


@pytest.fixture
def slack() -> Iterator[Workspace]:
    with serving(workspace()) as served:
        yield served


@pytest.fixture
def home(tmp_path: Path, slack: Workspace) -> Settings:
    return Settings(
        home=tmp_path,
        slack_bot_token=SecretStr(TOKEN),
        slack_signing_secret=SecretStr(SECRET),
        slack_api_url=slack.url,
    )


@pytest.fixture
async def bot(slack: Workspace, home: Settings) -> AsyncIterator[Bot]:
    async with opened(slack, home, TwinService(services={SERVICE})) as made:
        yield made


class opened:
    """Open a bot of a home, and close it as its end would."""

    def __init__(
        self, slack: Workspace, home: Settings, service: TwinService, backend: Backend | None = None
    ) -> None:
        self._slack, self._home, self._service = slack, home, service
        self._backend = backend or Backend(service, TwinDesk())

    async def __aenter__(self) -> Bot:
        app = make_app(self._backend, self._home)
        self._cortex = Cortex(self._home, httpx.ASGITransport(app, client=("127.0.0.1", 5000)))
        self._deliveries = Deliveries(self._home.home / "run" / "slack.sqlite")
        client = open_client(self._home)
        people = People(client, TEAM)
        readers = Readers(client, people, TEAM, 50, is_in_organisation=False)
        desk = Desk(Parts(client, self._cortex, people, readers, self._deliveries))
        ingress = make_ingress(make_bolt(client, desk, TEAM, BOT), SECRET, read_timeout_s=0.3)
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(ingress), base_url="http://bot")
        return Bot(self._slack, self._service, desk, self._client)

    async def __aexit__(self, *failure: object) -> None:
        await self._client.aclose()
        await self._cortex.close()
        self._deliveries.close()


def shown(post: Mapping[str, Any]) -> str:
    """All words of a posted message, blocks included."""
    return json.dumps(post, ensure_ascii=False)


def parts_of(post: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    """All elements of a kind in a message's blocks: text, link, button."""
    found, waiting = [], list(post.get("blocks", []))
    while waiting:
        each = waiting.pop(0)
        if each.get("type") == kind:
            found.append(each)
        waiting += each.get("elements", [])
    return found
