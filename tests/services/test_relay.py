"""The relay and the access commands on the real engines: killed, restarted, and heard by the very next request."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from adapters.catalog.ingest import PostgresIngestCatalog
from adapters.catalog.outbox import PostgresOutbox
from adapters.catalog.query import PostgresQueryCatalog
from adapters.spicedb.checker import SpiceDBChecker
from adapters.spicedb.reader import SpiceDBReader
from adapters.spicedb.writer import SpiceDBWriter
from cortex.errors import ChecksUnavailable
from cortex.ids import document_id
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.reload_permissions import reload_permissions
from tests.contracts.catalog_words import acl, group, member, source, user, version
from tests.services.spicedb import TOKEN, Server, running

pytestmark = pytest.mark.services


@dataclass(frozen=True, slots=True)
class World:
    """A catalog and a SpiceDB that this test has for itself, and how programs reach them."""

    url: str
    spicedb: Server
    env: dict[str, str]
    log: Path

    def relay(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "data_jobs.relay"], env=self.env, stdout=log, stderr=log
            )

    def cortex(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "clients.cli.main", *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120)

    def allowed(self, principal: Principal, name: str) -> bool:
        """Ask as a request does: permit, token, check."""

        async def ask() -> bool:
            catalog, checker = PostgresQueryCatalog(self.url), SpiceDBChecker(self.spicedb.url, TOKEN)
            await catalog.open()
            try:
                one = document_id(principal.tenant_id, source().source_id, name)
                token = await catalog.permission_token()
                return one in await checker.allowed(principal, [one], token)
            finally:
                await catalog.close()
                await checker.close()

        return asyncio.run(ask())


@pytest.fixture
def world(catalog_url: str, home_engines: Settings, tmp_path: Path) -> Iterator[World]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
    with running(tmp_path) as spicedb:
        env = {
            **kept,
            "CORTEX_HOME": str(tmp_path),
            "CORTEX_POSTGRES_URL": catalog_url,
            "CORTEX_SPICEDB_URL": spicedb.url,
            "CORTEX_SPICEDB_TOKEN": TOKEN,
            "CORTEX_QDRANT_URL": home_engines.qdrant_url,
            "CORTEX_QDRANT_API_KEY": home_engines.qdrant_api_key.get_secret_value(),
            "CORTEX_TENANT_ID": "acme",
        }
        yield World(catalog_url, spicedb, env, tmp_path / "relay.log")


def load(world: World) -> None:
    """Load SpiceDB from the mirror and open it, as the supervisor does."""
    outbox, writer = PostgresOutbox(world.url), SpiceDBWriter(world.spicedb.url, TOKEN)
    reader = SpiceDBReader(world.spicedb.url, TOKEN)
    reload_permissions(outbox, writer, reader)
    outbox.close()
    writer.close()
    reader.close()


def wait_until_delivered(world: World, timeout_s: float = 120) -> None:
    outbox, deadline = PostgresOutbox(world.url), time.monotonic() + timeout_s
    try:
        while outbox.backlog().n_waiting:
            assert time.monotonic() < deadline, world.log.read_text()[-2_000:]
            time.sleep(0.05)
    finally:
        outbox.close()


def test_a_reload_into_a_server_does_what_was_queued(world: World) -> None:
    """A SpiceDB that kept its tuples: a removal that waits when Cortex starts is done by the reload, not forgotten."""
    load(world)
    catalog = PostgresIngestCatalog(world.url)
    catalog.ensure_source(source())
    catalog.ensure_users("acme", ["ann", "bob"])
    page = version("page", "text").document
    catalog.set_acl("acme", page.source_id, "page", page.document_id, acl(group("eng")))
    catalog.add_membership("acme", member("eng", user("ann")))
    catalog.add_membership("acme", member("eng", user("bob")))
    load(world)
    assert world.allowed(Principal("acme", "ann"), "page")
    catalog.remove_membership("acme", member("eng", user("ann")))
    catalog.close()
    load(world)
    outbox = PostgresOutbox(world.url)
    assert outbox.backlog().n_waiting == 0
    outbox.close()
    assert not world.allowed(Principal("acme", "ann"), "page")
    assert world.allowed(Principal("acme", "bob"), "page")


def test_a_killed_relay_loses_and_repeats_nothing(world: World) -> None:
    """SIGKILL again and again while thousands of changes pass: in the end SpiceDB answers as the mirror says."""
    load(world)
    catalog = PostgresIngestCatalog(world.url)
    catalog.ensure_source(source())
    catalog.ensure_users("acme", [f"user{n}" for n in range(200)])
    one = document_id("acme", source().source_id, "d")
    catalog.set_acl("acme", source().source_id, "d", one, acl(group("g0"), denied=(group("g1"),)))
    relay = world.relay()
    for round_number in range(3):
        for number in range(20):
            edges = [
                member(f"g{group_number}", user(f"user{n}"))
                for group_number in range(2)
                for n in range(200)
                if (n + number + round_number) % (3 + group_number) == 0
            ]
            catalog.set_memberships("acme", source().source_id, edges)
        relay.kill()
        relay.wait()
        relay = world.relay()
    wait_until_delivered(world)
    relay.send_signal(signal.SIGTERM)
    assert relay.wait(timeout=30) == 0
    last = 19 + 2
    for n in range(0, 200, 7):
        expected = (n + last) % 3 == 0 and (n + last) % 4 != 0
        assert world.allowed(Principal("acme", f"user{n}"), "d") == expected
    catalog.close()


def test_the_relay_waits_for_spicedb_and_goes_on(world: World, tmp_path: Path) -> None:
    """While SpiceDB is down changes wait and checks are closed; when it is back and reloaded, everything holds."""
    load(world)
    catalog = PostgresIngestCatalog(world.url)
    catalog.ensure_source(source())
    catalog.ensure_users("acme", ["ann"])
    one = document_id("acme", source().source_id, "d")
    catalog.set_acl("acme", source().source_id, "d", one, acl(user("ann")))
    relay = world.relay()
    wait_until_delivered(world)
    assert world.allowed(Principal("acme", "ann"), "d")
    world.spicedb.process.kill()
    world.spicedb.process.wait()
    catalog.set_acl("acme", source().source_id, "d", one, acl(user("bob")))
    with pytest.raises(ChecksUnavailable):
        world.allowed(Principal("acme", "ann"), "d")
    with running(tmp_path) as again:
        moved = World(world.url, again, {**world.env, "CORTEX_SPICEDB_URL": again.url}, world.log)
        load(moved)  # the relay that still looks at the old address holds no lock that could stop it
        assert not moved.allowed(Principal("acme", "ann"), "d")
        assert moved.allowed(Principal("acme", "bob"), "d")
    assert relay.poll() is None
    relay.send_signal(signal.SIGTERM)
    assert relay.wait(timeout=30) == 0
    catalog.close()


@pytest.mark.parametrize("with_relay", [False, True])
def test_a_removed_member_is_refused_by_the_next_request(world: World, with_relay: bool) -> None:
    """When `cortex access remove-member` returns, permit and check both refuse, whether a relay runs or not."""
    load(world)
    relay = world.relay() if with_relay else None
    catalog = PostgresIngestCatalog(world.url)
    catalog.ensure_source(source())
    one = document_id("acme", source().source_id, "d")
    catalog.set_acl("acme", source().source_id, "d", one, acl(group("all")))
    catalog.ensure_users("acme", ["ann@acme.example", "bob@acme.example"])
    catalog.add_membership("acme", member("all", group("eng")))
    added = world.cortex("access", "add-member", "eng", "ann@acme.example")
    assert added.returncode == 0, added.stderr
    ann = Principal("acme", "ann@acme.example")
    assert world.allowed(ann, "d")
    done = world.cortex("access", "remove-member", "eng", "ann@acme.example")
    assert done.returncode == 0, done.stderr
    assert not world.allowed(ann, "d")
    if relay:
        relay.send_signal(signal.SIGTERM)
        assert relay.wait(timeout=30) == 0
    catalog.close()


def test_access_is_shown_to_the_operator(world: World) -> None:
    """`show` counts what a person reaches, `list` names who asserts each edge, and unknown people are not found."""
    load(world)
    catalog = PostgresIngestCatalog(world.url)
    catalog.ensure_source(source())
    catalog.set_memberships(
        "acme", source().source_id, [member("eng", user("ann")), member("all", group("eng"))]
    )
    catalog.close()
    assert world.cortex("access", "add-user", "ann").returncode == 0
    shown = json.loads(world.cortex("access", "show", "ann", "--json").stdout)
    assert shown["groups"] == [{"name": "all", "is_direct": False}, {"name": "eng", "is_direct": True}]
    listed = json.loads(world.cortex("access", "list", "--json").stdout)
    assert listed["users"] == ["ann"]
    assert [(edge["group"], edge["member"], edge["asserted_by"]) for edge in listed["edges"]] == [
        ("all", "group:eng", ["files:wiki"]),
        ("eng", "ann", ["files:wiki"]),
    ]
    unknown = world.cortex("access", "show", "nobody@acme.example")
    assert unknown.returncode == 4
