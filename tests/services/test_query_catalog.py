"""The catalog as a question reads it, on the real Postgres: round trips, waiting for changes, and connections that end.

When Postgres ends those that the pool holds, reads go on and writes are sent once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from adapters.catalog.ingest import PostgresIngestCatalog
from adapters.catalog.outbox import PostgresOutbox
from adapters.catalog.query import PostgresQueryCatalog
from cortex.errors import ChecksUnavailable, Unavailable
from cortex.evidence import Answer, Citation, SearchResult, Support
from tests.contracts.catalog_words import TENANT, acl, candidates, person, source, user, version
from tests.contracts.conftest import Catalog

pytestmark = pytest.mark.services

ANN = person("ann")
PAGE = version("a", "one\ntwo")
N_HELD = 8  # as many as the pool may hold


class Server:
    """The database as its operator sees it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as operator:
            return operator.execute(query).fetchall()

    def n_readers(self, of: str = "true") -> int:
        """How many connections the query side's pool has."""
        [[n]] = self.ask(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'reader' AND {of}")
        return int(n)

    def end_readers(self, limit: int = N_HELD) -> None:
        """End them, as a restart does, and wait until they are gone."""
        self.ask(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            f" WHERE application_name = 'reader' LIMIT {limit}"
        )

    async def wait_for_locks(self, n: int) -> None:
        """Wait until so many of them wait for a lock."""
        deadline = time.monotonic() + 10
        while self.n_readers("wait_event_type = 'Lock'") < n:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)


@pytest.fixture
def server(catalog_url: str) -> Server:
    return Server(catalog_url)


@pytest.fixture
async def catalog(catalog_url: str) -> AsyncIterator[Catalog]:
    """A catalog with one page of Ann's, settled."""
    ingest, outbox = PostgresIngestCatalog(catalog_url), PostgresOutbox(catalog_url)
    query = PostgresQueryCatalog(f"{catalog_url}?application_name=reader")
    await query.open()
    try:
        made = Catalog(ingest, query, outbox)
        ingest.ensure_source(source())
        ingest.ensure_users(TENANT, ["ann"])
        made.publish(PAGE, acl(user("ann")))
        made.settle("token-1")
        yield made
    finally:
        await query.close()
        ingest.close()
        outbox.close()


async def fill_pool(catalog: Catalog, server: Server) -> None:
    """Ask so much at once that the pool has all the connections it may, and leave them idle."""
    deadline = time.monotonic() + 20
    while server.n_readers() < N_HELD:
        assert time.monotonic() < deadline
        await asyncio.gather(*(catalog.query.ping() for _ in range(8 * N_HELD)))


async def permitted(catalog: Catalog) -> Any:
    return (await catalog.query.permit(ANN)).profile_ids


async def freshly_permitted(catalog: Catalog) -> Any:
    return (await catalog.query.fresh_permit(ANN)).token


async def hydrated(catalog: Catalog) -> Any:
    permit = await catalog.query.permit(ANN)
    return [hit.text for hit in await catalog.query.hydrate(candidates(PAGE), permit)]


async def recorded(catalog: Catalog) -> Any:
    """Record an answer with one citation."""
    found = SearchResult((), (), Support(None, 0.0, 0.0, False), (), {}, "")
    cited = Citation(1, "f", PAGE.document.document_id, "", "", PAGE.chunks[0].anchor, "one")
    answer = Answer("one [1]", (cited,), False, "extractive")
    return len(await catalog.query.record_answer(ANN, "what?", found, answer)) > 0


async def audited(catalog: Catalog) -> Any:
    return await catalog.query.audit(ANN, "looked", {"n": 1})


CALLS: dict[str, tuple[Callable[[Catalog], Awaitable[Any]], Any]] = {
    "permit": (permitted, (1,)),
    "fresh_permit": (freshly_permitted, "token-1"),
    "token": (lambda catalog: catalog.query.permission_token(), "token-1"),
    "hydrate": (hydrated, ["one", "two"]),
    "record_answer": (recorded, True),
    "audit": (audited, None),
}


@pytest.mark.parametrize("name", CALLS)
async def test_every_call_goes_on_when_all_connections_were_lost(
    catalog: Catalog, server: Server, name: str
) -> None:
    """With all that the pool holds ended, the next call is answered at once, and so are as many at once as it holds."""
    call, expected = CALLS[name]
    for n_at_once in (1, N_HELD, 3 * N_HELD):
        await fill_pool(catalog, server)
        server.end_readers()
        began = time.monotonic()
        got = await asyncio.gather(*(call(catalog) for _ in range(n_at_once)))
        assert got == [expected] * n_at_once
        assert time.monotonic() - began < 1.5


async def test_a_read_that_is_lost_half_way_is_asked_once_more(catalog: Catalog, server: Server) -> None:
    """A connection that ends while its read runs costs nothing but time."""
    await catalog.query.ping()
    with psycopg.connect(server.url) as holder:
        holder.execute("LOCK TABLE users")
        asking = asyncio.create_task(permitted(catalog))
        await server.wait_for_locks(1)
        server.end_readers()
    assert await asking == (1,)


async def test_a_write_that_is_lost_half_way_is_not_sent_again(catalog: Catalog, server: Server) -> None:
    """Nobody can say whether it was applied, so whoever wrote hears of it; here it was not."""
    await catalog.query.ping()
    with psycopg.connect(server.url) as holder:
        holder.execute("LOCK TABLE audit")
        writing = asyncio.create_task(audited(catalog))
        await server.wait_for_locks(1)
        server.end_readers()
    with pytest.raises(Unavailable):
        await writing
    assert server.ask("SELECT count(*) FROM audit WHERE action = 'looked'") == [(0,)]
    await audited(catalog)
    assert server.ask("SELECT count(*) FROM audit WHERE action = 'looked'") == [(1,)]


async def test_who_leaves_while_the_pool_looks_for_dead_connections_takes_none_along(
    catalog: Catalog, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that met a dead connection and is cancelled while the living ones are tried ends, and the pool stays whole."""
    whole, looked = AsyncConnectionPool.check_connection, asyncio.Event()

    async def slowly(connection: Any) -> None:
        looked.set()
        await asyncio.sleep(0.02)
        await whole(connection)

    monkeypatch.setattr(AsyncConnectionPool, "check_connection", staticmethod(slowly))
    await fill_pool(catalog, server)
    server.end_readers(limit=1)

    async def ask_on_each() -> None:
        for _ in range(N_HELD):
            await permitted(catalog)

    asking = asyncio.create_task(ask_on_each())
    await asyncio.wait_for(looked.wait(), 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    with psycopg.connect(server.url) as holder:
        holder.execute("LOCK TABLE users")
        waiting = [asyncio.create_task(permitted(catalog)) for _ in range(N_HELD)]
        await server.wait_for_locks(N_HELD)
    assert await asyncio.gather(*waiting) == [(1,)] * N_HELD


async def test_a_fresh_permit_waits_for_what_was_queued_before_it(catalog: Catalog) -> None:
    """It comes as soon as that is applied, with the token of it, whatever was queued since."""
    catalog.set_acl(PAGE, acl(user("ann"), user("bob")))
    waiting = [event.outbox_id for event in catalog.outbox.take(100)]
    asking = asyncio.create_task(catalog.query.fresh_permit(ANN))
    await asyncio.sleep(0.1)
    catalog.set_acl(PAGE, acl(user("ann")))
    await asyncio.sleep(0.1)
    assert not asking.done()
    catalog.outbox.acknowledge(waiting, "token-2")
    assert (await asking).token == "token-2"
    with pytest.raises(ChecksUnavailable):
        await catalog.query.fresh_permit(ANN)


async def test_a_question_and_its_rows_are_two_round_trips(
    catalog: Catalog, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may see what, how fresh checks must be, and whether changes wait is one statement; loading is another."""
    await hydrated(catalog)
    sent = []
    whole = psycopg.AsyncConnection.execute

    async def counted(connection: Any, query: Any, *rest: Any, **options: Any) -> Any:
        sent.append(query)
        return await whole(connection, query, *rest, **options)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", counted)
    permit = await catalog.query.fresh_permit(ANN)
    assert len(sent) == 1
    await catalog.query.hydrate(candidates(PAGE), permit)
    assert len(sent) == 2
