"""The embedded SpiceDB as a program: closed until loaded, closed to strangers, faithful to errors and streams."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from authzed.api.v1 import (
    CheckBulkPermissionsPair,
    CheckBulkPermissionsRequest,
    CheckBulkPermissionsResponse,
    CheckBulkPermissionsResponseItem,
    CheckPermissionRequest,
    CheckPermissionResponse,
    Consistency,
    LookupResourcesRequest,
    ObjectReference,
    ReadRelationshipsRequest,
    RelationshipFilter,
    SubjectReference,
    WatchRequest,
    ZedToken,
)
from authzed.api.v1.permission_service_pb2_grpc import PermissionsServiceStub
from authzed.api.v1.watch_service_pb2_grpc import WatchServiceStub

from adapters.spicedb.channels import open_channel
from adapters.spicedb.checker import SpiceDBChecker
from adapters.spicedb.reader import SpiceDBReader
from adapters.spicedb.slices import view_permission
from adapters.spicedb.writer import SpiceDBWriter
from cortex.errors import ChecksUnavailable, Conflict, Misconfigured, Unavailable
from cortex.ports.outbox import Relationship
from cortex.principals import Principal
from tests.services.spicedb import TOKEN, Server, running, start

pytestmark = pytest.mark.services

ANN = Principal("t", "ann")
TUPLES = [
    Relationship("group", "t/g", "member", "user", "t/ann"),
    Relationship("profile", "t/1", "viewer", "group", "t/g", "member"),
    Relationship("document", "t/d", "access", "profile", "t/1"),
]
CHECK = CheckPermissionRequest(
    resource=ObjectReference(object_type="document", object_id="t/d"),
    permission=view_permission("t/ann"),
    subject=SubjectReference(object=ObjectReference(object_type="user", object_id="t/ann")),
    consistency=Consistency(fully_consistent=True),
)
READ = ReadRelationshipsRequest(
    relationship_filter=RelationshipFilter(resource_type="group"),
    consistency=Consistency(fully_consistent=True),
)
LOOKUP = LookupResourcesRequest(
    resource_object_type="document",
    permission=view_permission("t/ann"),
    subject=SubjectReference(object=ObjectReference(object_type="user", object_id="t/ann")),
    consistency=Consistency(fully_consistent=True),
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path) as started:
        yield started


def code_of(call: object, *arguments: object) -> grpc.StatusCode:
    """The status that a call, unary or streaming, fails with."""
    with pytest.raises(grpc.RpcError) as failed:
        answer = call(*arguments, timeout=20)  # type: ignore[operator]
        list(answer)
    return failed.value.code()


async def test_nothing_is_read_before_the_reload_is_whole(server: Server) -> None:
    """While it loads, writes are taken, tuples are read back to compare them, and every question fails; then none does."""
    channel, writer = open_channel(server.url, TOKEN, False), SpiceDBWriter(server.url, TOKEN)
    checker = SpiceDBChecker(server.url, TOKEN)
    questions = PermissionsServiceStub(channel)
    writer.write_schema()
    token = writer.apply(TUPLES, [])
    for call, request in (
        (questions.CheckPermission, CHECK),
        (questions.LookupResources, LOOKUP),
        (WatchServiceStub(channel).Watch, WatchRequest()),
    ):
        assert code_of(call, request) is grpc.StatusCode.FAILED_PRECONDITION
    reader = SpiceDBReader(server.url, TOKEN)
    assert set(reader.relationships()) == set(TUPLES)
    with pytest.raises(Unavailable):
        reader.ping()
    with pytest.raises(ChecksUnavailable):
        await checker.ping()
    with pytest.raises(ChecksUnavailable):
        await checker.allowed(ANN, ["d"], token)
    writer.open_for_checks()
    reader.ping()
    reader.close()
    await checker.ping()
    assert await checker.allowed(ANN, ["d", "e"], token) == {"d"}
    assert [found.resource_object_id for found in questions.LookupResources(LOOKUP)] == ["t/d"]
    assert len(list(questions.ReadRelationships(READ))) == 1
    await checker.close()
    writer.close()
    channel.close()


async def test_strangers_are_refused(server: Server) -> None:
    """Without the token nothing is answered, written or opened, streaming or not."""
    channel, stranger = open_channel(server.url, "wrong", False), SpiceDBWriter(server.url, "wrong")
    questions = PermissionsServiceStub(channel)
    assert code_of(questions.CheckPermission, CHECK) is grpc.StatusCode.UNAUTHENTICATED
    assert code_of(questions.LookupResources, LOOKUP) is grpc.StatusCode.UNAUTHENTICATED
    for attempt in (
        stranger.write_schema,
        stranger.open_for_checks,
        lambda: stranger.apply(TUPLES, []),
    ):
        with pytest.raises(Misconfigured):
            attempt()
    with pytest.raises(ChecksUnavailable):
        await SpiceDBChecker(server.url, TOKEN).ping()  # it was not opened
    stranger.close()
    channel.close()


def test_streams_end_with_their_clients(server: Server) -> None:
    """Streams that clients leave free their places: far more than fit at once can be opened one after another."""
    channel, writer = open_channel(server.url, TOKEN, False), SpiceDBWriter(server.url, TOKEN)
    written = writer.write_schema()
    writer.open_for_checks()
    for number in range(80):
        # From the last write on: a stream without a beginning would miss what is written before it has begun.
        since = WatchRequest(optional_start_cursor=ZedToken(token=written))
        watch = WatchServiceStub(channel).Watch(since, timeout=30)
        row = Relationship("group", f"t/{number}", "member", "user", "t/ann")
        written = writer.apply([row], [])
        assert next(watch).updates
        watch.cancel()
    assert len(list(PermissionsServiceStub(channel).ReadRelationships(READ, timeout=20))) == 80
    writer.close()
    channel.close()


def test_it_ends_cleanly_on_sigterm(server: Server) -> None:
    """SIGTERM ends it with exit code 0, and the folder of its socket is gone."""
    folder = Path(tempfile.gettempdir()) / f"cortex-spicedb-{os.geteuid()}-{server.url.rpartition(':')[2]}"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert server.end() == 0
    assert not folder.exists()


def test_a_taken_port_and_a_missing_token_are_said(server: Server, tmp_path: Path) -> None:
    """A second server on the port, and one without a token, end with the exit codes of their errors."""
    port = int(server.url.rpartition(":")[2])
    assert start(tmp_path, port, CORTEX_SPICEDB_TOKEN=TOKEN).wait(timeout=60) == Conflict.exit_code
    assert start(tmp_path, port + 1).wait(timeout=60) == Misconfigured.exit_code
    channel, writer = open_channel(server.url, TOKEN, False), SpiceDBWriter(server.url, TOKEN)
    writer.write_schema()
    writer.open_for_checks()
    # The second one took nothing from the first, whose streams need its socket.
    assert list(PermissionsServiceStub(channel).ReadRelationships(READ, timeout=20)) == []
    writer.close()
    channel.close()
    said = (tmp_path / "spicedb.log").read_text()
    assert f"port {port} is taken" in said
    assert "preshared token" in said
    assert TOKEN not in said


async def test_a_server_that_is_down_denies() -> None:
    """Nobody listening: checks are unavailable at once, and so are writes after a few attempts."""
    checker = SpiceDBChecker("127.0.0.1:9", TOKEN)
    with pytest.raises(ChecksUnavailable):
        await checker.allowed(ANN, ["d"], "token")
    with pytest.raises(ChecksUnavailable):
        await checker.ping()
    await checker.close()


class Silent(grpc.GenericRpcHandler):
    """Takes every call and keeps it until the test is over."""

    def __init__(self) -> None:
        self.is_over = threading.Event()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.is_over.wait(20) and b"")


async def test_a_server_that_never_answers_denies() -> None:
    """A check that takes longer than its limit refuses, with a code that says why."""
    silent = Silent()
    server = grpc.server(ThreadPoolExecutor(1), handlers=(silent,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    checker = SpiceDBChecker(f"127.0.0.1:{port}", TOKEN)
    with pytest.raises(ChecksUnavailable) as refused:
        await checker.allowed(ANN, ["d"], "token")
    assert refused.value.error_code == "permissions.slow"
    await checker.close()
    silent.is_over.set()
    server.stop(None).wait()


YES = CheckBulkPermissionsResponseItem(permissionship=CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION)
Pairs = list[CheckBulkPermissionsPair]


class Untrue(grpc.GenericRpcHandler):
    """Allows everything that it is asked, and then changes its answer."""

    def __init__(self, twist: Callable[[Pairs], Pairs]) -> None:
        self._twist = twist

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        items = CheckBulkPermissionsRequest.FromString(request).items
        pairs = self._twist([CheckBulkPermissionsPair(request=item, item=YES) for item in items])
        return CheckBulkPermissionsResponse(pairs=pairs).SerializeToString()


def each_with(path: str, value: str) -> Callable[[Pairs], Pairs]:
    """Change one field of the last pair's request."""

    def twist(pairs: Pairs) -> Pairs:
        *parents, field = path.split(".")
        message = pairs[-1].request
        for name in parents:
            message = getattr(message, name)
        setattr(message, field, value)
        return pairs

    return twist


def with_context(pairs: Pairs) -> Pairs:
    pairs[-1].request.context.update({"day": "monday"})
    return pairs


def as_error(pairs: Pairs) -> Pairs:
    pairs[-1].error.code = 13
    return pairs


def as_nothing(pairs: Pairs) -> Pairs:
    pairs[-1].ClearField("item")
    return pairs


@pytest.mark.parametrize(
    "twist",
    [
        lambda pairs: pairs[::-1],
        lambda pairs: pairs[:-1],
        lambda pairs: [*pairs, pairs[0]],
        lambda pairs: [pairs[0], pairs[0]],
        each_with("resource.object_type", "profile"),
        each_with("resource.object_id", "t/z"),
        each_with("permission", "view_00"),
        each_with("subject.object.object_type", "group"),
        each_with("subject.object.object_id", "t/ben"),
        each_with("subject.optional_relation", "member"),
        with_context,
        as_error,
        as_nothing,
    ],
)
async def test_an_answer_to_another_question_denies(twist: Callable[[Pairs], Pairs]) -> None:
    """Whatever part of an answer is about something else, or is no verdict, nothing of it is used."""
    server = grpc.server(ThreadPoolExecutor(1), handlers=(Untrue(twist),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    checker = SpiceDBChecker(f"127.0.0.1:{port}", TOKEN)
    with pytest.raises(ChecksUnavailable):
        await checker.allowed(ANN, ["d", "e"], "token")
    await checker.close()
    server.stop(None).wait()


async def test_only_a_plain_yes_allows() -> None:
    """A no, a condition and a verdict that is not stated deny their document and no other."""

    def twist(pairs: Pairs) -> Pairs:
        for pair, verdict in zip(pairs[1:], (0, 1, 3), strict=True):
            pair.item.permissionship = verdict  # type: ignore[assignment]
        return pairs

    server = grpc.server(ThreadPoolExecutor(1), handlers=(Untrue(twist),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    checker = SpiceDBChecker(f"127.0.0.1:{port}", TOKEN)
    assert await checker.allowed(ANN, ["d", "e", "f", "g"], "token") == {"d"}
    await checker.close()
    server.stop(None).wait()


def test_plain_text_stays_on_this_machine() -> None:
    """A SpiceDB elsewhere is refused without TLS, and so is one without a token."""
    with pytest.raises(Misconfigured) as refused:
        SpiceDBWriter("spicedb.example:50051", TOKEN)
    assert refused.value.error_code == "spicedb.no_tls"
    with pytest.raises(Misconfigured):
        SpiceDBWriter("127.0.0.1:50051", "")
