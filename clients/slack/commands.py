"""`cortex slack`: run the bot; `cortex slack manifest`: print the app's manifest."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import yaml

from cortex.console import command, json_option, write_document
from cortex.errors import InputError, Misconfigured
from cortex.settings import settings
from cortex.telemetry import setup_logging

MANIFEST = Path(__file__).with_name("manifest.yaml")


@click.group(
    invoke_without_command=True,
    epilog="Examples:\n\n\b\n  cortex slack manifest                         create the app with it\n"
    "  cortex access add-user slack-bot              let the bot act for people\n"
    "  cortex slack",
)
@json_option
@click.pass_context
def slack(context: click.Context, as_json: bool) -> None:
    """Answer questions in Slack, each as whoever asks; run until stopped.

    Over Socket Mode with CORTEX_SLACK_APP_TOKEN, else over HTTP with CORTEX_SLACK_SIGNING_SECRET. What a channel sees
    is what everyone who can read it may open; all else is shown to the asker alone.
    """
    if context.invoked_subcommand is None:
        run(as_json=as_json)


@command
def run(as_json: bool) -> None:
    """Run the bot; `as_json` only shapes how an error is told."""
    if find_spec("slack_bolt") is None:
        raise Misconfigured(
            "the bot's library is not installed", code="slack.not_installed", hint="pip install -e '.[slack]'"
        )
    from clients.slack.run import serve

    setup_logging(settings().log_level)
    asyncio.run(serve(settings()))


@slack.command()
@click.option(
    "--url",
    metavar="URL",
    default="",
    help="https address at which Slack reaches the bot, /slack/events included. Without it: Socket Mode.",
)
@json_option
@command
def manifest(url: str, as_json: bool) -> None:
    """Print the manifest of the Slack app, to be pasted into api.slack.com/apps."""
    if not url and not as_json:
        click.echo(MANIFEST.read_text(encoding="utf-8"), nl=False)
        return
    document = app_manifest(url)
    if as_json:
        write_document(document)
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def app_manifest(url: str = "") -> dict[str, Any]:
    """Make the manifest: for Socket Mode, or for deliveries to an address."""
    document: dict[str, Any] = yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))
    if not url:
        return document
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        raise InputError(
            "Slack delivers to https addresses only", hint="https://bot.example.com/slack/events"
        )
    settings_part, features = document["settings"], document["features"]
    settings_part["socket_mode_enabled"] = False
    settings_part["event_subscriptions"] = {"request_url": url, **settings_part["event_subscriptions"]}
    settings_part["interactivity"]["request_url"] = url
    features["slash_commands"] = [
        {"command": each["command"], "url": url, **each} for each in features["slash_commands"]
    ]
    return document
