"""The embedded vector index as a process: its key, its one owner, what kill -9 leaves, and optimizing beside searches."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException

from tests.services.qdrant_process import SPARSE, VECTORS, QdrantProcess, connect, ids, point

pytestmark = pytest.mark.services


def test_the_key_opens_everything_but_the_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CORTEX_QDRANT_API_KEY set, requests need it; health and readiness do not."""
    monkeypatch.setenv("CORTEX_QDRANT_API_KEY", "let me in")
    with QdrantProcess(tmp_path) as locked:
        assert httpx.get(f"{locked.url}/healthz").status_code == 200
        assert httpx.get(f"{locked.url}/collections").status_code == 401
        assert httpx.get(f"{locked.url}/collections", headers={"api-key": "let me in"}).status_code == 200
        assert httpx.get(f"{locked.url}/collections", headers={"api-key": "let me"}).status_code == 401


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    """One process owns a folder; another says so and ends with 5."""
    command = [sys.executable, "-m", "cluster.engines.qdrant_server", "--path", str(tmp_path), "--port", "1"]
    with QdrantProcess(tmp_path):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 5
    assert "another process serves" in done.stderr


def test_kill_during_upserts_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Every point whose upsert returned is there after SIGKILL and a restart, twice over, aliases too."""
    process = QdrantProcess(tmp_path)
    acknowledged: list[int] = []
    for round_number in (1, 2):
        process.start()
        client = connect(process)
        if round_number == 1:
            client.create_collection("kept", VECTORS, SPARSE)
            alias = models.CreateAlias(collection_name="kept", alias_name="k")
            client.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
        killer = threading.Timer(1.0, process.kill)
        killer.start()
        acknowledged += upsert_until_it_dies(client, 1_000 * round_number)
        killer.join()
        client.close()
    with process:
        client = connect(process)
        found, _ = client.scroll("k", limit=10_000)
        client.close()
    assert acknowledged
    assert set(acknowledged) <= set(ids(found))


def upsert_until_it_dies(client: QdrantClient, number: int) -> list[int]:
    """Upsert two points at a time until the server is gone; returns those it acknowledged."""
    acknowledged: list[int] = []
    while True:
        try:
            client.upsert("k", [point(number), point(number + 1)])
        except (ResponseHandlingException, httpx.HTTPError):
            return acknowledged
        acknowledged += [number, number + 1]
        number += 2


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[QdrantProcess, QdrantClient]]:
    """An own server, which builds graphs from 100 points on, with a collection `many` of 2,000 points."""
    with QdrantProcess(tmp_path, "--graph-from", "100") as process:
        client = connect(process)
        client.create_collection("many", VECTORS, SPARSE)
        client.upsert("many", [point(number) for number in range(1, 2_001)])
        client.update_collection("many", optimizers_config=models.OptimizersConfigDiff())
        yield process, client
        client.close()


def test_searches_and_writes_go_on_while_optimizing(own: tuple[QdrantProcess, QdrantClient]) -> None:
    """A copy is optimized aside: meanwhile searches answer at once, and every write is there after the swap."""
    process, client = own
    n_during, slowest_s = 0, 0.0
    while client.get_collection("many").status != models.CollectionStatus.GREEN:
        n_during += 1
        client.upsert("many", [point(2_000 + n_during)])
        client.delete("many", [n_during])
        started_s = time.monotonic()
        assert client.query_points("many", query=[1.0, 0, 0, 0], using="dense", limit=5).points
        slowest_s = max(slowest_s, time.monotonic() - started_s)
    assert n_during > 5
    assert slowest_s < 3
    assert client.get_collection("many").optimizer_status == models.OptimizersStatusOneOf.OK
    found, _ = client.scroll("many", limit=10_000)
    assert set(ids(found)) == set(range(n_during + 1, 2_001 + n_during))
    generations = (process.folder / "collections" / "many").glob("gen-*")
    assert [path.name for path in generations] == ["gen-2"]


def test_kill_while_optimizing_keeps_the_old_generation(own: tuple[QdrantProcess, QdrantClient]) -> None:
    """SIGKILL in the middle leaves the copy unused: the restart removes it and has every point."""
    process, client = own
    while not (process.folder / "collections" / "many" / "gen-2").exists():
        time.sleep(0.002)
    process.kill()
    process.start()
    assert client.count("many").count == 2_000
    client.upsert("many", [point(9_999)])
    client.update_collection("many", optimizers_config=models.OptimizersConfigDiff())
    ends_at = time.monotonic() + 60
    while client.get_collection("many").status != models.CollectionStatus.GREEN:
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    assert client.count("many").count == 2_001


def test_an_unfinished_creation_or_deletion_is_finished_at_the_start(tmp_path: Path) -> None:
    """A folder without `meta.json` belongs to no collection and is removed."""
    (tmp_path / "collections" / "torn" / "gen-1").mkdir(parents=True)
    with QdrantProcess(tmp_path) as process:
        assert httpx.get(f"{process.url}/collections").json()["result"] == {"collections": []}
        assert not (tmp_path / "collections" / "torn").exists()
