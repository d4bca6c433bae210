"""The bot as a program: Socket Mode and HTTP against loopback, the record of deliveries, the manifest and its errors."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import yaml
from aiohttp import WSMsgType, web
from click.testing import CliRunner
from pydantic import SecretStr

from clients.slack import messages, run
from clients.slack.asking import SERVICE, Cortex
from clients.slack.bolt import COMMAND
from clients.slack.commands import app_manifest, slack
from clients.slack.deliveries import Deliveries
from clients.slack.ingress import PATH
from clients.slack.listen import PromptProtocol
from clients.slack.web import open_client
from cortex.errors import CortexError, Misconfigured, Unavailable
from cortex.settings import Settings
from tests.twins.running_app import RunningApp, running_app
from tests.twins.service import ADA
from tests.twins.slack_workspace import APP_TOKEN, TOKEN, Workspace, serving
from tests.unit.clients.slack.conftest import SECRET, direct, mention, signed, workspace


@pytest.fixture
def app(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as running:
        running.service.services = {SERVICE}
        yield running


def settings(app: RunningApp, slack: Workspace, **more: object) -> Settings:
    given = {
        "http_url": app.url, "slack_api_url": slack.url, "slack_bot_token": SecretStr(TOKEN), "slack_bot_port": 0,
        "slack_app_token": SecretStr(APP_TOKEN),
    } | more  # fmt: skip
    return app.settings.model_copy(update=given)


@asynccontextmanager
async def socket_of(
    slack: Workspace,
) -> AsyncIterator[tuple[asyncio.Queue[web.WebSocketResponse], list[str]]]:
    """Slack's end of Socket Mode: each connection as it comes, and the envelopes that were acknowledged."""
    opened: asyncio.Queue[web.WebSocketResponse] = asyncio.Queue()
    acknowledged: list[str] = []

    async def accept(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        opened.put_nowait(socket)
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                acknowledged.append(json.loads(message.data)["envelope_id"])
        return socket

    server = web.Application()
    server.router.add_get("/link", accept)
    runner = web.AppRunner(server, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    slack.socket_url = f"ws://127.0.0.1:{port}/link"
    try:
        yield opened, acknowledged
    finally:
        await runner.cleanup()


async def until(met: object, timeout_s: float = 10.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(timeout_s):
        while not met():  # type: ignore[operator]
            await asyncio.sleep(0.02)


async def test_socket_mode_acknowledges_answers_and_comes_back(app: RunningApp) -> None:
    """Each envelope is acknowledged and answered once, over a second connection too when Slack closes the first."""
    with serving(workspace()) as slack:
        stop = asyncio.Event()
        async with (
            socket_of(slack) as (opened, acknowledged),
            run.open_bot(settings(app, slack)) as (bolt, desk),
        ):
            running = asyncio.create_task(run.over_socket(settings(app, slack), bolt, desk, stop))
            first = await asyncio.wait_for(opened.get(), 10)
            asked = direct()
            envelope = {
                "type": "events_api",
                "envelope_id": "e1",
                "payload": asked,
                "accepts_response_payload": False,
            }
            await first.send_json(envelope)
            await until(lambda: slack.posted and acknowledged == ["e1"])
            await first.send_json({"type": "disconnect", "reason": "refresh_requested"})
            second = await asyncio.wait_for(opened.get(), 10)
            await second.send_json(
                envelope | {"envelope_id": "e2", "retry_attempt": 1, "retry_reason": "timeout"}
            )
            await second.send_json(envelope | {"envelope_id": "e3", "payload": mention()})
            await until(lambda: len(slack.posted) == 2 and acknowledged == ["e1", "e2", "e3"])
            stop.set()
            await asyncio.wait_for(running, 10)
        assert {post["channel"] for post in slack.posted} == {"D0ADA", "G0PAIR"}
        assert {principal.user_id for principal, _ in app.service.asked} == {ADA}


async def test_over_http_a_signed_delivery_is_answered(
    app: RunningApp, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without an app token the bot listens, says where, answers what is signed, and ends when told."""
    with serving(workspace()) as slack:
        home = settings(app, slack, slack_app_token=SecretStr(""), slack_signing_secret=SecretStr(SECRET))
        stop = asyncio.Event()
        async with run.open_bot(home) as (bolt, desk):
            running = asyncio.create_task(run.over_http(home, bolt, desk, stop))
            url = await said_address(capsys)
            content = json.dumps(direct()).encode()
            async with httpx.AsyncClient(trust_env=False) as client:
                headers = {**signed(content), "content-type": "application/json"}
                taken = await client.post(url + PATH, content=content, headers=headers)
                refused = await client.post(url + PATH, content=content)
            await until(lambda: slack.posted)
            stop.set()
            await asyncio.wait_for(running, 10)
        assert (taken.status_code, refused.status_code, len(slack.posted)) == (200, 401, 1)


async def test_a_head_that_trickles_is_given_up(
    app: RunningApp, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that say nothing, or never end their head, are closed in time; others are answered meanwhile."""
    monkeypatch.setattr(PromptProtocol, "head_timeout_s", 0.3)
    with serving(workspace()) as slack:
        home = settings(app, slack, slack_app_token=SecretStr(""), slack_signing_secret=SecretStr(SECRET))
        stop = asyncio.Event()
        async with run.open_bot(home) as (bolt, desk):
            running = asyncio.create_task(run.over_http(home, bolt, desk, stop))
            host, port = (await said_address(capsys)).removeprefix("http://").split(":")
            silent, trickling = [await asyncio.open_connection(host, int(port)) for _ in range(2)]
            trickling[1].write(b"POST /slack/events HTTP/1.1\r\nhost: x\r\n")
            async with httpx.AsyncClient(trust_env=False) as client:
                alive = await client.get(f"http://{host}:{port}/healthz")
            started = time.monotonic()
            for reader, writer in (silent, trickling):
                assert await asyncio.wait_for(reader.read(), 5) == b""
                writer.close()
            assert time.monotonic() - started < 3
            stop.set()
            await asyncio.wait_for(running, 10)
        assert (alive.status_code, alive.headers["connection"]) == (200, "close")


async def said_address(capsys: pytest.CaptureFixture[str]) -> str:
    """Wait until the bot says where it listens."""
    said = ""
    async with asyncio.timeout(10):
        while PATH not in said:
            await asyncio.sleep(0.02)
            said += capsys.readouterr().out
    return said[said.index("http") : said.index(PATH)]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"slack_bot_token": SecretStr("")}, "slack.token_missing"),
        ({"slack_bot_token": SecretStr("xoxb-revoked")}, "slack.refused"),
        ({"slack_app_token": SecretStr("")}, "slack.way_missing"),
        ({"slack_app_token": SecretStr(""), "slack_signing_secret": SecretStr(" ")}, "slack.way_missing"),
        ({"slack_app_token": SecretStr("xapp-revoked")}, "slack.refused"),
        ({"slack_api_url": "http://slack.example/api/"}, "slack.url"),
        ({"slack_service_token": SecretStr("no token")}, "token.invalid"),
        ({"http_url": "http://127.0.0.1:9"}, "server.unreachable"),
        ({"slack_api_url": "http://127.0.0.1:9/api/"}, "slack.unavailable"),
        ({"home": Path("/dev/null/home")}, "slack.record"),
    ],
)
async def test_what_keeps_the_bot_from_starting_is_named(
    app: RunningApp, change: dict[str, object], code: str
) -> None:
    """Missing, refused and malformed tokens, a Slack or Cortex out of reach: each has its code before anything is heard."""
    with serving(workspace()) as slack, pytest.raises(CortexError) as caught:
        home = settings(app, slack, **change)
        async with run.open_bot(home) as (bolt, desk):
            await run.over_socket(home, bolt, desk, asyncio.Event())
    assert caught.value.error_code == code


async def test_an_unregistered_service_does_not_start(app: RunningApp) -> None:
    """A service that Cortex does not know is told so at the start."""
    app.service.services = set()
    with serving(workspace()) as slack, pytest.raises(CortexError) as caught:
        async with run.open_bot(settings(app, slack)):
            pass
    assert caught.value.error_code == "user.unknown"


async def test_a_taken_port_is_named(app: RunningApp) -> None:
    """A port that another program holds is an error with the settings' names."""
    with serving(workspace()) as slack:
        port = int(slack.url.split(":")[2].split("/")[0])
        home = settings(app, slack, slack_bot_port=port, slack_signing_secret=SecretStr(SECRET))
        with pytest.raises(Misconfigured) as caught:
            async with run.open_bot(home) as (bolt, desk):
                await run.over_http(home, bolt, desk, asyncio.Event())
    assert caught.value.error_code == "slack.port"


async def test_a_busy_cortex_is_asked_again(tmp_path: Path) -> None:
    """429 and 503 are tried again after the pause they name, a bounded number of times; other errors are not."""
    calls: list[int] = []

    def client(*statuses: int) -> Cortex:
        left = list(statuses)

        def reply(_: httpx.Request) -> httpx.Response:
            calls.append(left[0])
            status = left.pop(0)
            return httpx.Response(
                status, json={"status": status, "code": "x.y"}, headers={"retry-after": "0"}
            )

        token = SecretStr("t")
        return Cortex(Settings(home=tmp_path, slack_service_token=token), httpx.MockTransport(reply))

    await client(429, 503, 204).rate(ADA, "a", is_helpful=True)
    with pytest.raises(Unavailable):
        await client(503, 503, 503, 503, 204).rate(ADA, "a", is_helpful=True)
    with pytest.raises(CortexError):
        await client(404, 204).rate(ADA, "a", is_helpful=True)
    assert calls == [429, 503, 204, 503, 503, 503, 503, 404]


def test_deliveries_are_kept_across_a_restart_and_forgotten_after_a_day(tmp_path: Path) -> None:
    """A key is taken once, also by a later process, until a day has passed; only the owner reads the file."""
    path = tmp_path / "run" / "slack.sqlite"
    record = Deliveries(path)
    assert [record.take("a"), record.take("a"), record.take("b")] == [True, False, True]
    record.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    later = Deliveries(path)
    assert [later.take("a"), later.take("c")] == [False, True]
    later._file.execute("UPDATE taken SET at = ? WHERE key = 'b'", (time.time() - 90_000,))
    later.close()
    third = Deliveries(path)
    assert [third.take("c"), third.take("b")] == [False, True]
    third.close()


def test_the_manifest_asks_for_what_the_bot_uses() -> None:
    """Printed as it is pasted; the command's name, the events and the scopes are those of the code."""
    printed = CliRunner().invoke(slack, ["manifest"], prog_name="cortex slack")
    document = yaml.safe_load(printed.stdout)
    assert document == app_manifest()
    assert document["settings"]["event_subscriptions"]["bot_events"] == ["app_mention", "message.im"]
    assert [each["command"] for each in document["features"]["slash_commands"]] == [COMMAND]
    assert document["settings"]["socket_mode_enabled"] is True
    scopes = set(document["oauth_config"]["scopes"]["bot"])
    assert {"chat:write", "users:read.email", "channels:read", "groups:read", "mpim:read"} <= scopes
    assert not {
        scope for scope in scopes if scope.startswith(("admin", "channels:history", "groups:history"))
    }


def test_the_manifest_names_the_address_for_http() -> None:
    """With an address, events, buttons and the command go there; another scheme than https is refused."""
    url = "https://bot.example.com/slack/events"
    printed = CliRunner().invoke(slack, ["manifest", "--url", url, "--json"], prog_name="cortex slack")
    document = json.loads(printed.stdout)
    assert document["settings"]["socket_mode_enabled"] is False
    assert document["settings"]["event_subscriptions"]["request_url"] == url
    assert document["settings"]["interactivity"]["request_url"] == url
    assert document["features"]["slash_commands"][0]["url"] == url
    refused = CliRunner().invoke(slack, ["manifest", "--url", "http://bot.example.com", "--json"])
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["code"]) == (2, "input.invalid")


async def test_the_sdks_log_no_content(
    slack: Workspace, home: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """What the SDKs would log is told without the details."""
    client = open_client(home)
    with caplog.at_level("DEBUG", logger="cortex"):
        client._logger.error("Failed to connect (error: wss://host/link?ticket=secret); Retrying...")
        client._logger.warning("Unhandled request ({'text': 'secret'})")
    assert "secret" not in caplog.text
    assert messages.NOTHING not in caplog.text
