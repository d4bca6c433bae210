"""`cortex mcp`: serves Cortex's tools on stdin and stdout, or prints how an MCP client starts it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from clients.cli.calls import api_url, bearer
from clients.cli.commands import as_option
from cortex.console import command, write_document
from cortex.settings import Settings, settings


@click.command(
    epilog="Examples:\n\n\b\n"
    "  cortex mcp --as ada@example.com --config     the entry to paste, with this machine's paths\n"
    "  claude mcp add cortex -- cortex mcp --as ada@example.com\n\n"
    "The entry goes under `mcpServers` in the client's file: claude_desktop_config.json for Claude Desktop, "
    ".cursor/mcp.json for Cursor, .mcp.json for Claude Code. Clients that speak HTTP need no command: the address is "
    "/mcp of Cortex's own, with an `Authorization: Bearer` header (cortex token USER)."
)
@as_option
@click.option(
    "--config",
    "--json",
    "as_json",
    is_flag=True,
    help="Print the entry for an MCP client's configuration, one JSON document, and stop.",
)
@command
def mcp(user_id: str, as_json: bool) -> None:
    """Give an assistant the tools search, fetch and ask (MCP on stdin and stdout).

    An MCP client starts this command and speaks with it; there is nothing to type. Everything is asked of the running
    Cortex as one person, with a fresh token for each call, and shows only what that person may see.
    """
    if as_json:
        write_document(client_entry(settings(), user_id))
        return
    from clients.mcp.stdio import serve  # the SDK takes a while to import, and --help should not

    serve(settings(), user_id)


def client_entry(given: Settings, user_id: str) -> dict[str, Any]:
    """Make the entry of an MCP client's configuration; a token is never printed, its place is."""
    bearer(given, user_id)  # raises if nobody is named
    env = {"CORTEX_HOME": str(given.home)}
    if not user_id:
        env = {"CORTEX_HTTP_URL": api_url(given), "CORTEX_TOKEN": "the token goes here"}
    program = Path(sys.executable).with_name("cortex")
    arguments = ["mcp", "--as", user_id] if user_id else ["mcp"]
    return {"mcpServers": {"cortex": {"command": os.fspath(program), "args": arguments, "env": env}}}
