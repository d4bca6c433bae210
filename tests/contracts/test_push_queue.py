"""The queue of pushes, on the twin and on Postgres."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adapters.catalog.ingest import PostgresIngestCatalog
from adapters.catalog.pushes import CatalogPushes
from cortex.ports.connectors import SourceConfig
from cortex.ports.ingest import Push, PushQueue
from tests.twins.pushes import TwinPushes

CHAT = SourceConfig("acme", "chat-1", "slack", "acme", "chat", {"url": "https://slack.com/api/"})
OTHER = SourceConfig("globex", "chat-2", "slack", "globex")


@pytest.fixture(params=["twin", pytest.param("postgres", marks=pytest.mark.services)])
def queue(request: pytest.FixtureRequest) -> Iterator[PushQueue]:
    if request.param == "twin":
        yield TwinPushes(CHAT, OTHER)
        return
    url = request.getfixturevalue("catalog_url")
    catalog = PostgresIngestCatalog(url)
    for config in (CHAT, OTHER):
        catalog.ensure_source(config)
    catalog.close()
    yield CatalogPushes(url)


def test_a_push_is_recorded_once_and_waits_until_it_is_settled(queue: PushQueue) -> None:
    """The same push again, before or after it was acted on, is known; pushes of another source are not touched."""
    assert queue.record("chat-1", "Ev1", ["C0GEN/1.0"])
    assert queue.record("chat-1", "Ev2", [])
    assert queue.record("chat-2", "Ev1", ["C0/1.0"])
    assert not queue.record("chat-1", "Ev1", ["C0GEN/2.0"])
    assert queue.waiting("chat-1") == [Push("Ev1", ("C0GEN/1.0",)), Push("Ev2", ())]
    assert queue.waiting_sources() == ["chat-1", "chat-2"]
    queue.settle("chat-1", ["Ev1", "Ev2"])
    assert (queue.waiting("chat-1"), queue.waiting_sources()) == ([], ["chat-2"])
    assert not queue.record("chat-1", "Ev2", [])


def test_a_source_is_found_by_its_id_alone(queue: PushQueue) -> None:
    """A push names no tenant; an unknown source is none."""
    assert queue.source("chat-1") == CHAT
    assert queue.source("chat-3") is None
