"""The layout that makes checks fast changes no answer: sliced tuples and the table of pointers against the plain schema."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from authzed.api.v1 import (
    CheckBulkPermissionsRequest,
    CheckBulkPermissionsRequestItem,
    CheckPermissionResponse,
    Consistency,
    DeleteRelationshipsRequest,
    ObjectReference,
    RelationshipFilter,
    RelationshipUpdate,
    SubjectReference,
    WriteRelationshipsRequest,
    WriteSchemaRequest,
)
from authzed.api.v1 import Relationship as Tuple
from authzed.api.v1.permission_service_pb2_grpc import PermissionsServiceStub
from authzed.api.v1.schema_service_pb2_grpc import SchemaServiceStub

from adapters.spicedb import slices
from adapters.spicedb.channels import open_channel
from adapters.spicedb.checker import SpiceDBChecker
from adapters.spicedb.writer import SpiceDBWriter
from cortex.errors import InputError
from cortex.ids import tenant_object_id
from cortex.ports.outbox import Relationship
from cortex.principals import Principal
from tests.services.spicedb import TOKEN, running

pytestmark = pytest.mark.services

REFERENCE = Path(slices.__file__).with_name("schema.zed")
USERS = [f"user{n}" for n in range(5)]
GROUPS = [f"group{n}" for n in range(5)]
PROFILES = [str(n) for n in range(6)]
DOCUMENTS = [f"doc{n}" for n in range(8)]


class Reference:
    """A SpiceDB that holds `schema.zed` and the tuples as they are."""

    def __init__(self, url: str) -> None:
        self._channel = open_channel(url, TOKEN, False)
        self._permissions = PermissionsServiceStub(self._channel)
        SchemaServiceStub(self._channel).WriteSchema(
            WriteSchemaRequest(schema=REFERENCE.read_text()), timeout=20
        )

    def close(self) -> None:
        self._channel.close()

    def apply(self, touch: list[Relationship], delete: list[Relationship]) -> None:
        updates = [
            RelationshipUpdate(operation=operation, relationship=plain(each))
            for operation, rows in (
                (RelationshipUpdate.OPERATION_TOUCH, touch),
                (RelationshipUpdate.OPERATION_DELETE, delete),
            )
            for each in rows
        ]
        self._permissions.WriteRelationships(WriteRelationshipsRequest(updates=updates), timeout=20)

    def allowed(self, tenant_id: str, user_id: str) -> set[str]:
        person = ObjectReference(object_type="user", object_id=tenant_object_id(tenant_id, user_id))
        items = [
            CheckBulkPermissionsRequestItem(
                resource=ObjectReference(object_type="document", object_id=tenant_object_id(tenant_id, each)),
                permission="view",
                subject=SubjectReference(object=person),
            )
            for each in DOCUMENTS
        ]
        asked = CheckBulkPermissionsRequest(items=items, consistency=Consistency(fully_consistent=True))
        pairs = self._permissions.CheckBulkPermissions(asked, timeout=20).pairs
        yes = CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION
        return {name for name, pair in zip(DOCUMENTS, pairs, strict=True) if pair.item.permissionship == yes}


def plain(one: Relationship) -> Tuple:
    return Tuple(
        resource=ObjectReference(object_type=one.resource_type, object_id=one.resource_id),
        relation=one.relation,
        subject=SubjectReference(
            object=ObjectReference(object_type=one.subject_type, object_id=one.subject_id),
            optional_relation=one.subject_relation,
        ),
    )


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Two engines of their own, open for checks."""
    folder = tmp_path_factory.mktemp
    with running(folder("reference")) as reference, running(folder("laid_out")) as laid_out:
        for server in (reference, laid_out):
            writer = SpiceDBWriter(server.url, TOKEN)
            writer.write_schema()
            writer.open_for_checks()
            writer.close()
        yield reference.url, laid_out.url


def random_tuple(dice: random.Random, tenant_id: str) -> Relationship:
    """A tuple of any kind. Groups hold earlier groups only: how a circle ends is SpiceDB's depth limit, and tested elsewhere."""

    def made(kind: str, name: str, relation: str, subject_type: str, subject: str) -> Relationship:
        userset = "member" if subject_type == "group" else ""
        ids = [tenant_object_id(tenant_id, each) for each in (name, subject)]
        return Relationship(kind, ids[0], relation, subject_type, ids[1], userset)

    roll = dice.random()
    if roll < 0.4:
        return made("document", dice.choice(DOCUMENTS), "access", "profile", dice.choice(PROFILES))
    is_user = dice.random() < 0.5
    if roll < 0.7:
        number = dice.randrange(len(GROUPS))
        if is_user or number == 0:
            return made("group", GROUPS[number], "member", "user", dice.choice(USERS))
        return made("group", GROUPS[number], "member", "group", GROUPS[dice.randrange(number)])
    relation = "viewer" if dice.random() < 0.75 else "denied"
    subject = ("user", dice.choice(USERS)) if is_user else ("group", dice.choice(GROUPS))
    return made("profile", dice.choice(PROFILES), relation, *subject)


@pytest.mark.parametrize("seed", range(12))
async def test_answers_are_those_of_the_plain_schema(urls: tuple[str, str], seed: int) -> None:
    """On random graphs, after each of several random writes, everybody is allowed exactly what `schema.zed` allows.

    Each is asked twice, the second time out of the engine's memory, and every other write is of pointers alone, which
    leaves that memory as it is.
    """
    dice, tenant_id = random.Random(seed), f"t{seed}"
    reference, writer = Reference(urls[0]), SpiceDBWriter(urls[1], TOKEN)
    checker = SpiceDBChecker(urls[1], TOKEN)
    held: list[Relationship] = []
    n_allowed = 0
    for number in range(10):
        is_any = number % 2 == 0
        old = [each for each in held if is_any or each.resource_type == "document"]
        delete = dice.sample(old, min(len(old), dice.randrange(6)))
        drawn = [random_tuple(dice, tenant_id) for _ in range(dice.randrange(8, 16) if is_any else 40)]
        drawn = [each for each in drawn if is_any or each.resource_type == "document"]
        touch = [each for each in dict.fromkeys(drawn) if each not in delete]
        reference.apply(touch, delete)
        token = writer.apply(touch, delete)
        held = [each for each in dict.fromkeys(held + touch) if each not in delete]
        for user_id in USERS:
            expected = reference.allowed(tenant_id, user_id)
            for _ in range(2):
                assert await checker.allowed(Principal(tenant_id, user_id), DOCUMENTS, token) == expected
            n_allowed += len(expected)
    assert n_allowed > 0
    await checker.close()
    writer.close()
    reference.close()


def row(tenant_id: str, kind: str, name: str, relation: str, subject_type: str, subject: str) -> Relationship:
    ids = [tenant_object_id(tenant_id, each) for each in (name, subject)]
    return Relationship(
        kind, ids[0], relation, subject_type, ids[1], "member" if subject_type == "group" else ""
    )


async def test_whoever_leaves_a_group_is_denied_at_once(urls: tuple[str, str]) -> None:
    """However often she was let in before: the first check after the write that takes her out denies, and so back again."""
    tenant_id, ann = "leaving", Principal("leaving", "ann")
    joined = row(tenant_id, "group", "eng", "member", "user", "ann")
    denied = row(tenant_id, "profile", "1", "denied", "user", "ann")
    writer, checker = SpiceDBWriter(urls[1], TOKEN), SpiceDBChecker(urls[1], TOKEN)
    held = [
        row(tenant_id, "profile", "1", "viewer", "group", "eng"),
        row(tenant_id, "document", "d", "access", "profile", "1"),
    ]
    writer.apply(held, [])
    for touch, delete, is_allowed in (
        ([joined], [], True),
        ([], [joined], False),
        ([joined], [], True),
        ([denied], [], False),
        ([], [denied], True),
        ([], held[:1], False),
        (held[:1], [], True),
        ([], held[1:], False),
        (held[1:], [], True),
    ) * 3:
        token = writer.apply(touch, delete)
        for asked_for in (token, "", token):
            assert await checker.allowed(ann, ["d"], asked_for) == ({"d"} if is_allowed else set())
    writer.close()
    await checker.close()


async def test_a_moved_document_is_never_seen_in_between(urls: tuple[str, str]) -> None:
    """Ann joins a group in the very write in which the document leaves it: no check, whenever it runs, lets her in.

    Before the write the group sees the document and she is not in it; after it she is, and another profile holds. What
    the engine remembers of the group's profile, out of checks of a document that stays, must not outlive the write.
    """
    tenant_id = "moving"

    joined = row(tenant_id, "group", "eng", "member", "user", "ann")
    names = [f"doc{n}" for n in range(20)]
    inside = [row(tenant_id, "document", name, "access", "profile", "1") for name in names]
    outside = [row(tenant_id, "document", name, "access", "profile", "2") for name in names]
    writer = SpiceDBWriter(urls[1], TOKEN)
    stays = row(tenant_id, "document", "stays", "access", "profile", "1")
    writer.apply([row(tenant_id, "profile", "1", "viewer", "group", "eng"), stays, *inside], [])
    is_over = threading.Event()

    def move() -> None:
        for _ in range(80):
            writer.apply([joined, *outside], inside)
            writer.apply(inside, [joined, *outside])
        is_over.set()

    moving = threading.Thread(target=move)
    moving.start()
    checker, n_checks = SpiceDBChecker(urls[1], TOKEN), 0
    try:
        while not is_over.is_set():
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(checker.allowed(Principal(tenant_id, "ann"), each, ""))
                    for each in (names, ["stays"], [*names, "stays"], names)
                ]
            assert frozenset().union(*(task.result() for task in asked)) <= {"stays"}
            n_checks += 4
    finally:
        moving.join()
        await checker.close()
        writer.close()
    assert n_checks >= 20


def test_a_remembered_answer_says_how_fresh_it_is(urls: tuple[str, str]) -> None:
    """Its token is that of the newest write, as it is in an answer of the library."""
    tenant_id = "tokens"
    writer, channel = SpiceDBWriter(urls[1], TOKEN), open_channel(urls[1], TOKEN, False)
    name, person = tenant_object_id(tenant_id, "d"), tenant_object_id(tenant_id, "ann")
    asked = CheckBulkPermissionsRequest(
        items=[
            CheckBulkPermissionsRequestItem(
                resource=ObjectReference(object_type="document", object_id=name),
                permission=slices.view_permission(person),
                subject=SubjectReference(object=ObjectReference(object_type="user", object_id=person)),
            )
        ],
        consistency=Consistency(fully_consistent=True),
    )
    permissions = PermissionsServiceStub(channel)
    for number in range(2):
        token = writer.apply([row(tenant_id, "document", "d", "access", "profile", "1")], [])
        for _ in range(2):
            assert permissions.CheckBulkPermissions(asked, timeout=20).checked_at.token == token
        writer.apply([row(tenant_id, "group", "g", "member", "user", str(number))], [])
    writer.close()
    channel.close()


async def test_changes_that_the_table_cannot_follow_count(urls: tuple[str, str]) -> None:
    """A refused write changes nothing, and tuples deleted by a filter are gone for the next check.

    The last test of this engine: it follows no pointers any more.
    """
    tenant_id, principal = "filtered", Principal("filtered", "ann")
    rows = [
        Relationship("profile", "filtered/1", "viewer", "user", "filtered/ann"),
        Relationship("document", "filtered/d", "access", "profile", "filtered/1"),
    ]
    writer, checker = SpiceDBWriter(urls[1], TOKEN), SpiceDBChecker(urls[1], TOKEN)
    token = writer.apply(rows, [])
    with pytest.raises(InputError):
        writer.apply(rows[1:], rows[1:])
    assert await checker.allowed(principal, ["d"], token) == {"d"}
    channel = open_channel(urls[1], TOKEN, False)
    everything = RelationshipFilter(
        resource_type="document", optional_resource_id=tenant_object_id(tenant_id, "d")
    )
    deleted = PermissionsServiceStub(channel).DeleteRelationships(
        DeleteRelationshipsRequest(relationship_filter=everything), timeout=20
    )
    assert await checker.allowed(principal, ["d"], deleted.deleted_at.token) == frozenset()
    channel.close()
    writer.close()
    await checker.close()


def test_a_tuple_that_ends_by_itself_ends_for_checks(tmp_path: Path) -> None:
    """An expiry needs no write: what was let in a moment ago, again and again, is denied when its time is over."""
    schema = """use expiration

definition user {}

definition profile {
	relation viewer: user with expiration
	permission view = viewer
}

definition document {
	relation access: profile
	permission view = access->view
}
"""
    expiring = Tuple(
        resource=ObjectReference(object_type="profile", object_id="1"),
        relation="viewer",
        subject=SubjectReference(object=ObjectReference(object_type="user", object_id="ann")),
    )
    pointer = plain(Relationship("document", "d", "access", "profile", "1"))
    question = CheckBulkPermissionsRequest(
        items=[
            CheckBulkPermissionsRequestItem(
                resource=pointer.resource, permission="view", subject=expiring.subject
            )
        ],
        consistency=Consistency(fully_consistent=True),
    )
    with running(tmp_path) as server:
        writer, channel = SpiceDBWriter(server.url, TOKEN), open_channel(server.url, TOKEN, False)
        writer.open_for_checks()
        SchemaServiceStub(channel).WriteSchema(WriteSchemaRequest(schema=schema), timeout=20)
        permissions = PermissionsServiceStub(channel)
        end = time.time() + 3
        expiring.optional_expires_at.FromNanoseconds(int(end * 1e9))
        touch = RelationshipUpdate.OPERATION_TOUCH
        updates = [RelationshipUpdate(operation=touch, relationship=each) for each in (expiring, pointer)]
        permissions.WriteRelationships(WriteRelationshipsRequest(updates=updates), timeout=20)
        yes = CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION

        def is_allowed() -> bool:
            pairs = permissions.CheckBulkPermissions(question, timeout=20).pairs
            return bool(pairs[0].item.permissionship == yes)

        assert is_allowed() and is_allowed()
        time.sleep(max(0.0, end - time.time()) + 0.5)
        assert not is_allowed()
        writer.close()
        channel.close()
