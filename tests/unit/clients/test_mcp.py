"""`cortex mcp` as an MCP client starts it: a process that speaks on stdin and stdout and asks the app on a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from mcp import Client, StdioServerParameters, stdio_client

from clients.mcp.commands import mcp
from cortex.principals import Principal
from cortex.settings import settings
from cortex.tokens import local_private_key, sign
from tests.twins.agents import said
from tests.twins.running_app import RunningApp, running_app
from tests.twins.service import ADA, BEN

SALARY = "salary band of a senior engineer"
Run = Callable[..., Result]
COMMAND = (sys.executable, "-m", "clients.cli.main", "mcp")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    with running_app(tmp_path_factory.mktemp("home")) as running:
        yield running


def environment(home: Path, url: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
    return {**kept, "CORTEX_HOME": str(home), "CORTEX_HTTP_URL": url, **more}


def started(app: RunningApp, *arguments: str, **more: str) -> AbstractAsyncContextManager[Client]:
    """Start the command as a client does."""
    env = environment(app.settings.home, app.url, **more)
    return Client(
        stdio_client(StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *arguments], env=env))
    )


@pytest.fixture
def run(app: RunningApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run the command in the app's home to where it would begin to serve."""
    monkeypatch.setenv("CORTEX_HOME", str(app.settings.home))
    monkeypatch.setenv("CORTEX_HTTP_URL", app.url)
    monkeypatch.delenv("CORTEX_TOKEN", raising=False)
    settings.cache_clear()
    yield lambda *arguments: CliRunner().invoke(mcp, arguments, prog_name="cortex mcp")
    settings.cache_clear()


async def test_each_person_has_the_tools_of_cortex(app: RunningApp) -> None:
    """The tools are those of /mcp, and show what that person may see; errors come through as they are."""
    async with started(app, "--as", ADA) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"search", "fetch", "ask"}
        assert client.server_info is not None and client.server_info.name == "cortex"
        found = await client.call_tool("search", {"query": SALARY})
        passage = found.structured_content["results"][0]
        assert passage["title"] == "Salary bands 2026"
        opened = await client.call_tool("fetch", {"id": passage["id"]})
        assert passage["text"] in said(opened)["text"]
        refused = await client.call_tool("search", {"query": "a", "limit": 0})
        assert (refused.is_error, said(refused)["code"]) == (True, "input.invalid")


async def test_a_token_names_the_person(app: RunningApp) -> None:
    """Without --as the token in CORTEX_TOKEN is sent; who may not see a document finds nothing of it."""
    token = sign(Principal("default", BEN), local_private_key(app.settings), 600)
    async with started(app, CORTEX_TOKEN=token) as client:
        found = await client.call_tool("search", {"query": SALARY})
        assert "Salary" not in json.dumps(found.structured_content)


async def test_what_a_client_gives_up_is_stopped_in_cortex(app: RunningApp) -> None:
    """A cancelled call closes its connection, and with it the work behind it ends."""
    app.service.token_delay_s = 0.5
    async with started(app, "--as", ADA) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.call_tool("ask", {"query": "when are receipts due"}), timeout=3)
        async with asyncio.timeout(5):
            while app.service.n_cancelled == 0:
                await asyncio.sleep(0.02)
    app.service.token_delay_s = 0.01


async def test_when_cortex_goes_away_the_tools_say_so(tmp_path: Path) -> None:
    """A client that is already connected reads what happened and what to do."""
    with running_app(tmp_path) as app:
        connected = started(app, "--as", ADA)
        client = await connected.__aenter__()
    try:
        result = await client.call_tool("search", {"query": SALARY})
        assert (result.is_error, said(result)["code"]) == (True, "server.unreachable")
        assert said(result)["hint"] == "cortex up"
    finally:
        await connected.__aexit__(None, None, None)


def test_without_cortex_it_does_not_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing on stdout, which is the protocol's; what to do on stderr; exit code 7."""
    monkeypatch.setenv("CORTEX_HTTP_URL", "http://127.0.0.1:9")
    settings.cache_clear()
    result = run("--as", ADA)
    assert (result.exit_code, result.stdout, "try: cortex up" in result.stderr) == (7, "", True)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [((), 2, "person.missing"), (("--as", "mallory@example.com"), 3, "user.unknown")],
)
def test_without_a_person_it_does_not_start(
    run: Run, arguments: tuple[str, ...], exit_code: int, code: str
) -> None:
    """Nobody named, or nobody known: why on stderr, and the exit code of that kind."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout, f"code: {code}" in result.stderr) == (exit_code, "", True)


def test_it_prints_what_a_client_needs(app: RunningApp, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry starts this very program for this home; a token's value is never in it."""
    entry = json.loads(run("--as", ADA, "--config").stdout)["mcpServers"]["cortex"]
    assert entry["args"] == ["mcp", "--as", ADA]
    assert entry["env"] == {"CORTEX_HOME": str(app.settings.home)}
    assert Path(entry["command"]).name == "cortex" and Path(entry["command"]).is_absolute()
    monkeypatch.setenv("CORTEX_TOKEN", "s3cret")
    elsewhere = run("--config").stdout
    assert json.loads(elsewhere)["mcpServers"]["cortex"]["env"]["CORTEX_HTTP_URL"] == app.url
    assert "s3cret" not in elsewhere


def test_help_says_how_to_add_it_without_the_sdk() -> None:
    """--help shows the entry's place and the commands, and does not import the SDK."""
    code = (
        "import sys; from clients.mcp.commands import mcp\n"
        "try: mcp(['--help'], prog_name='cortex mcp')\n"
        "except SystemExit: print('slow' if 'mcp' in sys.modules else 'quick')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "mcpServers" in done.stdout and "claude mcp add cortex" in done.stdout
    assert done.stdout.endswith("quick\n")
