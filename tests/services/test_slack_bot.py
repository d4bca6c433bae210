"""The Slack bot over real engines: a workspace is loaded, and the bot answers in that very workspace."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from adapters.catalog.ingest import PostgresIngestCatalog
from clients.slack import messages
from clients.slack.asking import SERVICE
from connectors import slack_api
from cortex.settings import Settings
from cortex.settings import settings as read
from data_jobs.ingest import ingest
from data_jobs.sources import Naming, slack_source
from serve_apps.backend import open_backend
from tests.twins.service import TwinService
from tests.twins.slack_workspace import TOKEN, Workspace, serving
from tests.unit.clients.slack.conftest import BOT, SECRET, Bot, account, direct, mention, opened, shown

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),  # loopback
]

EXPORT = Path(__file__).parents[1] / "fixtures" / "slack" / "export"
OFFER = "What did they offer?"


@pytest.fixture
async def bot(home_engines: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bot]:
    """The workspace of the export, loaded into a tenant of its own, with the bot as a member of two channels."""
    monkeypatch.setenv("CORTEX_SLACK_TOKEN", TOKEN)
    at_once = slack_api.Clock(sleep=lambda seconds: None)
    monkeypatch.setattr(slack_api, "Clock", lambda: at_once)
    read.cache_clear()
    workspace = Workspace.of_export(EXPORT)
    workspace.users.append(account(BOT, "", is_bot=True))
    for channel_id in ("G0SEC", "C0GEN"):
        workspace.members[channel_id].append(BOT)
    with serving(workspace):
        home = home_engines.model_copy(
            update={
                "tenant_id": f"bot-{uuid.uuid4().hex[:8]}",
                "slack_bot_token": SecretStr(TOKEN),
                "slack_signing_secret": SecretStr(SECRET),
                "slack_api_url": workspace.url,
                "home": home_engines.home,
            }
        )
        catalog = PostgresIngestCatalog(home.postgres_url)
        source = slack_source(home, workspace.url, Naming("acme", "chat"), domain="acme")
        catalog.ensure_source(source)
        catalog.admit_users(home.tenant_id, [SERVICE])
        catalog.close()
        ingest(home, source)
        backend = await open_backend(home)
        try:
            async with opened(workspace, home, TwinService(), backend) as made:
                yield made
        finally:
            await backend.close()
            read.cache_clear()


async def test_a_private_channels_secret_stays_with_its_members(bot: Bot) -> None:
    """Its members get the answer in their thread; in a public channel a member is answered alone; others get nothing of it."""
    (there,) = await bot.deliver(mention(OFFER, user="U0ANA", channel="G0SEC"))
    assert there["method"] == "chat.postMessage" and "forty million" in shown(there)
    assert "https://acme.slack.com/archives/G0SEC/" in shown(there)

    (elsewhere,) = await bot.deliver(mention(OFFER, user="U0ANA", channel="C0GEN"))
    assert (elsewhere["method"], elsewhere["user"]) == ("chat.postEphemeral", "U0ANA")
    assert "forty million" in shown(elsewhere)

    (other,) = await bot.deliver(direct(OFFER, user="U0BEN"))
    assert "forty million" not in shown(other) and "G0SEC" not in shown(other)

    bot.workspace.members["G0SEC"].append("U0BEN")  # Slack knows, Cortex has not heard of it yet
    (quiet,) = await bot.deliver(mention(OFFER, user="U0ANA", channel="G0SEC"))
    assert (quiet["method"], quiet["user"]) == ("chat.postEphemeral", "U0ANA")
    assert messages.FOR_YOU in shown(quiet)
