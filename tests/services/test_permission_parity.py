"""Promise 1, permission parity: the catalog's permits, the mirror and the real SpiceDB agree on random worlds."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from authzed.api.v1 import Consistency, ReadRelationshipsRequest, RelationshipFilter
from authzed.api.v1.permission_service_pb2_grpc import PermissionsServiceStub
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.catalog.ingest import PostgresIngestCatalog
from adapters.catalog.outbox import PostgresOutbox
from adapters.catalog.query import PostgresQueryCatalog
from adapters.spicedb.channels import open_channel
from adapters.spicedb.checker import SpiceDBChecker
from adapters.spicedb.slices import read_back
from adapters.spicedb.writer import SpiceDBWriter
from cortex.documents import EVERYONE, NOBODY, Acl, Grant, GrantKind, Membership
from cortex.ids import document_id, source_id
from cortex.ports.connectors import SourceConfig
from cortex.ports.outbox import Relationship
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.deliver import drain
from eval.worlds import World, may_view, random_world
from tests.databases import new_database

pytestmark = pytest.mark.services

USERS = [f"user{n}" for n in range(4)]
GROUPS = [f"group {n}" for n in range(5)]
DOCUMENTS = [f"doc{n}" for n in range(4)]
_tenants = itertools.count(1)

_grants = st.one_of(
    st.sampled_from(USERS).map(lambda name: Grant(GrantKind.USER, name)),
    st.sampled_from(GROUPS).map(lambda name: Grant(GrantKind.GROUP, name)),
    st.just(Grant(GrantKind.EVERYONE)),
)
_members = st.builds(Membership, st.sampled_from(GROUPS), _grants)
_acls = st.one_of(
    st.just(NOBODY),
    st.just(EVERYONE),
    st.builds(Acl, st.frozensets(_grants, max_size=3), st.frozensets(_grants, max_size=1)),
)
_steps = st.one_of(
    st.tuples(st.just("add"), _members),
    st.tuples(st.just("remove"), _members),
    st.tuples(st.just("replace"), st.lists(_members, max_size=6)),
    st.tuples(st.just("acl"), st.sampled_from(DOCUMENTS), _acls),
    st.tuples(st.just("delete"), st.sampled_from(DOCUMENTS)),
)


@dataclass(frozen=True, slots=True)
class Services:
    """The real parts, and the loop that the asynchronous ones live in."""

    home: Settings
    ingest: PostgresIngestCatalog
    outbox: PostgresOutbox
    query: PostgresQueryCatalog
    writer: SpiceDBWriter
    checker: SpiceDBChecker
    loop: asyncio.Runner

    def permitted(self, principal: Principal) -> tuple[int, ...]:
        return self.loop.run(self.query.permit(principal)).profile_ids

    def allowed(self, principal: Principal, document_ids: list[str]) -> frozenset[str]:
        token = self.loop.run(self.query.permission_token())
        return self.loop.run(self.checker.allowed(principal, document_ids, token))

    def held_by_spicedb(self, tenant_id: str) -> set[Relationship]:
        """Every tuple of a tenant that SpiceDB holds, read from it."""
        channel = open_channel(self.home.spicedb_url, self.home.spicedb_token.get_secret_value(), False)
        try:
            stub = PermissionsServiceStub(channel)
            return {
                found
                for kind in ("group", "profile", "document")
                for found in self._read(stub, kind)
                if tenant_of(found.resource_id) == tenant_id
            }
        finally:
            channel.close()

    def _read(self, stub: PermissionsServiceStub, kind: str) -> Iterator[Relationship]:
        request = ReadRelationshipsRequest(
            consistency=Consistency(fully_consistent=True),
            relationship_filter=RelationshipFilter(resource_type=kind),
        )
        for answer in stub.ReadRelationships(request, timeout=20):
            found = answer.relationship
            subject = found.subject
            stored = Relationship(
                found.resource.object_type,
                found.resource.object_id,
                found.relation,
                subject.object.object_type,
                subject.object.object_id,
                subject.optional_relation,
            )
            yield read_back(stored)


@pytest.fixture(scope="module")
def services(home_engines: Settings, empty_catalog: str) -> Iterator[Services]:
    token = home_engines.spicedb_token.get_secret_value()
    with new_database(home_engines.postgres_url, empty_catalog) as url, asyncio.Runner() as loop:
        ingest, outbox = PostgresIngestCatalog(url), PostgresOutbox(url)
        query, writer = PostgresQueryCatalog(url), SpiceDBWriter(home_engines.spicedb_url, token)
        checker = SpiceDBChecker(home_engines.spicedb_url, token)
        loop.run(query.open())
        yield Services(home_engines, ingest, outbox, query, writer, checker, loop)
        loop.run(query.close())
        loop.run(checker.close())
        ingest.close()
        outbox.close()
        writer.close()


@dataclass(slots=True)
class Naive:
    """What the source systems say, kept as plainly as possible."""

    operator: set[Membership]
    source: set[Membership]
    acls: dict[str, Acl]

    def may_view(self, user_id: str, acl: Acl) -> bool:
        edges = tuple(self.operator | self.source)
        return may_view(World("", (), edges, (), ()), user_id, acl)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(steps=st.lists(_steps, min_size=1, max_size=14))
def test_permits_mirror_and_spicedb_agree_after_any_changes(services: Services, steps: list[tuple]) -> None:
    """After any changes of nested, circular groups and access lists, three ways to say who may see what say the same."""
    tenant = f"t{next(_tenants)}"
    where = source_id(tenant, "files", "x")
    services.ingest.ensure_source(SourceConfig(tenant, where, "files", "x"))
    services.ingest.ensure_users(tenant, USERS)
    naive = Naive(set(), set(), {})
    profile_of: dict[str, int] = {}
    for step in steps:
        match step:
            case ("add", edge):
                services.ingest.add_membership(tenant, edge)
                naive.operator.add(edge)
            case ("remove", edge):
                is_there = edge in naive.operator | naive.source
                assert services.ingest.remove_membership(tenant, edge) == is_there
                naive.operator.discard(edge)
                naive.source.discard(edge)
            case ("replace", edges):
                services.ingest.set_memberships(tenant, where, edges)
                naive.source = set(edges)
            case ("acl", name, acl):
                one = document_id(tenant, where, name)
                profile_of[name] = services.ingest.set_acl(tenant, where, name, one, acl)
                if acl.is_known or name not in naive.acls:
                    naive.acls[name] = acl
            case ("delete", name):
                services.ingest.tombstone(document_id(tenant, where, name))
                naive.acls.pop(name, None)
    drain(services.outbox, services.writer)
    ids = {name: document_id(tenant, where, name) for name in DOCUMENTS}
    for user_id in USERS:
        principal = Principal(tenant, user_id)
        expected = {name for name, acl in naive.acls.items() if naive.may_view(user_id, acl)}
        permitted = services.permitted(principal)
        assert {name for name in naive.acls if profile_of[name] in permitted} == expected
        allowed = services.allowed(principal, list(ids.values()))
        assert {name for name, one in ids.items() if one in allowed} == expected
    mirror = set(services.outbox.relationships(tenant))
    assert services.held_by_spicedb(tenant) == mirror


def tenant_of(object_id: str) -> str:
    """The tenant that an object id carries, readable or encoded."""
    text = object_id
    if object_id.startswith("="):
        text = base64.urlsafe_b64decode(object_id[1:] + "==").decode()
    return text.replace("|", "/").partition("/")[0]


@pytest.mark.parametrize("seed", range(40))
def test_spicedb_allows_what_an_oracle_allows(services: Services, seed: int) -> None:
    """On random worlds with nested groups, denials and copies, permits and checks equal a brute-force oracle."""
    world = random_world(seed)
    tenant = world.tenant_id
    where = source_id(tenant, "files", "world")
    services.ingest.ensure_source(SourceConfig(tenant, where, "files", "world"))
    services.ingest.ensure_users(tenant, world.user_ids)
    services.ingest.set_memberships(tenant, where, world.memberships)
    ids = {document.name: document_id(tenant, where, document.name) for document in world.documents}
    profiles = {
        d.name: services.ingest.set_acl(tenant, where, d.name, ids[d.name], d.acl) for d in world.documents
    }
    drain(services.outbox, services.writer)
    for user_id in world.user_ids:
        principal = Principal(tenant, user_id)
        expected = {d.name for d in world.documents if may_view(world, user_id, d.acl)}
        permitted = services.permitted(principal)
        allowed = services.allowed(principal, list(ids.values()))
        assert {name for name, number in profiles.items() if number in permitted} == expected
        assert {name for name, one in ids.items() if one in allowed} == expected
        elsewhere = Principal("another-tenant", user_id)
        assert services.allowed(elsewhere, list(ids.values())) == frozenset()
    for n_readers in (1, 2, len(world.user_ids) - 1):
        asker, *readers = world.user_ids[: n_readers + 1]
        principal = Principal(tenant, asker, readers=tuple(readers))
        expected = {
            d.name for d in world.documents if all(may_view(world, u, d.acl) for u in (asker, *readers))
        }
        assert {name for name, n in profiles.items() if n in services.permitted(principal)} == expected
        allowed = services.allowed(principal, list(ids.values()))
        assert {name for name, one in ids.items() if one in allowed} == expected
