"""Relays that record: what passes them arrives unchanged, and can be sent again as it was."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import pytest

from cortex.errors import Unavailable
from eval.plain_http import Client
from eval.recording import Sent, recording_grpc, recording_http
from eval.upstream import running_upstream

METHOD = "/a.Service/CheckBulkPermissions"


def test_http_passes_and_is_kept() -> None:
    """A request through the relay is answered by the server behind, and its bytes are kept once."""
    with running_upstream() as upstream, recording_http(upstream.url.removesuffix("/v1")) as recording:
        body = b'{"messages": []}'
        relayed = httpx.post(f"{recording.address}/v1/chat/completions", content=body, trust_env=False)
        assert relayed.status_code == 200 and relayed.text.endswith("data: [DONE]\n\n")
        assert httpx.post(f"{recording.address}/nothing", content=b"{}", trust_env=False).status_code == 404
        assert recording.take("/completions") == (Sent("/v1/chat/completions", body),)
        assert recording.take() == ()


class Echo(grpc.GenericRpcHandler):
    """Answers every call with what it was sent and the caller's authorization."""

    def service(self, details: Any) -> Any:
        told = dict(details.invocation_metadata)["authorization"].encode()
        return grpc.unary_unary_rpc_method_handler(lambda request, _: request + b" from " + told)


def test_grpc_passes_and_is_kept() -> None:
    """Bytes and authorization reach the server behind; the method and the bytes are kept."""
    server = grpc.server(ThreadPoolExecutor(2), handlers=(Echo(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with (
            recording_grpc(f"127.0.0.1:{port}") as recording,
            grpc.insecure_channel(recording.address) as channel,
        ):
            answer = channel.unary_unary(METHOD)(b"\x00\x01", metadata=[("authorization", "me")], timeout=5)
            assert answer == b"\x00\x01 from me"
            assert recording.take("/CheckBulkPermissions") == (Sent(METHOD, b"\x00\x01"),)
    finally:
        server.stop(None).wait()


def test_a_plain_client_times_whole_answers_and_lines() -> None:
    """Lines come with the time of their arrival; anything but 200 is an error that says what was answered."""
    with running_upstream() as upstream, Client(upstream.url.removesuffix("/v1")) as client:
        lines = list(client.lines("/v1/chat/completions", b"{}", {}))
        times = [at_ms for at_ms, line in lines if line.startswith(b"data: {")]
        assert len(times) == 8 and times == sorted(times) and times[0] >= 50
        counts = client.get("/counts")
        assert (json.loads(counts.body)["n_whole"], counts.took_ms > 0) == (1, True)
        with pytest.raises(Unavailable, match="404"):
            client.get("/nothing")
