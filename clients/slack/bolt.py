"""The Bolt app: which of Slack's deliveries go where. Bolt acknowledges each within the three seconds that Slack waits."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from clients.slack.desk import Desk
from clients.slack.questions import HELPFUL, UNHELPFUL, read_command, read_message, read_thumb
from clients.slack.web import quiet_logger
from cortex.telemetry import event

COMMAND = "/cortex"
Ack = Callable[[], Awaitable[Any]]


def make_bolt(client: AsyncWebClient, desk: Desk, team_id: str, bot_id: str) -> AsyncApp:
    """Make the app of one workspace; without a signing secret of its own it takes nothing that is not verified yet."""
    bolt = AsyncApp(client=client, signing_secret="", logger=quiet_logger(), name="cortex.slack.sdk")

    async def on_message(body: dict[str, Any]) -> None:
        await desk.on_message(read_message(body, team_id, bot_id))

    async def on_command(ack: Ack, body: dict[str, Any]) -> None:
        await ack()
        await desk.on_command(read_command(body, team_id, bot_id))

    async def on_thumb(ack: Ack, body: dict[str, Any]) -> None:
        await ack()
        await desk.on_thumb(read_thumb(body, team_id))

    async def on_error(error: Exception) -> None:
        event("slack.fail", level=logging.ERROR, error=type(error).__name__)

    bolt.event("app_mention")(on_message)
    bolt.event("message")(on_message)
    bolt.command(COMMAND)(on_command)
    bolt.action(HELPFUL)(on_thumb)
    bolt.action(UNHELPFUL)(on_thumb)
    bolt.error(on_error)
    return bolt
