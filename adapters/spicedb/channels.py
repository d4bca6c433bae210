"""How SpiceDB is reached: TLS with the preshared key, or plain text with it on this machine alone."""

from __future__ import annotations

from typing import Any

import grpc
from grpcutil import bearer_token_credentials, insecure_bearer_token_credentials

from cortex.errors import Misconfigured

HEALTH_METHOD = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"  # the answer's message: it is up and, if it is the embedded one, loaded

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# gRPC waits up to two minutes before it tries a lost server again; an engine here is back within seconds.
_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


def open_channel(url: str, token: str, use_tls: bool) -> Any:
    """Open a synchronous channel to `host:port`."""
    return grpc.secure_channel(url, _credentials(url, token, use_tls), _OPTIONS)


def open_async_channel(url: str, token: str, use_tls: bool) -> Any:
    """Open an asynchronous channel to `host:port`, in the running event loop; each call brings its own `authorization`."""
    _credentials(url, token, use_tls)  # refuses an address that the key must not be sent to
    if use_tls:
        return grpc.aio.secure_channel(url, grpc.ssl_channel_credentials(), _OPTIONS)
    return grpc.aio.insecure_channel(url, _OPTIONS)


def authorization(token: str) -> tuple[tuple[str, str], ...]:
    """State the preshared key as a call's metadata.

    As credentials of the channel it would be handed to a thread of its own for each call, a tenth of what a check costs here.
    """
    return (("authorization", f"Bearer {token}"),)


def _credentials(url: str, token: str, use_tls: bool) -> Any:
    if not url or not token:
        raise Misconfigured(
            "no SpiceDB is known here: CORTEX_SPICEDB_URL or CORTEX_SPICEDB_TOKEN is empty",
            code="spicedb.missing",
            hint="cortex up",
        )
    if use_tls:
        return bearer_token_credentials(token)
    if url.rpartition(":")[0] not in _LOOPBACK:
        raise Misconfigured(
            "SpiceDB off this machine needs TLS", code="spicedb.no_tls", hint="set CORTEX_SPICEDB_TLS=true"
        )
    return insecure_bearer_token_credentials(token)
