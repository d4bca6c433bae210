"""The bot as a program: checks both sides, then answers until it is told to stop, over Socket Mode or HTTP."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click
import uvicorn
from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from clients.slack.asking import Cortex
from clients.slack.bolt import make_bolt
from clients.slack.deliveries import Deliveries
from clients.slack.desk import Desk, Workspace
from clients.slack.ingress import PATH, make_ingress
from clients.slack.listen import make_server, open_port
from clients.slack.people import People
from clients.slack.readers import Readers
from clients.slack.web import FAILURES, open_client, quiet_logger, whoami
from cortex.errors import Misconfigured, Unavailable
from cortex.settings import Settings
from cortex.telemetry import event

_LAST_ANSWERS_S = 20.0


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; raises what keeps the bot from starting."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_bot(settings) as (bolt, desk):
        if settings.slack_app_token.get_secret_value():
            await over_socket(settings, bolt, desk, stop)
        else:
            await over_http(settings, bolt, desk, stop)


@asynccontextmanager
async def open_bot(settings: Settings) -> AsyncIterator[tuple[AsyncApp, Desk]]:
    """Open everything that answering needs; raises Misconfigured, Unauthenticated, Forbidden or Unavailable."""
    if not (settings.slack_app_token or settings.slack_signing_secret.get_secret_value().strip()):
        raise Misconfigured(
            "the bot has no way to hear from Slack",
            code="slack.way_missing",
            hint="set CORTEX_SLACK_APP_TOKEN for Socket Mode, or CORTEX_SLACK_SIGNING_SECRET for HTTP",
        )
    client, deliveries = open_client(settings), Deliveries(settings.home / "run" / "slack.sqlite")
    cortex = Cortex(settings)
    try:
        await cortex.check()
        team_id, bot_id, is_in_organisation = await whoami(client)
        people = People(client, team_id)
        readers = Readers(
            client, people, team_id, settings.audience_limit, is_in_organisation=is_in_organisation
        )
        desk = Desk(Workspace(client, cortex, people, readers, deliveries))
        yield make_bolt(client, desk, team_id, bot_id), desk
    finally:
        await cortex.close()
        deliveries.close()


async def over_socket(settings: Settings, bolt: AsyncApp, desk: Desk, stop: asyncio.Event) -> None:
    """Hear from Slack over a socket that the bot opens, until told to stop; raises Misconfigured or Unavailable."""
    token = settings.slack_app_token.get_secret_value()
    await _require_socket(bolt.client, token)  # the SDK would try a wrong token for ever
    handler = AsyncSocketModeHandler(bolt, token, logger=quiet_logger())
    connecting, stopping = asyncio.create_task(handler.connect_async()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if connecting.done():
            _say_ready("Socket Mode")
        await stopping
        handler.client.auto_reconnect_enabled = False
        await handler.client.disconnect()  # nothing new comes; what is under way is still answered
        await desk.drain(_LAST_ANSWERS_S)
    finally:
        connecting.cancel()
        stopping.cancel()
        await handler.close_async()


async def _require_socket(client: AsyncWebClient, token: str) -> None:
    try:
        await client.apps_connections_open(app_token=token)
    except SlackClientError as error:
        raise Misconfigured(
            "Slack opens no socket for the app's token",
            code="slack.refused",
            hint="check CORTEX_SLACK_APP_TOKEN: docs/howto/answer-in-slack.md",
        ) from error
    except FAILURES as error:
        raise Unavailable("Slack does not answer", code="slack.unavailable") from error


async def over_http(settings: Settings, bolt: AsyncApp, desk: Desk, stop: asyncio.Event) -> None:
    """Listen for Slack's signed deliveries until told to stop; raises Misconfigured when the port is taken."""
    ingress = make_ingress(bolt, settings.slack_signing_secret.get_secret_value())
    listener = open_port(settings.slack_bot_host, settings.slack_bot_port)
    server = make_server(ingress, _LAST_ANSWERS_S)
    host, port = listener.getsockname()[:2]
    _say_ready(f"http://{host}:{port}{PATH}")
    ending = asyncio.create_task(_end(server, stop))
    await server.serve(sockets=[listener])  # it listens to signals too, and hands them on when it is done
    ending.cancel()
    await desk.drain(_LAST_ANSWERS_S)


async def _end(server: uvicorn.Server, stop: asyncio.Event) -> None:
    await stop.wait()
    server.should_exit = True


def _say_ready(where: str) -> None:
    event("slack.ready", where=where)
    click.echo(f"answering ({where})")
