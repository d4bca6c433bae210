"""Ingest into real engines: Postgres, the Qdrant engine and SpiceDB, by the ordinary command."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from qdrant_client import QdrantClient

from adapters.qdrant import credentials
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.parts import open_catalog

pytestmark = pytest.mark.services


@dataclass(slots=True)
class Loaded:
    """A folder that is loaded into a tenant of its own."""

    root: Path
    settings: Settings

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
        return {
            **kept,
            "CORTEX_HOME": str(self.settings.home),
            "CORTEX_TENANT_ID": self.settings.tenant_id,
        }

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def start(self) -> subprocess.Popen[str]:
        """Start a load in this process's session, so that a test can kill all of it."""
        command = [sys.executable, "-m", "clients.cli.main", "ingest", "files", str(self.root)]
        return subprocess.Popen(
            [*command, "--no-ray", "--json"],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def load(self) -> dict[str, Any]:
        """Load the folder; returns the command's document."""
        process = self.start()
        said, errors = process.communicate(timeout=240)
        assert process.returncode == 0, f"{said}\n{errors}"
        report: dict[str, Any] = json.loads(said)
        return report

    def index(self) -> dict[str, dict[str, Any]]:
        """Read every point of the tenant: chunk id to payload."""
        client = QdrantClient(
            url=self.settings.qdrant_url, check_compatibility=False, **credentials(self.settings)
        )
        records, _ = client.scroll("chunks", limit=10_000, with_payload=True)
        client.close()
        return {
            str(record.id): dict(record.payload or {})
            for record in records
            if (record.payload or {}).get("tenant_id") == self.settings.tenant_id
        }

    def catalog(self) -> list[tuple[Any, ...]]:
        """Read what is shown: path, title, chunk ids and texts in order, and the profile's grants."""
        with psycopg.connect(self.settings.postgres_url) as connection:
            return connection.execute(
                """
                SELECT d.external_id, v.title, v.group_id = d.document_id,
                       (SELECT array_agg(c.chunk_id || ' ' || c.text ORDER BY c.ordinal) FROM chunks c
                        WHERE c.version_id = v.version_id), p.acl_sha256
                FROM documents d JOIN versions v USING (version_id) JOIN profiles p USING (profile_id)
                WHERE d.tenant_id = %s AND d.deleted_at IS NULL ORDER BY d.external_id
                """,
                [self.settings.tenant_id],
            ).fetchall()

    def runs(self) -> list[str]:
        with psycopg.connect(self.settings.postgres_url) as connection:
            rows = connection.execute(
                "SELECT r.status FROM sync_runs r JOIN sources USING (source_id) WHERE tenant_id = %s ORDER BY started_at",
                [self.settings.tenant_id],
            ).fetchall()
        return [status for (status,) in rows]

    def await_run(self, process: subprocess.Popen[str], n_runs: int) -> None:
        """Wait until a load that was started has opened its sync run, or has ended."""
        deadline = time.monotonic() + 120
        while process.poll() is None and len(self.runs()) < n_runs:
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def assert_consistent(self) -> None:
        """The index holds exactly the chunks that the catalog shows, each with its document's profile."""
        shown = {row.split(" ", 1)[0] for _, _, _, chunks, _ in self.catalog() for row in chunks}
        assert set(self.index()) == shown


@pytest.fixture
def loaded(home_engines: Settings, tmp_path: Path) -> Iterator[Loaded]:
    root = tmp_path / "root"
    root.mkdir()
    tenant_id = f"ingest-{uuid.uuid4().hex[:8]}"
    made = Loaded(root, home_engines.model_copy(update={"tenant_id": tenant_id}))
    made.write(".cortex-access.yaml", "viewers: {users: [ana]}\ngroups: {eng: {users: [bo]}}\n")
    for number in range(8):
        made.write(f"page-{number}.md", f"# Page {number}\n\nNumber {number} speaks of wing {number**3}.\n")
    made.write("eng/.cortex-access.yaml", "viewers: {groups: [eng]}\n")
    made.write("eng/plan.txt", "The plan is to move the queue.")
    yield made


def counts(report: dict[str, Any]) -> tuple[int, int, int, int]:
    return report["indexed"], report["unchanged"], report["removed"], len(report["failed"])


def test_a_tree_is_loaded_changed_and_loaded_again(loaded: Loaded) -> None:
    """First all is indexed, then nothing changes, then exactly what was edited, removed, or given to others."""
    assert counts(loaded.load()) == (9, 0, 0, 0)
    loaded.assert_consistent()
    before = (loaded.catalog(), loaded.index())

    assert counts(loaded.load()) == (0, 9, 0, 0)
    assert (loaded.catalog(), loaded.index()) == before

    loaded.write("page-0.md", "# Page 0\n\nNow it speaks of rudders.\n")
    (loaded.root / "page-1.md").unlink()
    loaded.write("eng/.cortex-access.yaml", "viewers: {users: [ana]}\n")
    loaded.write("broken.pdf", "%PDF-1.4")
    report = loaded.load()
    assert (counts(report), report["access_changed"]) == ((1, 7, 1, 1), 1)
    assert report["failed"][0]["path"] == "broken.pdf"
    assert report["failed"][0]["code"].startswith("document.")
    loaded.assert_consistent()
    profiles = {external_id: sha for external_id, _, _, _, sha in loaded.catalog()}
    assert profiles["eng/plan.txt"] == profiles["page-2.md"]
    points = {payload["document_id"]: payload["profile_id"] for payload in loaded.index().values()}
    assert len(set(points.values())) == 1
    assert loaded.runs() == ["succeeded"] * 3


async def test_people_see_what_their_lists_say(loaded: Loaded) -> None:
    """After a load, the catalog's permit and SpiceDB agree on who may see a document, without a relay."""
    from serve_apps.parts import open_parts

    loaded.load()
    async with open_parts(loaded.settings) as parts:
        for user, expected in (("ana", 8), ("bo", 1)):
            principal = Principal(loaded.settings.tenant_id, user)
            documents = {payload["document_id"] for payload in loaded.index().values()}
            token = await parts.catalog.permission_token()
            assert len(await parts.checker.allowed(principal, sorted(documents), token)) == expected


def test_a_load_killed_at_any_time_is_finished_by_the_next(loaded: Loaded) -> None:
    """SIGKILL at random moments of a load that changes things; the load after it ends where an undisturbed one does."""
    chance = random.Random(7)
    longest_s = loaded.load()["seconds"]
    statuses = ["succeeded"]
    for round_number in range(4):
        for number in range(8):
            text = f"Round {round_number}, page {number}, " + "word " * 60
            loaded.write(f"page-{number}.md", f"# Page {number}\n\n{text}\n")
        loaded.write(f"more-{round_number}.md", f"# More {round_number}\n\nOf the same.\n")
        process = loaded.start()
        loaded.await_run(process, len(statuses) + 1)
        time.sleep(chance.uniform(0.0, longest_s))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        statuses.append("failed" if process.returncode == -signal.SIGKILL else "succeeded")

        assert loaded.load()["failed"] == []
        statuses.append("succeeded")
        loaded.assert_consistent()
        assert len(loaded.catalog()) == 9 + round_number + 1
        pages = [chunks[0] for path, _, _, chunks, _ in loaded.catalog() if path.startswith("page")]
        assert [f"Round {round_number}" in page for page in pages] == [True] * 8
    assert "failed" in statuses
    assert loaded.runs() == statuses


def test_a_source_is_loaded_once_at_a_time(loaded: Loaded) -> None:
    """A second load of the same source is refused while the first runs, and says how to watch it."""
    from data_jobs.source_lock import source_lock

    with open_catalog(loaded.settings) as catalog:
        loaded.load()
        (source,) = catalog.list_sources(loaded.settings.tenant_id)
    with source_lock(loaded.settings, source["source_id"]):
        process = loaded.start()
        said, _ = process.communicate(timeout=120)
    assert (process.returncode, json.loads(said)["error"]["code"]) == (5, "run.active")
