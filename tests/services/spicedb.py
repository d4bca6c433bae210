"""A SpiceDB server of its own for tests: the program as the supervisor starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOKEN = "sekret-for-tests"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[bytes]

    def end(self) -> int:
        """Ask it to end; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=20)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(home: Path, port: int, **env: str) -> subprocess.Popen[bytes]:
    """Start the program; its words go to `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
    with (home / "spicedb.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "cluster.engines.spicedb_server", "--port", str(port)],
            env={**kept, "CORTEX_HOME": str(home), **env},
            stdout=log,
            stderr=log,
        )


@contextmanager
def running(home: Path) -> Iterator[Server]:
    """Run a server until the block ends."""
    port = free_port()
    process = start(home, port, CORTEX_SPICEDB_TOKEN=TOKEN)
    try:
        deadline = time.monotonic() + 60
        while not _listens(port):
            assert process.poll() is None, (home / "spicedb.log").read_text()
            assert time.monotonic() < deadline, "SpiceDB does not start"
            time.sleep(0.05)
        yield Server(f"127.0.0.1:{port}", process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
