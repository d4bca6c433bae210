"""The table of where documents point: when it answers, and when the library must."""

from __future__ import annotations

import pytest
from authzed.api.v1 import (
    CheckBulkPermissionsPair,
    CheckBulkPermissionsRequest,
    CheckBulkPermissionsRequestItem,
    CheckBulkPermissionsResponse,
    CheckBulkPermissionsResponseItem,
    CheckPermissionResponse,
    Consistency,
    ObjectReference,
    Relationship,
    RelationshipUpdate,
    SubjectReference,
    WriteRelationshipsRequest,
    WriteSchemaRequest,
    ZedToken,
)

from adapters.spicedb.slices import N_SLICES, sliced_schema
from cluster.engines.spicedb_pointers import Pointers, read_arrows

TOUCH, DELETE = RelationshipUpdate.OPERATION_TOUCH, RelationshipUpdate.OPERATION_DELETE
YES = CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION
NO = CheckPermissionResponse.PERMISSIONSHIP_NO_PERMISSION
FULLY = Consistency(fully_consistent=True)


class Library:
    """Records what it is asked, and allows the profiles it is told to."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.asked: list[list[str]] = []
        self.on_check = lambda: None

    def check(self, message: bytes) -> bytes:
        request = CheckBulkPermissionsRequest.FromString(message)
        self.asked.append([f"{i.resource.object_type}:{i.resource.object_id}" for i in request.items])
        self.on_check()
        pairs = [
            CheckBulkPermissionsPair(
                request=item,
                item=CheckBulkPermissionsResponseItem(
                    permissionship=YES if item.resource.object_id in self.allowed else NO
                ),
            )
            for item in request.items
        ]
        return CheckBulkPermissionsResponse(checked_at=ZedToken(token="now"), pairs=pairs).SerializeToString()


def pointers(**documents: str) -> Pointers:
    """A table under the real schema, with one profile for each document."""
    table = Pointers()
    schema = WriteSchemaRequest(schema=sliced_schema()).SerializeToString()
    table.write_schema(schema, lambda message: b"")
    for document, profile in documents.items():
        write(table, change(TOUCH, document, profile))
    return table


def change(operation: int, document: str, profile: str) -> RelationshipUpdate:
    return RelationshipUpdate(
        operation=operation,  # type: ignore[arg-type]
        relationship=Relationship(
            resource=ObjectReference(object_type="document", object_id=document),
            relation="access",
            subject=SubjectReference(object=ObjectReference(object_type="profile", object_id=profile)),
        ),
    )


def write(table: Pointers, *updates: RelationshipUpdate) -> None:
    table.write(WriteRelationshipsRequest(updates=updates).SerializeToString(), lambda message: b"")


def request(*documents: str, consistency: Consistency = FULLY) -> bytes:
    person = SubjectReference(object=ObjectReference(object_type="user", object_id="ann"))
    items = [
        CheckBulkPermissionsRequestItem(
            resource=ObjectReference(object_type="document", object_id=each),
            permission="view_07",
            subject=person,
        )
        for each in documents
    ]
    return CheckBulkPermissionsRequest(items=items, consistency=consistency).SerializeToString()


def verdicts(answer: bytes) -> list[bool]:
    return [pair.item.permissionship == YES for pair in CheckBulkPermissionsResponse.FromString(answer).pairs]


def test_profiles_are_asked_once_for_all_their_documents() -> None:
    """Four documents of two profiles are one question about two profiles; an unknown document is denied unasked."""
    table, library = pointers(a="1", b="1", c="2", d="2"), Library("1")
    answer = table.check(request("a", "b", "c", "unknown"), library.check)
    assert verdicts(answer) == [True, True, False, False]
    assert library.asked == [["profile:1", "profile:2"]]
    pairs = CheckBulkPermissionsResponse.FromString(answer).pairs
    assert [pair.request.resource.object_id for pair in pairs] == ["a", "b", "c", "unknown"]


def test_moves_and_removals_are_followed() -> None:
    """A document that moved is asked for by its new profile; one that lost its tuple by none."""
    table, library = pointers(a="1", b="1"), Library("1", "2")
    write(table, change(DELETE, "a", "1"), change(TOUCH, "a", "2"), change(DELETE, "b", "1"))
    assert verdicts(table.check(request("a", "b"), library.check)) == [True, False]
    assert library.asked == [["profile:2"]]


def test_a_change_during_the_check_leaves_it_to_the_library() -> None:
    """An entry that changed and changed back while the library answered is not trusted: the question goes on as it came."""
    table, library = pointers(a="1"), Library("1", "a")

    def change_and_back() -> None:
        library.on_check = lambda: None
        write(table, change(DELETE, "a", "1"))
        write(table, change(TOUCH, "a", "1"))

    library.on_check = change_and_back
    assert verdicts(table.check(request("a"), library.check)) == [True]
    assert library.asked == [["profile:1"], ["document:a"]]


def test_an_entry_under_change_is_asked_of_the_library() -> None:
    """While a write is under way, and for good when it fails, the library alone knows."""
    table, library = pointers(a="1", b="1"), Library("1", "a")

    def fail(message: bytes) -> bytes:
        table.check(request("a"), library.check)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        table.write(WriteRelationshipsRequest(updates=[change(DELETE, "a", "1")]).SerializeToString(), fail)
    table.check(request("a"), library.check)
    write(table, change(TOUCH, "a", "1"))
    table.check(request("a"), library.check)
    table.check(request("b"), library.check)
    assert library.asked == [["document:a"]] * 3 + [["profile:1"]]


def test_old_states_and_foreign_tuples_are_asked_of_the_library() -> None:
    """A check at one old state, and any after a change that the table cannot hold, go on as they came."""
    table, library = pointers(a="1"), Library("1", "a")
    old = Consistency(at_exact_snapshot=ZedToken(token="then"))
    table.check(request("a", consistency=old), library.check)
    assert library.asked == [["document:a"]]
    foreign = change(TOUCH, "b", "1")
    foreign.relationship.optional_caveat.caveat_name = "in_office_hours"
    write(table, foreign)
    table.check(request("a"), library.check)
    assert library.asked == [["document:a"]] * 2


def test_arrows_are_read_from_our_schema_only() -> None:
    """Every slice's permission is one arrow; documents that mean anything more are left to the library."""
    arrows = read_arrows(sliced_schema())
    assert arrows == {f"view_{n:02d}": f"view_{n:02d}" for n in range(N_SLICES)}
    widened = sliced_schema().replace(
        "relation access: profile\n", "relation access: profile\n\trelation owner: user\n"
    )
    assert read_arrows(widened) == {}
    assert read_arrows(sliced_schema().replace("= access->view_07", "= access->view_07 + access")) == {}
    assert (
        read_arrows(
            sliced_schema().replace("relation access: profile\n", "relation access: profile | user\n")
        )
        == {}
    )
    assert read_arrows("definition user {}") == {}
