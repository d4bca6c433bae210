"""The catalog's ports, on the twin and on Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from adapters.catalog.ingest import PostgresIngestCatalog
from adapters.catalog.outbox import PostgresOutbox
from adapters.catalog.query import PostgresQueryCatalog
from cortex.documents import Acl
from cortex.ports.ingest import DocumentWrite, IngestCatalog
from cortex.ports.outbox import Outbox, Relationship
from cortex.ports.query import QueryCatalog
from cortex.principals import Principal
from tests.contracts.catalog_words import TENANT, candidates, source
from tests.twins.catalog import CatalogTwin


@dataclass(frozen=True, slots=True)
class Catalog:
    """One catalog behind its three ports, with what most tests do to it."""

    ingest: IngestCatalog
    query: QueryCatalog
    outbox: Outbox

    def publish(self, write: DocumentWrite, acl: Acl | None = None) -> tuple[str, ...]:
        """Set the access list if one is given, then stage and show a version."""
        document = write.document
        if acl is not None:
            self.set_acl(write, acl)
        self.ingest.stage_document(write)
        return self.ingest.publish_document(document.document_id, document.content_sha256)

    def set_acl(self, write: DocumentWrite, acl: Acl) -> int:
        document = write.document
        return self.ingest.set_acl(
            document.tenant_id, document.source_id, document.external_id, document.document_id, acl
        )

    async def seen(self, principal: Principal, *writes: DocumentWrite) -> list[str]:
        """The texts of those versions' chunks that a person gets, in order."""
        permit = await self.query.permit(principal)
        return [hit.text for hit in await self.query.hydrate(candidates(*writes), permit)]

    def settle(self, token: str) -> None:
        """Acknowledge everything that waits."""
        self.outbox.acknowledge([event.outbox_id for event in self.outbox.take(10_000)], token)

    def applied(self) -> set[Relationship]:
        """What SpiceDB would hold after all events so far; every event is still there."""
        held: set[Relationship] = set()
        for event in self.outbox.take(10_000, ("tuples",)):
            held -= {Relationship(*row) for row in event.payload["delete"]}
            held |= {Relationship(*row) for row in event.payload["touch"]}
        return held


@pytest.fixture(params=["twin", pytest.param("postgres", marks=pytest.mark.services)])
async def catalog(request: pytest.FixtureRequest) -> AsyncIterator[Catalog]:
    """A catalog with one source and with ann, bob and eve registered."""
    if request.param == "twin":
        twin = CatalogTwin()
        prepare(twin)
        yield Catalog(twin, twin, twin)
        return
    url = request.getfixturevalue("catalog_url")
    ingest, query, outbox = (
        PostgresIngestCatalog(url),
        PostgresQueryCatalog(url, writes_wait_s=0.2),
        PostgresOutbox(url),
    )
    await query.open()
    try:
        prepare(ingest)
        yield Catalog(ingest, query, outbox)
    finally:
        await query.close()
        ingest.close()
        outbox.close()


def prepare(ingest: IngestCatalog) -> None:
    ingest.ensure_source(source())
    ingest.ensure_users(TENANT, ["ann", "bob", "eve"])
