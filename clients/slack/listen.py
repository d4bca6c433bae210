"""The bot's own HTTP server: one delivery a connection, whose head must arrive in time, so that nobody can hold it open."""

from __future__ import annotations

import asyncio
import socket
from typing import ClassVar

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from cortex.errors import Misconfigured

_MOST_CONNECTIONS = 256


class PromptProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection on which no request has begun in time; the body has a limit of its own."""

    head_timeout_s: ClassVar[float] = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._given_up = self.loop.call_later(self.head_timeout_s, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._given_up.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        if self.cycle is None:  # the head of a request makes its cycle
            self.transport.close()  # type: ignore[unreachable]  # uvicorn's types leave out the time before


def make_server(app: Starlette, last_answers_s: float) -> uvicorn.Server:
    """Make the server of an app; told to end, it waits so long for requests under way."""
    config = uvicorn.Config(
        app,
        http=PromptProtocol,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        limit_concurrency=_MOST_CONNECTIONS,
        headers=[("connection", "close")],  # a second request could take its time
        timeout_graceful_shutdown=int(last_answers_s),
    )
    return uvicorn.Server(config)


def open_port(host: str, port: int) -> socket.socket:
    """Listen; raises Misconfigured when another program does or the host is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise Misconfigured(
            f"the bot cannot listen at {host}:{port}",
            code="slack.port",
            hint="set CORTEX_SLACK_BOT_HOST and CORTEX_SLACK_BOT_PORT",
        ) from error
