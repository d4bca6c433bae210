"""SpiceDB's gRPC API in front of its library: checks the token, keeps checks closed until the reload, forwards calls."""

from __future__ import annotations

import hmac
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from cluster.engines.spicedb_library import UNARY, CallFailed, SpiceDBLibrary
from cluster.engines.spicedb_pointers import Pointers

# Our own call: the reload is whole, so checks may be answered.
OPEN_METHOD = "/cortex.engines.v1.Gate/Open"
# gRPC health checking protocol, grpc.health.v1: a message whose field 1 is the serving status.
HEALTH_METHOD = "/grpc.health.v1.Health/Check"
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"

_FORWARDED = ("/authzed.api.v1.PermissionsService/", "/authzed.api.v1.WatchService/")
_CLIENT_STREAMS = "/authzed.api.v1.PermissionsService/ImportBulkRelationships"
# Reading tuples back decides nothing: a reload compares them with the mirror.
_OPEN_WHILE_LOADING = (
    "WriteRelationships",
    "DeleteRelationships",
    "ImportBulkRelationships",
    "ReadRelationships",
)
_CODES = {code.name.replace("_", "").lower(): code for code in grpc.StatusCode}
_LOADING = "permissions are still being loaded"

_THREADS = 64
_STREAMS = 32  # streams hold a thread each; half are left for checks
_MESSAGE_BYTES = 16 * 2**20

Method = Callable[[Any, grpc.ServicerContext], Any]


class Gate:
    """Whether checks are answered: closed at first, opened once."""

    def __init__(self) -> None:
        self._opened = threading.Event()

    def open(self) -> None:
        """Answer checks from now on."""
        self._opened.set()

    @property
    def is_open(self) -> bool:
        """Whether the reload is whole."""
        return self._opened.is_set()


class Facade(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Routes each call by its method's name."""

    def __init__(self, library: SpiceDBLibrary, gate: Gate, token: str) -> None:
        self._library = library
        self._gate = gate
        self._expected = f"Bearer {token}".encode()
        self._channel = grpc.insecure_channel(library.streaming_address)
        self._streams = threading.BoundedSemaphore(_STREAMS)
        self._pointers = Pointers()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call; None answers UNIMPLEMENTED."""
        method = details.method
        if method == HEALTH_METHOD:
            return grpc.unary_unary_rpc_method_handler(self._health)
        if not self._is_authentic(details):
            return _refuse(grpc.StatusCode.UNAUTHENTICATED, "the preshared token is missing or wrong")
        if method == OPEN_METHOD:
            return grpc.unary_unary_rpc_method_handler(self._open)
        if not self._gate.is_open and _reads_permissions(method):
            return _refuse(grpc.StatusCode.FAILED_PRECONDITION, _LOADING)
        if method in UNARY:
            return grpc.unary_unary_rpc_method_handler(self._unary(method))
        if method == _CLIENT_STREAMS:
            return grpc.stream_unary_rpc_method_handler(self._client_stream(method))
        if method.startswith(_FORWARDED):
            return grpc.unary_stream_rpc_method_handler(self._server_stream(method))
        return None

    def _is_authentic(self, details: grpc.HandlerCallDetails) -> bool:
        metadata = dict(details.invocation_metadata or ())
        return hmac.compare_digest(str(metadata.get("authorization", "")).encode(), self._expected)

    def _health(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        return _SERVING if self._gate.is_open else _NOT_SERVING

    def _open(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self._gate.open()
        return b""

    def _unary(self, method: str) -> Method:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            if not context.is_active():
                return b""  # the caller gave up while this waited for a thread; nobody reads the answer
            try:
                return self._answer(method, request)
            except CallFailed as error:
                code = _CODES.get(error.code.lower(), grpc.StatusCode.UNKNOWN)
                context.abort(code, error.message)
                raise  # unreachable: abort raises

        return answer

    def _answer(self, method: str, request: bytes) -> bytes:
        """Call the library, through the table of pointers where that has a part."""

        def send(message: bytes) -> bytes:
            return self._library.call(method, message)

        match method.rpartition("/")[2]:
            case "CheckBulkPermissions":
                return self._pointers.check(request, send)
            case "WriteRelationships":
                return self._pointers.write(request, send)
            case "WriteSchema":
                return self._pointers.write_schema(request, send)
            case "DeleteRelationships":
                self._pointers.give_up()
        return send(request)

    def _server_stream(self, method: str) -> Method:
        def stream(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            if not self._streams.acquire(blocking=False):
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{_STREAMS} streams are open already")
            try:
                call = self._channel.unary_stream(method)(request)
                context.add_callback(call.cancel)  # a client that went away ends the work
                yield from self._relayed(call, context)
            finally:
                self._streams.release()

        return stream

    def _client_stream(self, method: str) -> Method:
        def collect(requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            self._pointers.give_up()
            try:
                answer: bytes = self._channel.stream_unary(method)(requests)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
            return answer

        return collect

    def _relayed(self, call: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
        try:
            yield from call
        except grpc.RpcError as error:
            if context.is_active():
                context.abort(error.code(), error.details())


def _reads_permissions(method: str) -> bool:
    """Say whether a call's answer depends on tuples: while they are loaded it could allow what a later one denies."""
    return method.startswith(_FORWARDED) and not re.search(rf"/({'|'.join(_OPEN_WHILE_LOADING)})$", method)


def _refuse(code: grpc.StatusCode, message: str) -> grpc.RpcMethodHandler:
    def abort(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.abort(code, message)
        return b""  # unreachable: abort raises

    return grpc.unary_unary_rpc_method_handler(abort)


def make_server(facade: Facade, port: int) -> grpc.Server:
    """Make a gRPC server that is bound to a loopback port; raises RuntimeError if it is taken."""
    options = (
        ("grpc.so_reuseport", 0),  # a second server on the port is an error, not a coin toss
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    )
    server = grpc.server(ThreadPoolExecutor(_THREADS, "spicedb"), handlers=(facade,), options=options)
    server.add_insecure_port(f"127.0.0.1:{port}")
    return server
