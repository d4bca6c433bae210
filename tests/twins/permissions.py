"""SpiceDB in memory: one object that is written to and checked, with the schema's meaning written out plainly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cortex.errors import ChecksUnavailable, InputError
from cortex.ids import tenant_object_id
from cortex.ports.outbox import Relationship
from cortex.principals import Principal


@dataclass(slots=True)
class PermissionsTwin:
    """RelationshipWriter, RelationshipReader and PermissionChecker in one; closed until it is opened."""

    tuples: set[Relationship] = field(default_factory=set)
    revision: int = 0
    is_open: bool = False

    def write_schema(self) -> str:
        return self._token()

    def apply(self, touch: Sequence[Relationship], delete: Sequence[Relationship]) -> str:
        if not 0 < len(touch) + len(delete) <= 1_000:
            raise InputError("one write takes 1 to 1000 changes", code="selector.empty")
        if {*touch} & {*delete}:
            raise InputError("SpiceDB refuses two changes of one tuple in one write")
        self.tuples = (self.tuples - {*delete}) | {*touch}
        return self._token()

    def open_for_checks(self) -> None:
        self.is_open = True

    def relationships(self) -> Iterator[Relationship]:
        yield from set(self.tuples)

    async def allowed(self, principal: Principal, document_ids: Sequence[str], token: str) -> frozenset[str]:
        await self.ping()
        verdicts = [self._viewed(person, document_ids) for person in principal.audience]
        return frozenset.intersection(*verdicts)

    def _viewed(self, principal: Principal, document_ids: Sequence[str]) -> frozenset[str]:
        person = ("user", tenant_object_id(principal.tenant_id, principal.user_id))
        subjects = {person}
        while (
            wider := {
                (t.resource_type, t.resource_id)
                for t in self.tuples
                if t.resource_type == "group" and (t.subject_type, t.subject_id) in subjects
            }
            - subjects
        ):
            subjects |= wider

        def reached(relation: str) -> set[str]:
            return {
                t.resource_id
                for t in self.tuples
                if t.resource_type == "profile" and t.relation == relation
                if (t.subject_type, t.subject_id) in subjects
            }

        profiles = reached("viewer") - reached("denied")
        visible = {t.resource_id for t in self.tuples if t.relation == "access" and t.subject_id in profiles}
        return frozenset(
            document_id
            for document_id in document_ids
            if tenant_object_id(principal.tenant_id, document_id) in visible
        )

    async def ping(self) -> None:
        if not self.is_open:
            raise ChecksUnavailable("permissions are still being loaded")

    def _token(self) -> str:
        self.revision += 1
        return f"twin-{self.revision}"
