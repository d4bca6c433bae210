"""Where documents point: the profiles of each document, kept beside SpiceDB's library, which would read every document.

The library's in-memory store has no index by object id, so the step `document -> profile` of a check costs time in
proportion to all documents. The facade sees every write, so it keeps that one step in a table and asks the library
about the profiles. It has no cache of verdicts either, so what it said about a profile is remembered until the next
write of anything but a pointer. The answer is the library's own: whatever cannot be followed exactly (another schema, a
write whose outcome is unknown, a change during the check) is asked of the library as it came. Decision 0011.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext

from authzed.api.v1 import (
    CheckBulkPermissionsPair,
    CheckBulkPermissionsRequest,
    CheckBulkPermissionsRequestItem,
    CheckBulkPermissionsResponse,
    CheckBulkPermissionsResponseItem,
    CheckPermissionResponse,
    Consistency,
    ObjectReference,
    RelationshipUpdate,
    WriteRelationshipsRequest,
    WriteRelationshipsResponse,
    WriteSchemaRequest,
    WriteSchemaResponse,
    ZedToken,
)
from google.protobuf.message import DecodeError

Send = Callable[[bytes], bytes]
Item = CheckBulkPermissionsRequestItem
Pair = CheckBulkPermissionsPair
Question = tuple[str, str, bytes]  # a profile, a permission of it, a subject
Asked = tuple[tuple[str, ...], str, bytes]  # the same of all the profiles of a document

_DOCUMENT = re.compile(
    r"^definition document \{\n\s*relation access: profile\n(?P<rest>[^}]*)\}", re.MULTILINE
)
_ARROW = re.compile(r"\s*permission (\w+) = access->(\w+)")
_ALLOWED = CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION
_REFUSED = CheckPermissionResponse.PERMISSIONSHIP_NO_PERMISSION
# Neither asks for a particular old state; the newest one is as good, and is what the table holds.
_FRESH = ("fully_consistent", "at_least_as_fresh")
# The verdicts that hold without a condition; only these are remembered.
_PLAIN = {
    each: Pair(item=CheckBulkPermissionsResponseItem(permissionship=each)) for each in (_ALLOWED, _REFUSED)
}
_MOST_REMEMBERED = 100_000  # some 30 MB


class Pointers:
    """The table, and the three calls that it takes part in. `send` passes bytes on to the library."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._arrows: dict[str, str] = {}  # permission of a document -> permission of its profile
        # None while a write is under way, and from then on if it failed: ask the library.
        self._profiles: dict[str, tuple[str, ...] | None] = {}
        self._is_whole = True
        # What the library said of profiles since the last change of anything but pointers. One object for one state:
        # whoever still finds the object that they began with knows that nothing of that kind has changed meanwhile.
        # None while such a change is under way, and for good once a verdict may change without a write.
        self._verdicts: dict[Question, Pair] | None = {}
        self._is_timeless = True
        self._written = ZedToken()  # of the last write

    def give_up(self) -> None:
        """From now on leave everything to the library: tuples change in a way that is not followed."""
        self._is_whole = False
        self._verdicts = None

    def write_schema(self, message: bytes, send: Send) -> bytes:
        """Install a schema, and learn which permissions of a document are its profile's."""
        with self._writing:
            self._arrows = {}
            with self._forgetting():
                answer = send(message)
                self._written = WriteSchemaResponse.FromString(answer).written_at
            self._arrows = read_arrows(WriteSchemaRequest.FromString(message).schema)
            return answer

    def write(self, message: bytes, send: Send) -> bytes:
        """Write tuples and follow what they change."""
        with self._writing:
            try:
                updates = WriteRelationshipsRequest.FromString(message).updates
            except DecodeError:
                self.give_up()
                return send(message)  # the library refuses it too, unless it reads otherwise than this does
            mine = [each for each in updates if each.relationship.resource.object_type == "document"]
            if not all(map(_is_pointer, mine)):
                self.give_up()
            before = {each: self._profiles.get(each, ()) for each in map(_document, mine)}
            self._profiles.update(dict.fromkeys(before))
            self._is_timeless = self._is_timeless and all(map(_is_unconditional, updates))
            is_about_more = len(mine) < len(updates) or not self._is_timeless
            with self._forgetting() if is_about_more else nullcontext():
                answer = send(message)
                self._written = WriteRelationshipsResponse.FromString(answer).written_at
            self._settle(before, mine)
            return answer

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Forget every verdict before the library learns of a change, remember none until it has answered or failed."""
        self._verdicts = None
        try:
            yield
        finally:
            self._verdicts = {} if self._is_whole and self._is_timeless else None

    def check(self, message: bytes, send: Send) -> bytes:
        """Answer a bulk check by the documents' profiles if they are known throughout, else as the library does."""
        try:
            request = CheckBulkPermissionsRequest.FromString(message)
        except DecodeError:
            return send(message)
        arrows_then, verdicts_then = self._arrows, self._verdicts
        documents, asked = self._read(request, arrows_then)
        # Hundreds of documents, but few lists of profiles: each is worked out once.
        examples = dict(zip(asked, request.items, strict=False))
        wanted = {one: item for each, item in examples.items() for one in _questions(each)}
        if not wanted:
            return send(message)
        known = _recall(wanted, verdicts_then)
        unknown = {each: item for each, item in wanted.items() if each not in known}
        checked_at = self._written  # read after the verdicts and the entries: no older than they are
        said: dict[Question, Pair] = {}
        if unknown:
            ask = _request(unknown)
            answer = CheckBulkPermissionsResponse.FromString(send(ask.SerializeToString()))
            if [pair.request for pair in answer.pairs] != list(ask.items):
                return send(message)
            said, checked_at = dict(zip(unknown, answer.pairs, strict=True)), answer.checked_at
        # What a write touches leaves the table, and every verdict that it may change leaves the memory, before the
        # library learns of it; they return as new objects after. The same objects before and after the library answered
        # are those of the state that it answered from.
        if not (self._arrows is arrows_then and self._is_unchanged(documents, asked)):
            return send(message)
        if verdicts_then is not None and self._verdicts is verdicts_then:
            _remember(said, verdicts_then)
        elif known:
            return send(message)  # some verdicts are of one state, some of another
        known |= said
        found = {each: _verdict([known[one] for one in _questions(each)]) for each in examples}
        whole = CheckBulkPermissionsResponse(checked_at=checked_at, pairs=map(found.__getitem__, asked))
        for pair, item in zip(whole.pairs, request.items, strict=True):
            pair.request.CopyFrom(item)
        return bytes(whole.SerializeToString())

    def _read(
        self, request: CheckBulkPermissionsRequest, arrows: dict[str, str]
    ) -> tuple[list[str], list[Asked]]:
        """Read each item's document, and what to ask for it; nothing if the library must be asked."""
        nothing: tuple[list[str], list[Asked]] = ([], [])
        if not self._is_whole or request.consistency.WhichOneof("requirement") not in _FRESH:
            return nothing
        documents, asked = [], []
        person, subject = None, b""
        for item in request.items:
            document = item.resource
            name, permission = document.object_id, arrows.get(item.permission)
            profiles = self._profiles.get(name, ())
            is_plain = document.object_type == "document" and not item.HasField("context")
            if profiles is None or permission is None or not is_plain:
                return nothing
            if item.subject != person:  # nearly always one person throughout
                person = item.subject
                subject = person.SerializeToString(deterministic=True)
            documents.append(name)
            asked.append((profiles, permission, subject))
        return nothing if request.with_tracing else (documents, asked)

    def _is_unchanged(self, documents: list[str], asked: list[Asked]) -> bool:
        """Whether the table still holds the very entries that were read, not ones that were changed and changed back."""
        held = self._profiles
        return self._is_whole and all(
            held.get(document, ()) is each[0] for document, each in zip(documents, asked, strict=True)
        )

    def _settle(
        self, before: dict[str, tuple[str, ...] | None], updates: Iterable[RelationshipUpdate]
    ) -> None:
        """Put entries back as a write that succeeded left them. What was unknown before stays so."""
        after = {document: list(profiles) for document, profiles in before.items() if profiles is not None}
        for update in updates:
            profiles, profile = after.get(_document(update)), _profile(update)
            if profiles is None:
                continue
            if profile in profiles:
                profiles.remove(profile)
            if update.operation != RelationshipUpdate.OPERATION_DELETE:
                profiles.append(profile)
        for document, profiles in after.items():
            if profiles:
                self._profiles[document] = tuple(profiles)  # always a new object
            else:
                del self._profiles[document]


def read_arrows(schema: str) -> dict[str, str]:
    """Read which permissions of a document are a permission of its profile.

    None if documents have any other relation, or if anything but documents depends on documents: pointers could then
    change what a profile's verdict is.
    """
    document = _DOCUMENT.search(schema) if len(re.findall(r"\bdocument\b", schema)) == 1 else None
    lines = [line for line in document["rest"].splitlines() if line.strip()] if document else []
    found = [_ARROW.fullmatch(line) for line in lines]
    return {match[1]: match[2] for match in found if match} if all(found) else {}


def _is_pointer(update: RelationshipUpdate) -> bool:
    """Whether a change of a document's tuples is one that the table can hold: for everyone, without condition or end."""
    one = update.relationship
    is_profile = one.subject.object.object_type == "profile" and not one.subject.optional_relation
    return _is_unconditional(update) and is_profile and one.relation == "access"


def _is_unconditional(update: RelationshipUpdate) -> bool:
    """Whether what a tuple says depends on nothing but writes."""
    one = update.relationship
    return not (one.HasField("optional_caveat") or one.HasField("optional_expires_at"))


def _document(update: RelationshipUpdate) -> str:
    return str(update.relationship.resource.object_id)


def _profile(update: RelationshipUpdate) -> str:
    return sys.intern(update.relationship.subject.object.object_id)


def _recall(wanted: Iterable[Question], verdicts: dict[Question, Pair] | None) -> dict[Question, Pair]:
    """Pick what is remembered of these questions."""
    if verdicts is None:
        return {}
    return {each: verdict for each in wanted if (verdict := verdicts.get(each)) is not None}


def _remember(said: dict[Question, Pair], verdicts: dict[Question, Pair]) -> None:
    """Keep what the library said, all of one state; only what is said without a condition."""
    if len(verdicts) + len(said) > _MOST_REMEMBERED:
        verdicts.clear()
    for each, pair in said.items():
        plain = _PLAIN.get(pair.item.permissionship)
        if plain is not None and pair.item == plain.item:
            verdicts[each] = plain


def _questions(asked: Asked) -> list[Question]:
    profiles, permission, subject = asked
    return [(profile, permission, subject) for profile in profiles]


def _request(questions: dict[Question, Item]) -> CheckBulkPermissionsRequest:
    """Ask of profiles, at the newest state, what items ask of documents."""
    items = [
        Item(
            resource=ObjectReference(object_type="profile", object_id=profile),
            permission=permission,
            subject=item.subject,
        )
        for (profile, permission, _), item in questions.items()
    ]
    return CheckBulkPermissionsRequest(items=items, consistency=Consistency(fully_consistent=True))


def _verdict(pairs: list[Pair]) -> Pair:
    """Answer for a document, as a pair without its request: allowed if one of its profiles allows; an error if that could
    not be found out.
    """
    said = [pair for pair in pairs if pair.WhichOneof("response") == "item"]
    if any(pair.item.permissionship == _ALLOWED for pair in said):
        return _PLAIN[_ALLOWED]
    for pair in pairs:
        if pair.WhichOneof("response") == "error":
            return Pair(error=pair.error)
        if pair.item.permissionship != _REFUSED:
            return Pair(item=pair.item)
    return _PLAIN[_REFUSED]
