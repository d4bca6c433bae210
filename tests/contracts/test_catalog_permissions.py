"""What every catalog promises about permissions, on the twin and on Postgres."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from cortex.documents import EVERYONE, NOBODY, Grant, GrantKind
from cortex.errors import ChecksUnavailable, Conflict, Forbidden, InputError, NotFound, Unauthenticated
from cortex.ids import tenant_object_id
from cortex.ports.ingest import AclWrite
from cortex.ports.outbox import Relationship
from tests.contracts.catalog_words import (
    TENANT,
    acl,
    candidates,
    group,
    member,
    person,
    source,
    user,
    version,
)
from tests.contracts.conftest import Catalog

ANN, BOB, EVE = person("ann"), person("bob"), person("eve")


async def revision(catalog: Catalog) -> int:
    return (await catalog.query.permit(ANN)).revision


async def test_content_never_touches_the_access_list(catalog: Catalog) -> None:
    """New content keeps the old list, and a new list keeps the content."""
    old, new = version("a", "old"), version("a", "new")
    catalog.publish(old, acl(user("ann")))
    catalog.publish(new)
    assert await catalog.seen(ANN, new) == ["new"]
    assert await catalog.seen(BOB, new) == []
    catalog.set_acl(new, acl(user("bob")))
    assert await catalog.seen(ANN, new) == []
    assert await catalog.seen(BOB, new) == ["new"]


async def test_an_unknown_list_never_replaces_a_known_one(catalog: Catalog) -> None:
    """A source that cannot say who may see a document changes nothing; one that can is heard at once."""
    write = version("a", "text")
    catalog.publish(write, acl(user("ann")))
    profile_id = catalog.set_acl(write, acl(user("ann")))
    assert catalog.set_acl(write, NOBODY) == profile_id
    assert await catalog.seen(ANN, write) == ["text"]
    dark = version("dark", "dark text")
    catalog.publish(dark, NOBODY)
    assert await catalog.seen(ANN, dark) == []
    catalog.set_acl(dark, EVERYONE)
    assert await catalog.seen(ANN, dark) == ["dark text"]


async def test_a_document_without_a_list_is_visible_to_nobody(catalog: Catalog) -> None:
    """Content that was published before its list was set is shown to nobody, and so is a known empty list."""
    write, empty = version("a", "text"), version("b", "text")
    catalog.publish(write)
    catalog.publish(empty, acl())
    assert await catalog.seen(ANN, write, empty) == []


async def test_grant_sets_are_interned(catalog: Catalog) -> None:
    """Documents with equal lists share a profile; any other list is another profile."""
    shared = catalog.set_acl(version("a", "x"), acl(user("ann"), group("eng")))
    assert catalog.set_acl(version("b", "x"), acl(group("eng"), user("ann"))) == shared
    others = [
        acl(user("ann")),
        acl(user("eng"), group("ann")),
        acl(user("ann"), group("eng"), denied=(user("bob"),)),
        acl(),
        NOBODY,
        EVERYONE,
    ]
    numbers = [catalog.set_acl(version(f"c{n}", "x"), other) for n, other in enumerate(others)]
    assert len({shared, *numbers}) == len(others) + 1


async def test_a_batch_of_lists_is_the_same_as_one_at_a_time(catalog: Catalog) -> None:
    """Many lists in one transaction give each document its profile; a repeated document is refused."""
    writes = [version(f"d{n}", "x") for n in range(40)]
    lists = [acl(user("ann")) if n % 2 else acl(group(f"g{n % 5}")) for n in range(40)]
    batch = [
        AclWrite(w.document.external_id, w.document.document_id, one)
        for w, one in zip(writes, lists, strict=True)
    ]
    given = catalog.ingest.set_acls(TENANT, source().source_id, batch)
    assert given == {
        w.document.document_id: catalog.set_acl(w, one) for w, one in zip(writes, lists, strict=True)
    }
    assert len(set(given.values())) == 6
    assert catalog.ingest.set_acls(TENANT, source().source_id, batch) == given
    with pytest.raises(InputError):
        catalog.ingest.set_acls(TENANT, source().source_id, [batch[0], batch[0]])


async def test_groups_nest_and_may_contain_one_another(catalog: Catalog) -> None:
    """A member of a group is one of every group above it, on circles too."""
    write = version("a", "text")
    catalog.publish(write, acl(group("company")))
    catalog.ingest.set_memberships(
        TENANT,
        source().source_id,
        [
            member("eng", user("ann")),
            member("ops", group("eng")),
            member("company", group("ops")),
            member("eng", group("company")),
            member("company", group("company")),
        ],
    )
    assert await catalog.seen(ANN, write) == ["text"]
    assert await catalog.seen(BOB, write) == []


async def test_who_is_denied_may_not_view(catalog: Catalog) -> None:
    """A denial wins over every grant, whether it names the person, a group or everyone."""
    catalog.ingest.add_membership(TENANT, member("eng", user("ann")))
    catalog.ingest.add_membership(TENANT, member("eng", user("bob")))
    catalog.ingest.add_membership(TENANT, member("out", user("bob")))
    by_name, by_group, all_denied = version("a", "by name"), version("b", "by group"), version("c", "none")
    catalog.publish(by_name, acl(group("eng"), denied=(user("bob"),)))
    catalog.publish(by_group, acl(user("bob"), Grant(GrantKind.EVERYONE), denied=(group("out"),)))
    catalog.publish(all_denied, acl(user("ann"), denied=(Grant(GrantKind.EVERYONE),)))
    assert await catalog.seen(ANN, by_name, by_group, all_denied) == ["by name", "by group"]
    assert await catalog.seen(BOB, by_name, by_group, all_denied) == []


async def test_a_removed_member_sees_nothing_from_the_next_request_on(catalog: Catalog) -> None:
    """Removal counts at once, whoever asserted the edge, and also through groups above."""
    write = version("a", "text")
    catalog.publish(write, acl(group("all")))
    catalog.ingest.set_memberships(TENANT, source().source_id, [member("eng", user("ann"))])
    catalog.ingest.add_membership(TENANT, member("eng", user("ann")))
    catalog.ingest.add_membership(TENANT, member("all", group("eng")))
    assert await catalog.seen(ANN, write) == ["text"]
    assert catalog.ingest.remove_membership(TENANT, member("eng", user("ann")))
    assert await catalog.seen(ANN, write) == []
    assert not catalog.ingest.remove_membership(TENANT, member("eng", user("ann")))


async def test_an_edge_stands_while_anyone_asserts_it(catalog: Catalog) -> None:
    """Two sources assert an edge: when one withdraws it stays, when both do it is gone."""
    other = source("other")
    catalog.ingest.ensure_source(other)
    write, edge = version("a", "text"), member("eng", user("ann"))
    catalog.publish(write, acl(group("eng")))
    assert catalog.ingest.set_memberships(TENANT, source().source_id, [edge]) == 1
    assert catalog.ingest.set_memberships(TENANT, other.source_id, [edge, edge]) == 1
    assert not catalog.ingest.add_membership(TENANT, edge)
    assert catalog.ingest.set_memberships(TENANT, source().source_id, []) == 1
    assert catalog.ingest.set_memberships(TENANT, source().source_id, []) == 0
    assert await catalog.seen(ANN, write) == ["text"]
    catalog.ingest.set_memberships(TENANT, other.source_id, [member("ops", user("ann"))])
    assert await catalog.seen(ANN, write) == ["text"]  # the operator still says so
    catalog.ingest.remove_membership(TENANT, edge)
    assert await catalog.seen(ANN, write) == []


async def test_people_who_are_not_registered_are_refused(catalog: Catalog) -> None:
    """An unknown person or tenant gets no permit, and the error names neither."""
    catalog.ingest.add_membership(TENANT, member("eng", user("zoe")))
    for who in (
        person("zoe"),
        person("ann", "elsewhere"),
        person(""),
        person("an\x00n"),
        person("ann\ud800"),
    ):
        with pytest.raises(Forbidden) as refused:
            await catalog.query.permit(who)
        assert refused.value.error_code == "user.unknown"
        assert "zoe" not in refused.value.message


async def test_everyone_ends_at_the_tenant(catalog: Catalog) -> None:
    """Everyone is every registered person of one tenant; nothing of another tenant is reached, by any name."""
    far = source(tenant_id="other")
    catalog.ingest.ensure_source(far)
    catalog.ingest.ensure_users("other", ["ann"])
    here, there = version("a", "here"), version("a", "there", far)
    catalog.publish(here, EVERYONE)
    catalog.publish(there, EVERYONE)
    private = version("p", "private there", far)
    catalog.publish(private, acl(user("ann")))
    assert await catalog.seen(ANN, here, there, private) == ["here"]
    assert await catalog.seen(person("ann", "other"), here, there, private) == ["there", "private there"]
    catalog.ingest.ensure_users(TENANT, ["new"])
    assert await catalog.seen(person("new"), here, there) == ["here"]
    everyone = [r for r in catalog.outbox.relationships() if r.resource_id.endswith("|everyone")]
    assert {(r.resource_id, r.subject_id.partition("/")[0]) for r in everyone} == {
        ("acme|everyone", "acme"),
        ("other|everyone", "other"),
    }
    assert all("*" not in r.subject_id for r in catalog.outbox.relationships())


async def test_a_permit_of_one_tenant_opens_nothing_of_another(catalog: Catalog) -> None:
    """Even with the right profile number, hydration stays inside the permit's tenant."""
    far = source(tenant_id="other")
    catalog.ingest.ensure_source(far)
    catalog.ingest.ensure_users("other", ["ann"])
    there = version("a", "there", far)
    catalog.publish(there, EVERYONE)
    forged = replace(await catalog.query.permit(ANN), profile_ids=tuple(range(1, 100)))
    assert await catalog.query.hydrate(candidates(there), forged) == []
    assert await catalog.query.document_hits(there.document.document_id, forged) == []


async def test_the_revision_grows_with_memberships_and_profiles_only(catalog: Catalog) -> None:
    """Content and repeated writes leave permits valid; a new edge, person or grant set makes them stale."""
    write, edge = version("a", "text"), member("eng", user("ann"))
    revisions = [await revision(catalog)]
    catalog.set_acl(write, acl(group("eng")))
    revisions.append(await revision(catalog))
    catalog.ingest.add_membership(TENANT, edge)
    revisions.append(await revision(catalog))
    catalog.ingest.ensure_users(TENANT, ["someone"])
    revisions.append(await revision(catalog))
    catalog.ingest.remove_membership(TENANT, edge)
    revisions.append(await revision(catalog))
    assert revisions == sorted(set(revisions))
    catalog.publish(write, acl(group("eng")))
    catalog.ingest.remove_membership(TENANT, edge)
    catalog.ingest.ensure_users(TENANT, ["someone", "ann"])
    catalog.ingest.set_memberships(TENANT, source().source_id, [])
    catalog.ingest.tombstone(write.document.document_id)
    assert await revision(catalog) == revisions[-1]


async def test_events_add_up_to_the_mirror(catalog: Catalog) -> None:
    """Whoever applies the queued changes in order holds exactly what a reload would write."""
    catalog.ingest.set_memberships(
        TENANT,
        source().source_id,
        [
            member("a", group("b")),
            member("b", user("ann")),
            member("b", group("c")),
            member("c", user("bob")),
        ],
    )
    write = version("d", "text")
    catalog.publish(write, acl(group("a"), denied=(user("eve"),)))
    assert catalog.applied() == set(catalog.outbox.relationships())
    catalog.ingest.add_membership(TENANT, member("c", group("a")))  # closes a circle
    assert catalog.applied() == set(catalog.outbox.relationships())
    catalog.ingest.add_membership(TENANT, member("c", user("eve")))
    catalog.ingest.remove_membership(TENANT, member("b", group("c")))  # opens it
    catalog.set_acl(write, EVERYONE)
    assert catalog.applied() == set(catalog.outbox.relationships())
    catalog.ingest.tombstone(write.document.document_id)
    assert catalog.applied() == set(catalog.outbox.relationships())
    document = tenant_object_id(TENANT, write.document.document_id)
    assert not [r for r in catalog.applied() if r.resource_id == document]


async def test_nothing_changed_queues_nothing(catalog: Catalog) -> None:
    """Writing the same lists, edges and people again leaves the outbox as it is."""
    write, edges = version("d", "text"), [member("a", group("b")), member("b", user("ann"))]
    for _ in range(2):
        catalog.publish(write, acl(group("a")))
        catalog.ingest.set_memberships(TENANT, source().source_id, edges)
        catalog.ingest.ensure_users(TENANT, ["ann"])
        queued = [event.outbox_id for event in catalog.outbox.take(1_000)]
    catalog.publish(write, acl(group("a")))
    catalog.set_acl(write, NOBODY)
    assert [event.outbox_id for event in catalog.outbox.take(1_000)] == queued


async def test_a_changed_list_is_queued_for_the_points(catalog: Catalog) -> None:
    """The index hears of a document's new profile when it may hold points of it."""
    write = version("d", "text")
    catalog.set_acl(write, acl(user("ann")))
    assert catalog.outbox.take(10, ("document.profile",)) == []
    catalog.publish(write)
    profile_id = catalog.set_acl(write, acl(user("bob")))
    [event] = catalog.outbox.take(10, ("document.profile",))
    assert event.payload == {"document_id": write.document.document_id, "profile_id": profile_id}


async def test_checks_wait_for_queued_revocations(catalog: Catalog) -> None:
    """No token is given before SpiceDB has seen a change that takes away; new documents are not waited for."""
    with pytest.raises(ChecksUnavailable):
        await catalog.query.permission_token()
    catalog.settle("token-1")
    assert await catalog.query.permission_token() == "token-1"
    write = version("d", "text")
    catalog.publish(write, acl(user("ann")))
    assert await catalog.query.permission_token() == "token-1"
    catalog.set_acl(write, acl(user("bob")))
    with pytest.raises(ChecksUnavailable):
        await catalog.query.permission_token()
    catalog.settle("token-2")
    assert await catalog.query.permission_token() == "token-2"
    catalog.ingest.add_membership(TENANT, member("eng", user("ann")))
    [event] = catalog.outbox.take(10)
    assert catalog.outbox.fail(event.outbox_id, "refused", 1)
    with pytest.raises(ChecksUnavailable):  # parked is not applied
        await catalog.query.permission_token()
    catalog.outbox.acknowledge([event.outbox_id], "token-3")
    assert (await catalog.query.permit(ANN)).token == "token-3"


async def test_a_fresh_permit_is_refused_while_changes_wait(catalog: Catalog) -> None:
    """It holds the profiles of `permit` and the newest token, for an audience too, and none before that token is there."""
    one, two = version("a", "one"), version("b", "two")
    catalog.publish(one, acl(user("ann"), user("bob")))
    catalog.publish(two, acl(user("ann")))
    both = replace(ANN, readers=("bob",))
    for asker in (ANN, both):
        with pytest.raises(ChecksUnavailable):
            await catalog.query.fresh_permit(asker)
    catalog.settle("token-1")
    for asker in (ANN, both):
        fresh = await catalog.query.fresh_permit(asker)
        assert fresh == replace(await catalog.query.permit(asker), token="token-1")
        assert fresh.principal == asker
    catalog.set_acl(two, acl(user("bob")))
    assert (await catalog.query.permit(ANN)).token == "token-1"
    for asker in (ANN, both):
        with pytest.raises(ChecksUnavailable):
            await catalog.query.fresh_permit(asker)
    catalog.settle("token-2")
    assert (await catalog.query.fresh_permit(both)).token == "token-2"
    catalog.ingest.remove_user(TENANT, "ann")
    with pytest.raises(Unauthenticated):  # said before that changes wait
        await catalog.query.fresh_permit(ANN)


def test_names_must_name_someone(catalog: Catalog) -> None:
    """An empty or endless name of a person or group is refused: it would mean everyone, or nobody."""
    for bad in ("", "x" * 1_000):
        with pytest.raises(InputError):
            catalog.ingest.add_membership(TENANT, member(bad, user("ann")))
        with pytest.raises(InputError):
            catalog.ingest.add_membership(TENANT, member("eng", group(bad)))
        with pytest.raises(InputError):
            catalog.ingest.ensure_users(TENANT, [bad])
        with pytest.raises(InputError):
            catalog.set_acl(version("a", "x"), acl(user(bad)))


def test_edges_need_a_tenant(catalog: Catalog) -> None:
    """Removing or replacing edges of a tenant that does not exist is an error, never a silent success."""
    with pytest.raises(NotFound):
        catalog.ingest.remove_membership("elsewhere", member("eng", user("ann")))
    with pytest.raises(NotFound):
        catalog.ingest.set_memberships("elsewhere", "source", [member("eng", user("ann"))])


def test_a_source_belongs_to_one_tenant(catalog: Catalog) -> None:
    """A source id cannot be taken over by another tenant; the same tenant may change its options."""
    catalog.ingest.ensure_source(replace(source(), collection="notes", options={"path": "/x"}))
    [listed] = catalog.ingest.list_sources(TENANT)
    assert (listed["collection"], listed["options"]) == ("notes", {"path": "/x"})
    with pytest.raises(Conflict):
        catalog.ingest.ensure_source(replace(source(), tenant_id="other"))


def about(catalog: Catalog, user_id: str) -> set[str]:
    """What the mirror says of a person: the types of what they are a member, viewer or denied of."""
    of_user = tenant_object_id(TENANT, user_id)
    return {row.resource_type for row in catalog.outbox.relationships() if row.subject_id == of_user}


async def test_a_removed_person_is_refused_and_in_no_group(catalog: Catalog) -> None:
    """From the next permit on; profiles that name them stay, so that nobody else sees more or less."""
    named, shared = version("a", "named"), version("b", "shared")
    catalog.publish(named, acl(user("ann"), user("bob"), denied=(user("eve"),)))
    catalog.publish(shared, acl(group("eng")))
    catalog.ingest.set_memberships(
        TENANT, source().source_id, [member("eng", user("ann")), member("eng", user("bob"))]
    )
    catalog.ingest.add_membership(TENANT, member("ops", user("ann")))
    catalog.ingest.add_membership(TENANT, member("ops", user("eve")))
    catalog.settle("token-1")
    assert await catalog.seen(ANN, named, shared) == ["named", "shared"]
    others = [await catalog.seen(who, named, shared) for who in (BOB, EVE)]
    assert catalog.ingest.remove_user(TENANT, "ann")
    with pytest.raises(Unauthenticated) as refused:
        await catalog.query.permit(ANN)
    assert refused.value.error_code == "user.removed"
    assert about(catalog, "ann") == {"profile"}
    with pytest.raises(ChecksUnavailable):  # until SpiceDB has heard of it
        await catalog.query.permission_token()
    deleted = [row for event in catalog.outbox.take(100) for row in event.payload["delete"]]
    assert {Relationship(*row).resource_id for row in deleted} == {"acme/eng", "acme/ops", "acme|everyone"}
    assert [await catalog.seen(who, named, shared) for who in (BOB, EVE)] == others
    assert not catalog.ingest.remove_user(TENANT, "ann")
    with pytest.raises(NotFound):
        catalog.ingest.remove_user(TENANT, "anne")
    with pytest.raises(NotFound):
        catalog.ingest.remove_user("elsewhere", "ann")


async def test_no_source_brings_a_removed_person_back(catalog: Catalog) -> None:
    """Named again as a person, a member or a viewer, they stay out; the operator is told to let them in first."""
    edges = [member("eng", user("ann")), member("eng", user("bob"))]
    catalog.ingest.set_memberships(TENANT, source().source_id, edges)
    catalog.ingest.remove_user(TENANT, "ann")
    catalog.settle("token-1")
    for _ in range(2):
        catalog.ingest.ensure_users(TENANT, ["ann", "bob"], source().source_id)
        assert catalog.ingest.set_memberships(TENANT, source().source_id, edges) == 0
    catalog.publish(version("a", "text"), acl(user("ann"), group("eng")))
    assert about(catalog, "ann") == {"profile"}
    with pytest.raises(Unauthenticated):
        await catalog.query.permit(ANN)
    with pytest.raises(Conflict) as refused:
        catalog.ingest.add_membership(TENANT, member("eng", user("ann")))
    assert refused.value.error_code == "user.removed"
    assert await catalog.seen(BOB, version("a", "text")) == ["text"]


async def test_the_operator_lets_a_removed_person_back_in(catalog: Catalog) -> None:
    """They are in everyone at once and in a source's group when it says so again; what vouched before is refused."""
    shared, open_to_all = version("a", "shared"), version("b", "open")
    catalog.publish(shared, acl(group("eng")))
    catalog.publish(open_to_all, EVERYONE)
    catalog.ingest.set_memberships(TENANT, source().source_id, [member("eng", user("ann"))])
    old = replace(ANN, issued_at_s=int(time.time()) - 60)
    assert await catalog.seen(old, shared, open_to_all) == ["shared", "open"]
    catalog.ingest.remove_user(TENANT, "ann")
    catalog.ingest.admit_users(TENANT, ["ann", "bob", "new"])
    for stale in (old, ANN):
        with pytest.raises(Unauthenticated) as refused:
            await catalog.query.permit(stale)
        assert refused.value.error_code == "token.revoked"
    fresh = replace(ANN, issued_at_s=int(time.time()))
    assert await catalog.seen(fresh, shared, open_to_all) == ["open"]
    assert await catalog.seen(person("new"), shared, open_to_all) == ["open"]
    assert catalog.ingest.set_memberships(TENANT, source().source_id, [member("eng", user("ann"))]) == 1
    assert await catalog.seen(fresh, shared, open_to_all) == ["shared", "open"]
    assert catalog.applied() == set(catalog.outbox.relationships())
    assert await catalog.seen(BOB, open_to_all) == ["open"]


async def test_readers_narrow_a_permit_to_what_all_of_them_hold(catalog: Catalog) -> None:
    """Who asks with readers gets the profiles that everyone has; the order of the readers does not matter."""
    writes = [version(name, name) for name in "abcd"]
    lists = [acl(user("ann")), acl(user("ann"), user("bob")), acl(group("eng")), EVERYONE]
    for write, one in zip(writes, lists, strict=True):
        catalog.publish(write, one)
    for name in ("ann", "bob", "eve"):
        catalog.ingest.add_membership(TENANT, member("eng", user(name)))
    assert await catalog.seen(ANN, *writes) == ["a", "b", "c", "d"]
    assert await catalog.seen(replace(ANN, readers=("bob",)), *writes) == ["b", "c", "d"]
    for readers in (("bob", "eve"), ("eve", "bob")):
        permit = await catalog.query.permit(replace(ANN, readers=readers))
        assert permit.principal.readers == readers
        assert await catalog.seen(permit.principal, *writes) == ["c", "d"]
    catalog.ingest.remove_membership(TENANT, member("eng", user("eve")))
    assert await catalog.seen(replace(ANN, readers=("bob", "eve")), *writes) == ["d"]


async def test_a_reader_who_would_be_refused_closes_the_permit(catalog: Catalog) -> None:
    """A reader who is unknown or was removed gives audience.unknown; whoever asks is refused in their own name first."""
    catalog.ingest.remove_user(TENANT, "eve")
    for readers in (("nobody",), ("bob", "eve")):
        with pytest.raises(Forbidden) as caught:
            await catalog.query.permit(replace(ANN, readers=readers))
        assert caught.value.error_code == "audience.unknown"
    with pytest.raises(Unauthenticated) as refused:
        await catalog.query.permit(replace(EVE, readers=("bob",)))
    assert refused.value.error_code == "user.removed"
