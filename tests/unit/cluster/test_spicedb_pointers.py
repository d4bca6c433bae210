"""The table of where documents point: when it answers, and when the library must."""

from __future__ import annotations

import random
from collections.abc import Callable

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
    WriteRelationshipsResponse,
    WriteSchemaRequest,
    ZedToken,
)

from adapters.spicedb.slices import N_SLICES, sliced_schema
from cluster.engines import spicedb_pointers
from cluster.engines.spicedb_pointers import Pointers, read_arrows

TOUCH, DELETE = RelationshipUpdate.OPERATION_TOUCH, RelationshipUpdate.OPERATION_DELETE
YES = CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION
NO = CheckPermissionResponse.PERMISSIONSHIP_NO_PERMISSION
PERHAPS = CheckPermissionResponse.PERMISSIONSHIP_CONDITIONAL_PERMISSION
FULLY = Consistency(fully_consistent=True)


class Library:
    """Records what it is asked, and allows the profiles it is told to; `1@ben` allows profile 1 to Ben alone."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed
        self.asked: list[list[str]] = []
        self.on_check: Callable[[], None] = lambda: None
        self.unless_allowed: dict[str, object] = {"item": CheckBulkPermissionsResponseItem(permissionship=NO)}

    def check(self, message: bytes) -> bytes:
        request = CheckBulkPermissionsRequest.FromString(message)
        self.asked.append([f"{i.resource.object_type}:{i.resource.object_id}" for i in request.items])
        self.on_check()
        yes = {"item": CheckBulkPermissionsResponseItem(permissionship=YES)}
        pairs = [
            CheckBulkPermissionsPair(request=item, **(yes if self.allows(item) else self.unless_allowed))  # type: ignore[arg-type]
            for item in request.items
        ]
        return CheckBulkPermissionsResponse(checked_at=ZedToken(token="now"), pairs=pairs).SerializeToString()

    def allows(self, item: CheckBulkPermissionsRequestItem) -> bool:
        name = item.resource.object_id
        return bool({name, f"{name}@{item.subject.object.object_id}"} & set(self.allowed))

    def write(self, *allowed: str) -> Callable[[bytes], bytes]:
        """A write after which these are allowed."""

        def send(message: bytes) -> bytes:
            self.allowed = allowed
            return WriteRelationshipsResponse(written_at=ZedToken(token="written")).SerializeToString()

        return send


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


def write(
    table: Pointers, *updates: RelationshipUpdate, send: Callable[[bytes], bytes] = lambda message: b""
) -> None:
    table.write(WriteRelationshipsRequest(updates=updates).SerializeToString(), send)


def joins(group: str = "g") -> RelationshipUpdate:
    """A change of a group: any profile's verdict may be another after it."""
    return RelationshipUpdate(
        operation=TOUCH,
        relationship=Relationship(
            resource=ObjectReference(object_type="group", object_id=group),
            relation="member_07",
            subject=SubjectReference(object=ObjectReference(object_type="user", object_id="ann")),
        ),
    )


def request(*documents: str, consistency: Consistency = FULLY, user: str = "ann") -> bytes:
    person = SubjectReference(object=ObjectReference(object_type="user", object_id=user))
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


def test_a_verdict_is_remembered_until_a_write_that_may_change_it() -> None:
    """Asked again the library is spared, also when a pointer changes; not after a group's change, whether it failed or not."""
    table, library = pointers(a="1", b="2"), Library("1")
    for _ in range(2):
        assert verdicts(table.check(request("a", "b"), library.check)) == [True, False]
    write(table, change(DELETE, "b", "2"), change(TOUCH, "b", "1"), send=library.write("1"))
    answer = CheckBulkPermissionsResponse.FromString(table.check(request("a", "b", "c"), library.check))
    assert [pair.item.permissionship for pair in answer.pairs] == [YES, YES, NO]
    assert [pair.request.resource.object_id for pair in answer.pairs] == ["a", "b", "c"]
    assert answer.checked_at.token == "written"  # as fresh as the newest write that it knows of
    assert library.asked == [["profile:1", "profile:2"]]

    write(table, joins(), send=library.write("2"))
    assert verdicts(table.check(request("a", "b"), library.check)) == [False, False]

    def fail(message: bytes) -> bytes:
        library.allowed = ("1",)  # it took effect all the same
        raise TimeoutError

    with pytest.raises(TimeoutError):
        write(table, joins(), send=fail)
    assert verdicts(table.check(request("a", "b"), library.check)) == [True, True]
    schema = WriteSchemaRequest(schema=sliced_schema()).SerializeToString()
    table.write_schema(schema, library.write())
    assert verdicts(table.check(request("a", "b"), library.check)) == [False, False]
    assert library.asked[1:] == [["profile:1"]] * 3


def test_a_verdict_is_remembered_of_one_person_and_permission() -> None:
    """What Ann may is no answer for Ben, in one bulk or another, and what one permission says none for the next."""
    table, library = pointers(a="1", b="1"), Library("1@ben")
    both = CheckBulkPermissionsRequest.FromString(request("a"))
    both.items.extend(CheckBulkPermissionsRequest.FromString(request("b", user="ben")).items)
    both.items.extend(CheckBulkPermissionsRequest.FromString(request("a")).items)
    for _ in range(2):
        assert verdicts(table.check(request("a"), library.check)) == [False]
        assert verdicts(table.check(request("a", user="ben"), library.check)) == [True]
        assert verdicts(table.check(both.SerializeToString(), library.check)) == [False, True, False]
    both.items[0].permission = "view_08"
    table.check(both.SerializeToString(), library.check)
    assert library.asked == [["profile:1"]] * 3


def test_nothing_is_remembered_while_a_write_is_under_way() -> None:
    """A check during a write asks the library, and what it hears is not kept: it may be of the state before the write."""
    table, library = pointers(a="1"), Library("1")
    table.check(request("a"), library.check)
    heard = []

    def slow(message: bytes) -> bytes:
        heard.append(verdicts(table.check(request("a"), library.check)))
        library.allowed = ()
        heard.append(verdicts(table.check(request("a"), library.check)))
        return b""

    write(table, joins(), send=slow)
    assert heard == [[True], [False]]
    library.allowed = ("1",)  # told apart from what a check during the write was told
    assert verdicts(table.check(request("a"), library.check)) == [True]
    assert library.asked == [["profile:1"]] * 4


def test_verdicts_of_two_states_are_not_combined() -> None:
    """A group changes between what was remembered and what the library says: the question goes on as it came."""
    table, library = pointers(a="1", b="2"), Library("1")
    table.check(request("a"), library.check)

    def swap() -> None:
        library.on_check = lambda: None
        write(table, joins(), send=library.write("2", "b"))

    library.on_check = swap
    # Of no state: 1 as it was remembered, 2 as it is now.
    assert verdicts(table.check(request("a", "b"), library.check)) == [False, True]
    assert library.asked == [["profile:1"], ["profile:2"], ["document:a", "document:b"]]


def test_what_was_heard_across_a_write_is_not_kept() -> None:
    """The library answers, then a group changes before the answer is read: it is given, being of one state, and forgotten."""
    table, library = pointers(a="1"), Library("1")

    def answer_then_change(message: bytes) -> bytes:
        answer = library.check(message)
        write(table, joins(), send=library.write())
        return answer

    assert verdicts(table.check(request("a"), answer_then_change)) == [True]
    assert verdicts(table.check(request("a"), library.check)) == [False]


def test_a_deletion_by_filter_forgets_at_once() -> None:
    """From the moment the table is given up no remembered verdict is given, not even by a check that began before."""
    table, library = pointers(a="1", b="2"), Library("1", "2", "a", "b")
    table.check(request("a"), library.check)
    library.on_check = table.give_up
    table.check(request("a", "b"), library.check)
    table.check(request("a"), library.check)
    write(table, joins())
    table.check(request("a"), library.check)
    expected = [["profile:1"], ["profile:2"], ["document:a", "document:b"], ["document:a"], ["document:a"]]
    assert library.asked == expected
    table, library = pointers(a="1"), Library("1", "a")
    library.on_check = table.give_up
    table.check(request("a"), library.check)
    assert library.asked == [["profile:1"], ["document:a"]]


def test_errors_and_conditions_are_not_remembered() -> None:
    """An answer that says neither yes nor no is asked for again each time."""
    table, library = pointers(a="1"), Library()
    library.unless_allowed = {"error": {"code": 3, "message": "too deep"}}
    answer = CheckBulkPermissionsResponse.FromString(table.check(request("a"), library.check))
    assert answer.pairs[0].error.code == 3
    library.unless_allowed = {"item": CheckBulkPermissionsResponseItem(permissionship=PERHAPS)}
    answer = CheckBulkPermissionsResponse.FromString(table.check(request("a"), library.check))
    assert answer.pairs[0].item.permissionship == PERHAPS
    table.check(request("a"), library.check)
    assert library.asked == [["profile:1"]] * 3


@pytest.mark.parametrize("is_caveat", [True, False])
def test_nothing_is_remembered_once_a_tuple_may_end_by_itself(is_caveat: bool) -> None:
    """After a write with an expiry or a condition, on whatever tuple, verdicts may change without any write."""
    table, library = pointers(a="1"), Library("1")
    table.check(request("a"), library.check)
    ending = joins()
    if is_caveat:
        ending.relationship.optional_caveat.caveat_name = "in_office_hours"
    else:
        ending.relationship.optional_expires_at.FromSeconds(2_000_000_000)
    write(table, ending)
    write(table, joins())
    for _ in range(3):
        table.check(request("a"), library.check)
    assert library.asked == [["profile:1"]] * 4


def test_a_write_that_cannot_be_read_ends_the_table() -> None:
    """Whatever it may change, if the library takes it, is not followed."""
    table, library = pointers(a="1"), Library("1", "a")
    table.check(request("a"), library.check)
    table.write(b"\xff", lambda message: b"")
    table.check(request("a"), library.check)
    assert library.asked == [["profile:1"], ["document:a"]]


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is full everything is forgotten and it fills anew."""
    monkeypatch.setattr(spicedb_pointers, "_MOST_REMEMBERED", 2)
    table, library = pointers(a="1", b="2", c="3"), Library("1")
    for each in ("a", "b", "a", "c", "c", "a"):
        assert verdicts(table.check(request(each), library.check)) == [each == "a"]
    assert library.asked == [["profile:1"], ["profile:2"], ["profile:3"], ["profile:1"]]


@pytest.mark.parametrize("seed", range(20))
def test_checks_among_random_writes_are_of_the_state_they_are_asked_in(seed: int) -> None:
    """Groups and pointers change at random, also while the library is asked: each answer is one of a state of that time."""
    dice = random.Random(seed)
    profiles, documents = [str(n) for n in range(4)], [f"d{n}" for n in range(6)]
    table, library, held = pointers(), Library(), dict.fromkeys(documents, "")
    states: list[list[bool]] = []

    def now() -> list[bool]:
        return [held[each] in library.allowed for each in documents]

    def change_something() -> None:
        moves, updates = {}, []
        for each in dice.sample(documents, dice.randrange(3)):
            moves[each] = dice.choice(profiles)
            if held[each]:
                updates.append(change(DELETE, each, held[each]))
            updates.append(change(TOUCH, each, moves[each]))
        is_about_groups = dice.random() < 0.5 or not updates
        allowed = dice.sample(profiles, 2) if is_about_groups else library.allowed
        if is_about_groups:
            updates.append(joins())

        def send(message: bytes) -> bytes:
            for _ in range(dice.randrange(2)):
                check()
            held.update(moves)
            library.allowed = tuple(allowed)
            states.append(now())
            for _ in range(dice.randrange(2)):
                check()
            return b""

        write(table, *updates, send=send)

    def answer(message: bytes) -> bytes:
        asked = CheckBulkPermissionsRequest.FromString(message)
        if dice.random() < 0.2 and not table._writing.locked():
            change_something()
        found = [
            (held[i.resource.object_id] if i.resource.object_type == "document" else i.resource.object_id)
            in library.allowed
            for i in asked.items
        ]
        pairs = [
            CheckBulkPermissionsPair(
                request=item, item=CheckBulkPermissionsResponseItem(permissionship=YES if is_one else NO)
            )
            for item, is_one in zip(asked.items, found, strict=True)
        ]
        if dice.random() < 0.2 and not table._writing.locked():
            change_something()
        return CheckBulkPermissionsResponse(pairs=pairs).SerializeToString()

    def check() -> None:
        n_states = len(states)
        picked = dice.sample(range(len(documents)), dice.randrange(1, len(documents)))
        said = verdicts(table.check(request(*(documents[n] for n in picked)), answer))
        assert said in [[state[n] for n in picked] for state in states[n_states - 1 :]]

    states.append(now())
    for _ in range(60):
        change_something()
        for _ in range(dice.randrange(4)):
            check()


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
    # Through documents a pointer could change what a profile's verdict is.
    assert (
        read_arrows(
            sliced_schema().replace("relation viewer: group\n", "relation viewer: group | document\n")
        )
        == {}
    )
