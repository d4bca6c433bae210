"""A row, a point and a permission tuple outlive SIGKILL of each engine in turn, and of all of them at once."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil
import psycopg
import pytest
from authzed.api.v1 import Consistency, ReadRelationshipsRequest, RelationshipFilter
from authzed.api.v1.permission_service_pb2_grpc import PermissionsServiceStub
from qdrant_client import QdrantClient, models

from cluster.children import kill_all
from cluster.state import Phase
from tests.services.homes import ScratchHome

pytestmark = pytest.mark.services
ENGINES = ("postgres", "qdrant", "spicedb", "relay")


@pytest.fixture(scope="module")
def home() -> Iterator[ScratchHome]:
    """A home with one user in one group and one point in the index."""
    scratch = ScratchHome(Path(tempfile.mkdtemp(prefix="cortex-test-")))
    try:
        scratch.up(*ENGINES)
        assert scratch.cortex("access", "add-user", "ann").code == 0
        assert scratch.cortex("access", "add-member", "staff", "ann").code == 0
        with_index(scratch).create_collection(
            "kept", vectors_config={"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
        )
        with_index(scratch).upsert(
            "kept", [models.PointStruct(id=1, vector={"dense": [1.0, 0.0]}, payload={"n": 7})], wait=True
        )
        yield scratch
    finally:
        scratch.down()
        shutil.rmtree(scratch.path, ignore_errors=True)


def with_index(home: ScratchHome) -> QdrantClient:
    settings = home.settings()
    # As a header: the client's own option warns about plain HTTP, which is loopback here.
    headers = {"api-key": settings.qdrant_api_key.get_secret_value()}
    return QdrantClient(url=settings.qdrant_url, headers=headers, check_compatibility=False)


def users(home: ScratchHome) -> int:
    with psycopg.connect(home.settings().postgres_url) as connection:
        row = connection.execute("SELECT count(*) FROM users").fetchone()
    assert row is not None
    return int(row[0])


def points(home: ScratchHome) -> list[dict[str, int] | None]:
    return [point.payload for point in with_index(home).retrieve("kept", [1])]


def tuples(home: ScratchHome) -> list[tuple[str, str]]:
    """Return (group, member) pairs as SpiceDB itself holds them."""
    settings = home.settings()
    request = ReadRelationshipsRequest(
        relationship_filter=RelationshipFilter(resource_type="group"),
        consistency=Consistency(fully_consistent=True),
    )
    metadata = [("authorization", f"Bearer {settings.spicedb_token.get_secret_value()}")]
    with grpc.insecure_channel(settings.spicedb_url) as channel:
        replies = PermissionsServiceStub(channel).ReadRelationships(request, metadata=metadata, timeout=10)
        found = [reply.relationship for reply in replies]
    return [(item.resource.object_id, item.subject.object.object_id) for item in found]


def wait_until_ready(home: ScratchHome, restarted: dict[str, int]) -> None:
    deadline = time.monotonic() + 120
    while True:
        engines = home.state.engines
        if all(engines[name].restarts > n for name, n in restarted.items()) and home.state.is_ready:
            return
        assert time.monotonic() < deadline, f"{engines}\n{home.logs()}"
        time.sleep(0.1)


def assert_nothing_is_lost(home: ScratchHome, before: list[tuple[str, str]]) -> None:
    assert (users(home), points(home), tuples(home)) == (1, [{"n": 7}], before)


@pytest.mark.parametrize("name", ENGINES)
def test_a_killed_engine_comes_back_whole(home: ScratchHome, name: str) -> None:
    """Each engine killed with SIGKILL is ready again at the same address with all it held; the others are not restarted."""
    before, restarts = tuples(home), {n: engine.restarts for n, engine in home.state.engines.items()}
    assert any(group.endswith("/staff") and user.endswith("/ann") for group, user in before)
    home.kill_engines(name)
    wait_until_ready(home, {name: restarts[name]})
    assert_nothing_is_lost(home, before)
    after = {n: engine.restarts for n, engine in home.state.engines.items()}
    assert after == {**restarts, name: restarts[name] + 1}


def test_all_engines_killed_at_once_come_back_whole(home: ScratchHome) -> None:
    """With all engines killed in the same moment the supervisor brings all of them back."""
    before, restarts = tuples(home), {n: engine.restarts for n, engine in home.state.engines.items()}
    home.kill_engines(*home.state.engines)
    wait_until_ready(home, restarts)
    assert_nothing_is_lost(home, before)


def test_up_continues_after_everything_was_killed(home: ScratchHome) -> None:
    """After SIGKILL of the supervisor and every process below it, `up` continues with all data and the same addresses."""
    before, env = tuples(home), home.state.env
    running = home.everything()
    kill_all(running)
    assert psutil.wait_procs(running, timeout=20)[1] == []
    home.up(*ENGINES)
    assert_nothing_is_lost(home, before)
    assert home.state.env == env
    assert {engine.state for engine in home.state.engines.values()} == {Phase.READY}
