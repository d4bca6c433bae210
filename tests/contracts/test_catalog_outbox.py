"""What every Outbox promises, on the twin and on Postgres."""

from __future__ import annotations

from cortex.documents import EVERYONE
from tests.contracts.catalog_words import TENANT, member, user, version
from tests.contracts.conftest import Catalog


def edges(catalog: Catalog, *names: str) -> None:
    for name in names:
        catalog.ingest.add_membership(TENANT, member("eng", user(name)))


def test_events_come_in_order_until_they_are_acknowledged(catalog: Catalog) -> None:
    """Taking does not remove: the oldest come first, again and again, until they are acknowledged."""
    catalog.settle("t")
    edges(catalog, "a", "b", "c")
    taken = catalog.outbox.take(2)
    assert [event.payload["touch"][0][4] for event in taken] == ["acme/a", "acme/b"]
    assert catalog.outbox.take(2) == taken
    catalog.outbox.acknowledge([event.outbox_id for event in taken])
    assert [event.payload["touch"][0][4] for event in catalog.outbox.take(10)] == ["acme/c"]


def test_topics_are_taken_apart(catalog: Catalog) -> None:
    """One topic can be taken while another waits, and is counted by itself."""
    catalog.settle("t")
    catalog.publish(version("a", "old"), EVERYONE)
    catalog.publish(version("a", "new"))
    edges(catalog, "a")
    assert {event.topic for event in catalog.outbox.take(10, ("chunks.obsolete",))} == {"chunks.obsolete"}
    assert catalog.outbox.backlog(("chunks.obsolete",)).n_waiting == 1
    newest = catalog.outbox.backlog().newest_id
    assert catalog.outbox.take(100)[-1].outbox_id == newest
    catalog.outbox.acknowledge([e.outbox_id for e in catalog.outbox.take(10, ("tuples",))], "t2")
    assert catalog.outbox.waits_up_to(newest)
    assert not catalog.outbox.waits_up_to(newest, ("tuples",))


def test_an_event_that_keeps_failing_is_parked(catalog: Catalog) -> None:
    """After enough failures an event is counted as parked and no longer taken; the others go on."""
    catalog.settle("t")
    edges(catalog, "a", "b")
    first, second = catalog.outbox.take(10)
    assert not catalog.outbox.fail(first.outbox_id, "refused", 2)
    assert catalog.outbox.take(10) == [first, second]
    assert catalog.outbox.fail(first.outbox_id, "refused", 2)
    assert catalog.outbox.take(10) == [second]
    backlog = catalog.outbox.backlog()
    assert (backlog.n_waiting, backlog.n_parked, backlog.newest_id) == (1, 1, second.outbox_id)


def test_a_snapshot_names_the_events_that_it_contains(catalog: Catalog) -> None:
    """A reload gets the whole mirror with every event about tuples that is not done, parked ones too."""
    catalog.settle("t")
    edges(catalog, "a", "b")
    first, second = catalog.outbox.take(10)
    catalog.outbox.fail(first.outbox_id, "refused", 1)
    with catalog.outbox.snapshot() as snapshot:
        rows = list(snapshot.relationships())
        assert list(snapshot.relationships()) == rows  # as often as it is asked
    assert snapshot.outbox_ids == (first.outbox_id, second.outbox_id)
    assert set(rows) == set(catalog.outbox.relationships())
    assert len(rows) == len(set(rows))
    catalog.outbox.acknowledge(snapshot.outbox_ids, "t2")
    assert catalog.outbox.backlog().n_parked == 0


def test_waiting_ends_when_something_is_queued(catalog: Catalog) -> None:
    """A consumer that waits returns at once when there is something, and empty-handed when the time is over."""
    catalog.settle("t")
    assert not catalog.outbox.wait(0.05)
    edges(catalog, "a")
    assert catalog.outbox.wait(5)


def test_relationships_of_one_tenant(catalog: Catalog) -> None:
    """The mirror can be streamed for one tenant alone."""
    catalog.ingest.ensure_users("other", ["ann"])
    theirs = list(catalog.outbox.relationships("other"))
    assert [r.subject_id for r in theirs] == ["other/ann"]
    assert len(list(catalog.outbox.relationships())) == len(theirs) + 3
