"""What adapters send, recorded on the way to the engines, so that the same bytes can be sent without the adapters.

Two relays on loopback: one speaks HTTP, the other gRPC; both pass requests on unchanged and keep them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import httpx

_KEPT_HEADERS = ("content-type", "api-key")
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One request: where to, an HTTP path or a gRPC method, and its bytes."""

    path: str
    body: bytes


@dataclass(slots=True)
class Recording:
    """A relay's address, and what has passed it since it was last taken."""

    address: str = ""
    _sent: list[Sent] = field(default_factory=list)

    def note(self, sent: Sent) -> None:
        """Keep one request."""
        self._sent.append(sent)

    def take(self, path_ends: str = "") -> tuple[Sent, ...]:
        """Return what was kept, of the paths that end so, and forget all."""
        taken, self._sent = self._sent, []
        return tuple(one for one in taken if one.path.endswith(path_ends))


@contextmanager
def recording_http(url: str) -> Iterator[Recording]:
    """Relay HTTP to `url` until the block ends."""
    recording = Recording()
    with httpx.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=False) as client:

        class Relay(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                recording.note(Sent(self.path, body))
                kept = {name: self.headers[name] for name in _KEPT_HEADERS if name in self.headers}
                reply = client.post(self.path, content=body, headers=kept)
                self.send_response(reply.status_code)
                self.send_header("content-type", reply.headers["content-type"])
                self.send_header("content-length", str(len(reply.content)))
                self.end_headers()
                self.wfile.write(reply.content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Relay) as server:
            recording.address = f"http://127.0.0.1:{server.server_address[1]}"
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield recording
            finally:
                server.shutdown()
                thread.join()


class _GrpcRelay(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def __init__(self, channel: Any, recording: Recording) -> None:
        self._channel = channel
        self._recording = recording

    def service(self, details: Any) -> Any:
        """Answer any call of one request and one answer by passing its bytes on."""
        told = dict(details.invocation_metadata or ())
        metadata = [("authorization", told["authorization"])] if "authorization" in told else []

        def answer(request: bytes, _: object) -> Any:
            self._recording.note(Sent(details.method, request))
            return self._channel.unary_unary(details.method)(request, metadata=metadata, timeout=_TIMEOUT_S)

        return grpc.unary_unary_rpc_method_handler(answer)


@contextmanager
def recording_grpc(address: str) -> Iterator[Recording]:
    """Relay gRPC without TLS to `host:port` until the block ends."""
    recording = Recording()
    with grpc.insecure_channel(address) as channel:
        server = grpc.server(ThreadPoolExecutor(4), handlers=(_GrpcRelay(channel, recording),))
        recording.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield recording
        finally:
            server.stop(None).wait()
