"""The app over twins on a real socket, in a thread, for a real browser."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from cortex.codes import mint_code
from cortex.principals import Principal
from cortex.settings import Settings
from serve_apps.http import make_app
from serve_apps.service import Backend
from tests.twins.service import ADA, BEN, TwinDesk, TwinService


class RunningApp:
    """One running app: its address, its twin, and codes to sign in with."""

    def __init__(self, url: str, service: TwinService, settings: Settings) -> None:
        self.url = url
        self.service = service
        self.settings = settings

    def code(self, user: str = ADA, scopes: str = "search operate") -> str:
        return mint_code(self.settings, Principal("default", user, frozenset(scopes.split())), ttl_s=60)


@contextmanager
def running_app(home: Path, *, is_demo: bool = True) -> Iterator[RunningApp]:
    """Serve the app on a free port until the block ends."""
    people = f"{ADA}=search operate,{BEN}=search"
    settings = Settings(home=home, is_demo=is_demo, demo_people=people)
    service = TwinService(token_delay_s=0.01)
    with serving(Backend(service, TwinDesk()), settings) as url:
        yield RunningApp(url, service, settings)


@contextmanager
def serving(backend: Backend, settings: Settings) -> Iterator[str]:
    """Serve any backend on a free port until the block ends; yields the address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(make_app(backend, settings), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)

        async def serve() -> None:
            await server.serve(sockets=[listener])
            await backend.close()

        thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(timeout=10)
