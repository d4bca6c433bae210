"""Where documents point: the profiles of each document, kept beside SpiceDB's library, which would read every document.

The library's in-memory store has no index by object id, so the step `document -> profile` of a check costs time in
proportion to all documents. The facade sees every write, so it keeps that one step in a table and asks the library
about the profiles. The answer is the library's own: whatever cannot be followed exactly (another schema, a write whose
outcome is unknown, a change during the check) is asked of the library as it came. Decision 0011.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

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
    WriteSchemaRequest,
)
from google.protobuf.message import DecodeError

Send = Callable[[bytes], bytes]
Item = CheckBulkPermissionsRequestItem
Pair = CheckBulkPermissionsPair

_DOCUMENT = re.compile(
    r"^definition document \{\n\s*relation access: profile\n(?P<rest>[^}]*)\}", re.MULTILINE
)
_ARROW = re.compile(r"\s*permission (\w+) = access->(\w+)")
_ALLOWED = CheckPermissionResponse.PERMISSIONSHIP_HAS_PERMISSION
_REFUSED = CheckPermissionResponse.PERMISSIONSHIP_NO_PERMISSION
# Neither asks for a particular old state; the newest one is as good, and is what the table holds.
_FRESH = ("fully_consistent", "at_least_as_fresh")


class Pointers:
    """The table, and the three calls that it takes part in. `send` passes bytes on to the library."""

    def __init__(self) -> None:
        self._writing = threading.Lock()
        self._arrows: dict[str, str] = {}  # permission of a document -> permission of its profile
        # None while a write is under way, and from then on if it failed: ask the library.
        self._profiles: dict[str, tuple[str, ...] | None] = {}
        self._is_whole = True

    def give_up(self) -> None:
        """From now on leave everything to the library: tuples change in a way that is not followed."""
        self._is_whole = False

    def write_schema(self, message: bytes, send: Send) -> bytes:
        """Install a schema, and learn which permissions of a document are its profile's."""
        with self._writing:
            self._arrows = {}
            answer = send(message)
            self._arrows = read_arrows(WriteSchemaRequest.FromString(message).schema)
            return answer

    def write(self, message: bytes, send: Send) -> bytes:
        """Write tuples and follow what they change."""
        with self._writing:
            try:
                updates = WriteRelationshipsRequest.FromString(message).updates
            except DecodeError:
                return send(message)  # the library refuses it
            mine = [each for each in updates if each.relationship.resource.object_type == "document"]
            if not all(map(_is_pointer, mine)):
                self.give_up()
            before = {each: self._profiles.get(each, ()) for each in map(_document, mine)}
            self._profiles.update(dict.fromkeys(before))
            answer = send(message)
            self._settle(before, mine)
            return answer

    def check(self, message: bytes, send: Send) -> bytes:
        """Answer a bulk check by the documents' profiles if they are known throughout, else as the library does."""
        try:
            request = CheckBulkPermissionsRequest.FromString(message)
        except DecodeError:
            return send(message)
        arrows_then = self._arrows
        known = self._known(request, arrows_then)
        if known is None:
            return send(message)
        asked = [
            (profiles, item.permission, item.subject.SerializeToString(deterministic=True))
            for item, profiles in zip(request.items, known, strict=True)
        ]
        # Hundreds of documents, but few lists of profiles: each is worked out once.
        examples = dict(zip(asked, request.items, strict=True))
        wanted = {
            (profile, *about): _about(profile, arrows_then[item.permission], item)
            for (profiles, *about), item in examples.items()
            for profile in profiles
        }
        if not wanted:
            return send(message)
        ask = CheckBulkPermissionsRequest(
            items=wanted.values(), consistency=Consistency(fully_consistent=True)
        )
        answer = CheckBulkPermissionsResponse.FromString(send(ask.SerializeToString()))
        is_asked = [pair.request for pair in answer.pairs] == list(ask.items)
        # What a write touches leaves the table before the library learns of it and returns after: the same entries
        # before and after the library answered are those of the state that it answered from.
        if not (is_asked and self._arrows is arrows_then and self._is_unchanged(request, known)):
            return send(message)
        found = dict(zip(wanted, answer.pairs, strict=True))
        verdicts = {each: _verdict([found[(profile, *each[1:])] for profile in each[0]]) for each in examples}
        pairs = [
            Pair(request=item, **verdicts[each]) for each, item in zip(asked, request.items, strict=True)
        ]
        whole = CheckBulkPermissionsResponse(checked_at=answer.checked_at, pairs=pairs)
        return bytes(whole.SerializeToString())

    def _known(
        self, request: CheckBulkPermissionsRequest, arrows: dict[str, str]
    ) -> list[tuple[str, ...]] | None:
        """Look up the profiles of each item's document; None if the library must be asked."""
        if not self._is_whole or request.consistency.WhichOneof("requirement") not in _FRESH:
            return None
        found = []
        for item in request.items:
            document = item.resource
            profiles = self._profiles.get(document.object_id, ())
            is_plain = document.object_type == "document" and not item.HasField("context")
            if profiles is None or not is_plain or item.permission not in arrows:
                return None
            found.append(profiles)
        return None if request.with_tracing else found

    def _is_unchanged(self, request: CheckBulkPermissionsRequest, known: list[tuple[str, ...]]) -> bool:
        """Whether the table still holds the very entries that were read, not ones that were changed and changed back."""
        return self._is_whole and all(
            self._profiles.get(item.resource.object_id, ()) is profiles
            for item, profiles in zip(request.items, known, strict=True)
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
    """Read which permissions of a document are a permission of its profile; none if documents have any other relation."""
    document = _DOCUMENT.search(schema)
    lines = [line for line in document["rest"].splitlines() if line.strip()] if document else []
    found = [_ARROW.fullmatch(line) for line in lines]
    return {match[1]: match[2] for match in found if match} if all(found) else {}


def _is_pointer(update: RelationshipUpdate) -> bool:
    """Whether a change of a document's tuples is one that the table can hold: for everyone, without condition or end."""
    one = update.relationship
    is_unconditional = not (one.HasField("optional_caveat") or one.HasField("optional_expires_at"))
    is_profile = one.subject.object.object_type == "profile" and not one.subject.optional_relation
    return is_unconditional and is_profile and one.relation == "access"


def _document(update: RelationshipUpdate) -> str:
    return str(update.relationship.resource.object_id)


def _profile(update: RelationshipUpdate) -> str:
    return sys.intern(update.relationship.subject.object.object_id)


def _about(profile: str, permission: str, item: Item) -> Item:
    """Ask of a profile what was asked of a document."""
    resource = ObjectReference(object_type="profile", object_id=profile)
    return Item(resource=resource, permission=permission, subject=item.subject)


def _verdict(pairs: list[Any]) -> dict[str, Any]:
    """Answer for a document, as a field of its pair: allowed if one of its profiles allows; an error if that could not be
    found out.
    """
    said = [pair for pair in pairs if pair.WhichOneof("response") == "item"]
    if any(pair.item.permissionship == _ALLOWED for pair in said):
        return {"item": CheckBulkPermissionsResponseItem(permissionship=_ALLOWED)}
    for pair in pairs:
        if pair.WhichOneof("response") == "error":
            return {"error": pair.error}
        if pair.item.permissionship != _REFUSED:
            return {"item": pair.item}
    return {"item": CheckBulkPermissionsResponseItem(permissionship=_REFUSED)}
