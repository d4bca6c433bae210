"""Delivery of the outbox, on twins: order, poison, engines that are down, deaths in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from cortex.documents import EVERYONE, Acl
from cortex.errors import CortexError, InputError, Misconfigured, Unavailable
from cortex.ports.outbox import Relationship
from data_jobs.deliver import deliver, drain, park_unknown
from data_jobs.reload_permissions import reload_permissions
from tests.contracts.catalog_words import TENANT, acl, group, member, person, source, user, version
from tests.twins.catalog import CatalogTwin
from tests.twins.permissions import PermissionsTwin


@dataclass(slots=True)
class Writer(PermissionsTwin):
    """SpiceDB that can be down, and that refuses one subject."""

    refused_subject: str = ""
    failure: CortexError | None = None
    writes: list[int] = field(default_factory=list)
    states: list[set[Relationship]] = field(default_factory=list)  # the tuples after each write

    def apply(self, touch: Sequence[Relationship], delete: Sequence[Relationship]) -> str:
        if self.failure:
            raise self.failure
        if self.refused_subject and any(row.subject_id == self.refused_subject for row in touch):
            raise InputError("SpiceDB refused a change")
        self.writes.append(len(touch) + len(delete))
        token = PermissionsTwin.apply(self, touch, delete)
        self.states.append(self.tuples)
        return token


@dataclass(slots=True)
class Index:
    """The index as delivery sees it; `refused` documents are poison."""

    deleted: list[str] = field(default_factory=list)
    profiles: dict[str, int] = field(default_factory=dict)
    failure: CortexError | None = None
    refused: str = ""

    def delete_chunks(self, chunk_ids: Sequence[str]) -> None:
        assert chunk_ids, "an empty selector"
        if self.failure:
            raise self.failure
        self.deleted += chunk_ids

    def set_profile(self, document_id: str, profile_id: int) -> None:
        if document_id == self.refused:
            raise InputError("refused")
        self.profiles[document_id] = profile_id


class Killed(BaseException):
    """Ends a consumer without any chance to tidy up."""


@dataclass(slots=True)
class Catalog(CatalogTwin):
    """A catalog whose consumer can be killed just before an acknowledgement."""

    dies_at_acknowledgement: bool = False

    def acknowledge(self, outbox_ids: Sequence[int], permission_token: str = "") -> None:
        if self.dies_at_acknowledgement:
            raise Killed
        CatalogTwin.acknowledge(self, outbox_ids, permission_token)


@pytest.fixture
def catalog() -> Catalog:
    twin = Catalog()
    twin.ensure_source(source())
    twin.ensure_users(TENANT, ["ann", "bob"])
    return twin


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("data_jobs.deliver._ATTEMPT_PAUSE_S", 0.0)
    yield


def publish(catalog: CatalogTwin, name: str, content: str) -> list[str]:
    """Publish a version that everyone may see; returns its chunk ids."""
    write = version(name, content)
    document = write.document
    catalog.set_acl(TENANT, document.source_id, name, document.document_id, EVERYONE)
    catalog.stage_document(write)
    catalog.publish_document(document.document_id, document.content_sha256)
    return [chunk.chunk_id for chunk in write.chunks]


def test_everything_arrives(catalog: CatalogTwin) -> None:
    """Tuples reach SpiceDB, obsolete points and new profiles the index, and the newest token is kept."""
    writer, index = Writer(), Index()
    old = publish(catalog, "a", "old")
    publish(catalog, "a", "new")
    document = version("a", "new").document
    profile_id = catalog.set_acl(TENANT, document.source_id, "a", document.document_id, acl(user("ann")))
    drain(catalog, writer, index)
    assert writer.tuples == set(catalog.relationships())
    assert index.deleted == old
    assert index.profiles == {document.document_id: profile_id}
    assert catalog.backlog().n_waiting == 0
    assert catalog.token == f"twin-{writer.revision}"


def test_of_changes_to_one_tuple_the_last_counts(catalog: CatalogTwin) -> None:
    """Added, removed, added and removed again within one batch is one write, and the tuple is gone."""
    writer, edge = Writer(), member("eng", user("ann"))
    for _ in range(2):
        catalog.add_membership(TENANT, edge)
        catalog.remove_membership(TENANT, edge)
    drain(catalog, writer)
    assert len(writer.writes) == 1
    assert writer.tuples == set(catalog.relationships())
    assert not [row for row in writer.tuples if row.resource_id == f"{TENANT}/eng"]


def test_large_batches_fit_spicedb(catalog: CatalogTwin) -> None:
    """Thousands of changes become writes of at most a thousand, in order."""
    writer = Writer()
    for n in range(9):
        catalog.ensure_users(TENANT, [f"user{n}-{i}" for i in range(300)])
    drain(catalog, writer)
    assert max(writer.writes) <= 1_000
    assert sum(writer.writes) == 2_702
    assert writer.tuples == set(catalog.relationships())


def test_a_refused_permission_event_is_parked_and_keeps_checks_closed(catalog: CatalogTwin) -> None:
    """The others in its batch are applied; draining says so; a reload from the mirror heals it."""
    writer = Writer(refused_subject=f"{TENANT}/poison")
    catalog.add_membership(TENANT, member("eng", user("ann")))
    catalog.add_membership(TENANT, member("eng", user("poison")))
    catalog.add_membership(TENANT, member("eng", user("bob")))
    with pytest.raises(Unavailable) as parked:
        drain(catalog, writer)
    assert parked.value.error_code == "permissions.parked"
    assert {row.subject_id for row in writer.tuples if row.resource_id == f"{TENANT}/eng"} == {
        f"{TENANT}/ann",
        f"{TENANT}/bob",
    }
    assert catalog.backlog().n_parked == 1
    writer.refused_subject = ""
    report = reload_permissions(catalog, writer, writer)
    assert (report.n_tuples, report.n_events_contained) == (1, 1)
    assert writer.tuples == set(catalog.relationships())
    drain(catalog, writer)


def test_a_reload_takes_away_what_waiting_deletions_meant(catalog: CatalogTwin) -> None:
    """A server keeps its tuples: a removal that was queued when the reload acknowledged it is done, not forgotten."""
    writer = Writer()
    catalog.add_membership(TENANT, member("eng", user("ann")))
    catalog.add_membership(TENANT, member("eng", user("bob")))
    drain(catalog, writer)
    catalog.remove_membership(TENANT, member("eng", user("ann")))
    n_before = len(writer.writes)
    report = reload_permissions(catalog, writer, writer)
    assert (report.n_stale, report.n_tuples, report.n_events_contained) == (1, 0, 1)
    assert writer.tuples == set(catalog.relationships())
    assert len(writer.writes) == n_before + 1  # what is there already is not written again
    assert catalog.backlog().n_waiting == 0
    assert reload_permissions(catalog, writer, writer).n_stale == 0
    assert len(writer.writes) == n_before + 1


async def test_a_reload_of_many_writes_never_lets_in_whom_neither_state_does(
    catalog: CatalogTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More changes than fit one write: one who is denied before and after is so after every write between."""
    monkeypatch.setattr("data_jobs.reload_permissions.MOST_CHANGES", 10)
    catalog.ensure_users(TENANT, ["carol"])
    catalog.set_memberships(TENANT, source().source_id, [member("eng", user("carol"))])
    documents = [version(f"page {n}", "text").document for n in range(12)]

    def give(access: Acl) -> None:
        for one in documents:
            catalog.set_acl(TENANT, one.source_id, one.external_id, one.document_id, access)

    give(acl(user("ann"), group("eng"), denied=(user("carol"),)))
    writer = Writer()
    drain(catalog, writer)
    give(acl(user("bob"), group("eng"), user("carol"), denied=(user("carol"), user("ann"))))
    writer.states.clear()
    report = reload_permissions(catalog, writer, writer)
    assert report.n_stale >= len(documents)
    assert writer.tuples == set(catalog.relationships())
    assert len(writer.states) > 3
    some = [one.document_id for one in (documents[0], documents[-1])]
    for tuples in writer.states:
        then = PermissionsTwin(tuples=tuples, is_open=True)
        assert await then.allowed(person("carol"), some, "") == frozenset()
    assert await writer.allowed(person("bob"), some, "") == set(some)
    assert await writer.allowed(person("ann"), some, "") == frozenset()


def test_while_spicedb_is_down_the_index_still_hears(catalog: CatalogTwin) -> None:
    """Each engine gets its events although the other is down; nothing of the one that is down is lost or parked."""
    writer, index = Writer(failure=Unavailable("down")), Index()
    old = publish(catalog, "a", "old")
    publish(catalog, "a", "new")
    with pytest.raises(Unavailable):
        deliver(catalog, writer, index)
    assert index.deleted == old
    writer.failure, index.failure = None, Unavailable("down")
    publish(catalog, "a", "newer")
    with pytest.raises(Unavailable):
        deliver(catalog, writer, index)
    assert writer.tuples == set(catalog.relationships())
    index.failure = None
    drain(catalog, writer, index)
    assert (catalog.backlog().n_waiting, catalog.backlog().n_parked) == (0, 0)
    assert len(index.deleted) == 2


def test_a_wrong_key_parks_nothing(catalog: CatalogTwin) -> None:
    """A misconfiguration is no fault of the event: it stops the consumer and every event waits."""
    writer = Writer(failure=Misconfigured("the preshared token is wrong"))
    with pytest.raises(Misconfigured):
        deliver(catalog, writer, Index())
    assert catalog.backlog().n_parked == 0
    assert catalog.backlog().n_waiting > 0


def test_a_poisoned_index_event_costs_no_other(catalog: CatalogTwin) -> None:
    """A profile change that the index refuses is parked with its reason; the next documents get theirs."""
    documents = [version(name, "text").document for name in ("a", "b", "c")]
    for document in documents:
        publish(catalog, document.external_id, "text")
        catalog.set_acl(
            TENANT, document.source_id, document.external_id, document.document_id, acl(user("ann"))
        )
    index = Index(refused=documents[1].document_id)
    drain(catalog, Writer(), index)
    assert set(index.profiles) == {documents[0].document_id, documents[2].document_id}
    assert catalog.backlog().n_parked == 1


def test_points_that_came_back_are_not_deleted(catalog: CatalogTwin) -> None:
    """A deletion that is late spares the chunks of content that was restored meanwhile."""
    first = publish(catalog, "a", "first")
    second = publish(catalog, "a", "second")
    publish(catalog, "a", "first")
    index = Index()
    drain(catalog, Writer(), index)
    assert index.deleted == second
    assert first != second


def test_a_death_before_the_acknowledgement_repeats_harmlessly(catalog: Catalog) -> None:
    """A consumer killed after the writes leaves everything to the next one, which ends in the same state."""
    writer, index = Writer(), Index()
    old = publish(catalog, "a", "old")
    publish(catalog, "a", "new")

    catalog.dies_at_acknowledgement = True
    with pytest.raises(Killed):
        deliver(catalog, writer, index)
    catalog.dies_at_acknowledgement = False
    assert writer.tuples  # it was written, and nobody remembers
    drain(catalog, writer, index)
    assert writer.tuples == set(catalog.relationships())
    assert set(index.deleted) == set(old)


def test_half_an_event_is_parked(catalog: CatalogTwin) -> None:
    """Events with missing or cut-off fields are parked, never applied in part."""
    drain(catalog, Writer())
    catalog._queue("tuples", "x", {"touch": [["group", "t/g"]], "delete": []})
    catalog._queue("tuples", "x", {"delete": []})
    catalog._queue("chunks.obsolete", "x", {"document_id": "d"})
    catalog._queue("document.profile", "x", {"document_id": "d"})
    writer = Writer()
    deliver(catalog, writer, Index())
    assert writer.tuples == set()
    assert catalog.backlog().n_parked == 4


def test_what_nobody_consumes_is_parked(catalog: CatalogTwin) -> None:
    """An event of an unknown topic does not wait for ever in silence."""
    catalog._queue("weather", "x", {})
    drain(catalog, Writer(), Index())
    assert park_unknown(catalog) == 1
    assert (catalog.backlog().n_waiting, catalog.backlog().n_parked) == (0, 1)


def test_draining_waits_for_the_consumer_that_holds_the_lock(catalog: CatalogTwin) -> None:
    """While another consumer works, draining waits for it, and says when it takes too long."""

    class Locked(CatalogTwin):
        def lock(self) -> bool:
            return False

    locked = Locked()
    locked.ensure_users(TENANT, ["ann"])
    with pytest.raises(Unavailable) as slow:
        drain(locked, Writer(), timeout_s=0.1)
    assert slow.value.error_code == "outbox.slow"
