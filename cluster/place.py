"""The home as engines see it: folders, ports that stay the same across restarts, secrets, log files."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cortex.errors import Misconfigured
from cortex.settings import Settings

# Below Linux's ephemeral range (32768 on), so that no outgoing connection takes a port while its engine restarts.
PORTS = range(20_000, 32_000)


@dataclass(slots=True)
class Place:
    """One home. Ports are settled once per supervisor, so that an engine's URL survives its restarts."""

    settings: Settings
    _ports: dict[str, int] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """The one data directory."""
        return self.settings.home

    def folder(self, name: str) -> Path:
        """Return a folder of the home, made on first use, for the owner alone."""
        return private_folder(self.home / name)

    def log_path(self, engine: str) -> Path:
        """Return an engine's log file."""
        return private_folder(self.settings.logs_path) / f"{engine}.log"

    def port(self, name: str) -> int:
        """Return the port kept for `name`; one that is taken by now is chosen anew, once."""
        if name not in self._ports:
            path = self.folder("run") / "ports.json"
            kept = read_ports(path)
            others = {port for other, port in {**kept, **self._ports}.items() if other != name}
            self._ports[name] = choose_port(kept.get(name), others, is_free)
            write_private(path, json.dumps({**kept, **self._ports}, indent=2))
        return self._ports[name]

    def http_port(self) -> int:
        """Return the web page's port: the one set, or a kept free one when the default is taken or 0 is set."""
        wanted = self.settings.http_port
        if wanted and is_free(wanted):
            return wanted
        if wanted and "http_port" in self.settings.model_fields_set:
            raise Misconfigured(
                f"port {wanted} is taken",
                code="port.taken",
                hint="set CORTEX_HTTP_PORT to another, or to 0 for any",
            )
        return self.port("http")

    def secret(self, name: str) -> str:
        """Return a random secret kept in the home (mode 0600), made on first use."""
        path = private_folder(self.settings.keys_path) / f"{name}.secret"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(32))
        return path.read_text().strip()


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner may enter; raises Misconfigured where that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Misconfigured(
            f"{path} cannot be created: {error.strerror}",
            code="home.unusable",
            hint="set CORTEX_HOME to a folder that you may write to",
        ) from error
    return path


def existing(path: Path) -> Path:
    """Return the nearest folder above a path that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, readable by its owner alone, so that a reader never sees half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)


def read_ports(path: Path) -> dict[str, int]:
    """Read the kept ports; a missing or damaged file means none."""
    try:
        kept: Mapping[str, int] = json.loads(path.read_text())
        return {name: int(port) for name, port in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def choose_port(kept: int | None, others: Collection[int], is_free: Callable[[int], bool]) -> int:
    """Keep the kept port if it is free, else draw one that is free and not kept for another engine."""
    if kept is not None and kept not in others and is_free(kept):
        return kept
    for port in random.sample(PORTS, k=200):
        if port not in others and is_free(port):
            return port
    raise Misconfigured("no free port was found", code="port.none_free", hint="end some listening programs")


def is_free(port: int) -> bool:
    """Tell whether nothing listens on a loopback port."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
