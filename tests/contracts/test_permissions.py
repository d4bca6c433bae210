"""What every RelationshipWriter and PermissionChecker promise, on the twin and on the real SpiceDB."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from adapters.spicedb.checker import SpiceDBChecker
from adapters.spicedb.writer import SpiceDBWriter
from cortex.errors import InputError
from cortex.ids import tenant_object_id
from cortex.ports.outbox import Relationship, RelationshipWriter
from cortex.ports.query import PermissionChecker
from cortex.principals import Principal
from cortex.settings import Settings
from tests.twins.permissions import PermissionsTwin

_tenants = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Permissions:
    """SpiceDB behind its two ports, and a tenant that nobody else uses."""

    writer: RelationshipWriter
    checker: PermissionChecker
    tenant_id: str

    def row(self, resource: str, relation: str, subject: str) -> Relationship:
        """A tuple written as `group:eng`, `member`, `group:ops#member`."""
        kind, name = resource.split(":", 1)
        subject_kind, subject_name = subject.split(":", 1)
        subject_name, _, subject_relation = subject_name.partition("#")
        return Relationship(
            kind,
            tenant_object_id(self.tenant_id, name),
            relation,
            subject_kind,
            tenant_object_id(self.tenant_id, subject_name),
            subject_relation,
        )

    def rows(self, *lines: str) -> list[Relationship]:
        return [self.row(*line.split(" ")) for line in lines]

    async def allowed(self, user_id: str, token: str, *names: str) -> frozenset[str]:
        return await self.checker.allowed(Principal(self.tenant_id, user_id), names, token)


@pytest.fixture(params=["twin", pytest.param("spicedb", marks=pytest.mark.services)])
async def permissions(request: pytest.FixtureRequest) -> AsyncIterator[Permissions]:
    tenant_id = f"contract-{next(_tenants)}"
    if request.param == "twin":
        twin = PermissionsTwin()
        twin.open_for_checks()
        yield Permissions(twin, twin, tenant_id)
        return
    home: Settings = request.getfixturevalue("home_engines")
    token = home.spicedb_token.get_secret_value()
    writer, checker = SpiceDBWriter(home.spicedb_url, token), SpiceDBChecker(home.spicedb_url, token)
    yield Permissions(writer, checker, tenant_id)
    await checker.close()
    writer.close()


async def test_a_document_is_seen_through_its_profile(permissions: Permissions) -> None:
    """People in a viewing group see it, through nesting too; the denied, strangers and unknown documents are left out."""
    token = permissions.writer.apply(
        permissions.rows(
            "group:eng member user:ann",
            "group:eng member user:eve",
            "group:all member group:eng#member",
            "profile:1 viewer group:all#member",
            "profile:1 viewer user:bob",
            "profile:1 denied user:eve",
            "document:d access profile:1",
        ),
        [],
    )
    assert await permissions.allowed("ann", token, "d", "unknown", "d") == {"d"}
    assert await permissions.allowed("bob", token, "d") == {"d"}
    assert await permissions.allowed("eve", token, "d") == frozenset()
    assert await permissions.allowed("zoe", token, "d") == frozenset()
    assert await permissions.allowed("ann", token) == frozenset()


async def test_a_removed_tuple_counts_with_its_token(permissions: Permissions) -> None:
    """A check at least as fresh as a removal's token no longer allows; touching and removing again is harmless."""
    edges = permissions.rows("group:eng member user:ann")
    rest = permissions.rows("profile:1 viewer group:eng#member", "document:d access profile:1")
    permissions.writer.apply(edges + rest, [])
    assert await permissions.allowed("ann", permissions.writer.apply(edges, []), "d") == {"d"}
    for _ in range(2):
        assert await permissions.allowed("ann", permissions.writer.apply([], edges), "d") == frozenset()


async def test_many_documents_are_checked_at_once(permissions: Permissions) -> None:
    """Twelve hundred documents, half of them allowed: exactly those come back."""
    names = [f"d{n}" for n in range(1_200)]
    permissions.writer.apply(permissions.rows("profile:1 viewer user:ann"), [])
    rows = permissions.rows(*(f"document:{name} access profile:1" for name in names[::2]))
    token = permissions.writer.apply(rows, [])
    assert await permissions.allowed("ann", token, *names) == frozenset(names[::2])


async def test_names_of_any_form_are_kept_apart(permissions: Permissions) -> None:
    """Spaces, accents, slashes, the star and endless names stay distinct people."""
    names = ["a b", "a/b", "ä", "*", "x" * 700, "x" * 699 + "y", "a|b", "=YQ"]
    for number, name in enumerate(names):
        row = Relationship(
            "profile",
            tenant_object_id(permissions.tenant_id, str(number)),
            "viewer",
            "user",
            tenant_object_id(permissions.tenant_id, name),
        )
        document = permissions.row(f"document:d{number}", "access", f"profile:{number}")
        token = permissions.writer.apply([row, document], [])
    for number, name in enumerate(names):
        seen = await permissions.allowed(name, token, *(f"d{n}" for n in range(len(names))))
        assert seen == {f"d{number}"}


async def test_the_same_name_in_another_tenant_sees_nothing(permissions: Permissions) -> None:
    """Ids carry their tenant: a namesake elsewhere is somebody else."""
    token = permissions.writer.apply(
        permissions.rows("profile:1 viewer user:ann", "document:d access profile:1"), []
    )
    namesake = Principal(f"{permissions.tenant_id}x", "ann")
    assert await permissions.checker.allowed(namesake, ["d"], token) == frozenset()


def test_writes_have_a_size(permissions: Permissions) -> None:
    """No change at all and more than a thousand are refused: the first would be a mistake, the second is SpiceDB's limit."""
    rows = permissions.rows(*(f"group:g member user:u{n}" for n in range(1_001)))
    with pytest.raises(InputError):
        permissions.writer.apply([], [])
    with pytest.raises(InputError):
        permissions.writer.apply(rows, [])
    assert permissions.writer.apply(rows[:1_000], [])


async def test_it_answers(permissions: Permissions) -> None:
    """An opened SpiceDB answers a ping."""
    await permissions.checker.ping()


async def test_readers_narrow_a_check_to_what_all_may_view(permissions: Permissions) -> None:
    """With readers, a document passes only if everyone may view it, each by their own way; a stranger closes it all."""
    token = permissions.writer.apply(
        permissions.rows(
            "profile:1 viewer user:ann",
            "profile:1 viewer group:eng#member",
            "group:eng member user:bob",
            "profile:2 viewer user:ann",
            "profile:3 viewer user:bob",
            "document:both access profile:1",
            "document:anns access profile:2",
            "document:bobs access profile:3",
        ),
        [],
    )

    async def allowed(*readers: str) -> frozenset[str]:
        principal = Principal(permissions.tenant_id, "ann", readers=readers)
        return await permissions.checker.allowed(principal, ["both", "anns", "bobs"], token)

    assert await allowed() == {"both", "anns"}
    assert await allowed("bob") == {"both"}
    assert await allowed("bob", "zoe") == frozenset()
