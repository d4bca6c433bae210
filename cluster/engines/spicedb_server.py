"""The embedded SpiceDB as a program: the real engine behind its gRPC API, on loopback, closed for checks until reloaded."""

from __future__ import annotations

import shutil
import signal
import socket
import threading
import time
from pathlib import Path

import click

from cluster.engines.spicedb_facade import Facade, Gate, make_server
from cluster.engines.spicedb_library import SpiceDBLibrary, library_path, make_socket_folder
from cortex.console import command
from cortex.errors import Conflict, Misconfigured
from cortex.settings import settings
from cortex.telemetry import event, setup_logging

_GRACE_S = 2.0


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), required=True, help="Port on 127.0.0.1.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with the preshared token; default: CORTEX_SPICEDB_TOKEN.",
)
@command
def main(port: int, token_file: Path | None) -> None:
    """Serve SpiceDB until SIGTERM."""
    setup_logging(settings().log_level)
    started = time.monotonic()
    stopping = threading.Event()
    token = _token(token_file)
    _require_free(port)  # first: whoever holds the port owns the socket folder too
    folder = make_socket_folder(port)
    library = SpiceDBLibrary(library_path(), folder)
    for number in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # after the library, whose runtime brings handlers of its own
        signal.signal(number, lambda *_: stopping.set())
    server = make_server(Facade(library, Gate(), token), port)
    server.start()  # bound and started last, so that a connection means that calls are answered
    event("spicedb.started", port=port, start_s=round(time.monotonic() - started, 2), state="loading")
    stopping.wait()
    server.stop(_GRACE_S).wait()
    library.close()
    shutil.rmtree(folder, ignore_errors=True)
    event("spicedb.stopped", port=port)


def _require_free(port: int) -> None:
    """Raise Conflict when another program listens on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Conflict(f"port {port} is taken", code="port.taken") from error


def _token(token_file: Path | None) -> str:
    """Read the preshared token; raises Misconfigured when there is none, since anyone on the machine could connect."""
    token = token_file.read_text().strip() if token_file else settings().spicedb_token.get_secret_value()
    if not token:
        raise Misconfigured("SpiceDB needs a preshared token", code="spicedb.no_token", hint="cortex up")
    return token


if __name__ == "__main__":
    main()
