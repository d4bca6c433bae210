"""Ingest into real engines: Postgres, the Qdrant engine and SpiceDB."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psycopg
import pytest
from qdrant_client import QdrantClient

from cortex.errors import Conflict, Unavailable
from cortex.ports.connectors import SourceConfig
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.ingest import ingest
from data_jobs.ray_ingest import ray_ingest
from data_jobs.source_lock import source_lock
from data_jobs.sources import files_source
from serve_apps.parts import open_parts

pytestmark = pytest.mark.services

# A server that has everything imported forks the loads: each starts at once, and can be killed.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["data_jobs.ingest", "adapters.catalog.ingest", "adapters.qdrant_writer", "adapters.onnx_embedder"]
)


def _load(settings: Settings, config: SourceConfig, report_path: str) -> None:
    """Load a source; what a load's process runs."""
    Path(report_path).write_text(json.dumps(asdict(ingest(settings, config))))


@dataclass(slots=True)
class Loaded:
    """A folder that is loaded into a tenant of its own."""

    root: Path
    settings: Settings

    @property
    def config(self) -> SourceConfig:
        return files_source(self.settings, self.root)

    @property
    def report_path(self) -> Path:
        return self.root.with_name("report.json")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def start(self) -> BaseProcess:
        """Start a load in a process of its own, which a test can kill."""
        process = _CONTEXT.Process(target=_load, args=(self.settings, self.config, str(self.report_path)))
        process.start()
        return process

    def load(self) -> dict[str, Any]:
        """Load the folder in a process of its own; returns the report."""
        process = self.start()
        process.join(240)
        assert process.exitcode == 0
        report: dict[str, Any] = json.loads(self.report_path.read_text())
        return report

    def index(self) -> dict[str, dict[str, Any]]:
        """Read every point of the tenant: chunk id to payload."""
        # As a header: the client's own option warns about plain HTTP, which is loopback here.
        headers = {"api-key": self.settings.qdrant_api_key.get_secret_value()}
        client = QdrantClient(url=self.settings.qdrant_url, check_compatibility=False, headers=headers)
        records, _ = client.scroll("chunks", limit=10_000, with_payload=True)
        client.close()
        return {
            str(record.id): dict(record.payload or {})
            for record in records
            if (record.payload or {}).get("tenant_id") == self.settings.tenant_id
        }

    def catalog(self) -> list[tuple[Any, ...]]:
        """Read what is shown: path, title, whether it leads its group, chunks as `id text`, and the access list's hash."""
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
        """Read how the tenant's runs ended, oldest first."""
        with psycopg.connect(self.settings.postgres_url) as connection:
            rows = connection.execute(
                "SELECT r.status FROM sync_runs r JOIN sources USING (source_id)"
                " WHERE tenant_id = %s ORDER BY started_at",
                [self.settings.tenant_id],
            ).fetchall()
        return [status for (status,) in rows]

    def await_run(self, process: BaseProcess, n_runs: int) -> None:
        """Wait until a load that was started has opened its sync run, or has ended."""
        deadline = time.monotonic() + 120
        while process.is_alive() and len(self.runs()) < n_runs:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def assert_consistent(self) -> None:
        """The index holds exactly the chunks that the catalog shows."""
        shown = {row.split(" ", 1)[0] for _, _, _, chunks, _ in self.catalog() for row in chunks}
        assert set(self.index()) == shown


@pytest.fixture
def loaded(home_engines: Settings, tmp_path: Path) -> Loaded:
    root = tmp_path / "root"
    root.mkdir()
    tenant_id = f"ingest-{uuid.uuid4().hex[:8]}"
    made = Loaded(root, home_engines.model_copy(update={"tenant_id": tenant_id}))
    made.write(".cortex-access.yaml", "viewers: {users: [ana]}\ngroups: {eng: {users: [bo]}}\n")
    for number in range(8):
        made.write(f"page-{number}.md", f"# Page {number}\n\nNumber {number} speaks of wing {number**3}.\n")
    made.write("eng/.cortex-access.yaml", "viewers: {groups: [eng]}\n")
    made.write("eng/plan.txt", "The plan is to move the queue.")
    return made


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
    assert len({payload["profile_id"] for payload in loaded.index().values()}) == 1
    assert loaded.runs() == ["succeeded"] * 3


async def test_people_see_what_their_lists_say(loaded: Loaded) -> None:
    """When a load returns, SpiceDB allows each person exactly the listed documents, without a relay."""
    loaded.load()
    documents = sorted({payload["document_id"] for payload in loaded.index().values()})
    async with open_parts(loaded.settings) as parts:
        for user, expected in (("ana", 8), ("bo", 1), ("eve", 0)):
            principal = Principal(loaded.settings.tenant_id, user)
            token = await parts.catalog.permission_token()
            assert len(await parts.checker.allowed(principal, documents, token)) == expected


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
        process.kill()
        process.join()
        statuses.append("failed" if process.exitcode == -signal.SIGKILL else "succeeded")

        assert loaded.load()["failed"] == []
        statuses.append("succeeded")
        loaded.assert_consistent()
        assert len(loaded.catalog()) == 9 + round_number + 1
        pages = [chunks[0] for path, _, _, chunks, _ in loaded.catalog() if path.startswith("page")]
        assert [f"Round {round_number}" in page for page in pages] == [True] * 8
    assert "failed" in statuses
    assert loaded.runs() == statuses


def test_the_command_prints_one_document_and_its_progress(loaded: Loaded) -> None:
    """`cortex ingest files --json` writes one report on stdout and lines of progress on stderr; its source is listed."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("CORTEX_")}
    env |= {"CORTEX_HOME": str(loaded.settings.home), "CORTEX_TENANT_ID": loaded.settings.tenant_id}
    cortex = [sys.executable, "-m", "clients.cli.main"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*cortex, *arguments], env=env, capture_output=True, text=True, timeout=240)

    loaded.write("broken.pdf", "%PDF-1.4")
    done = run("ingest", "files", str(loaded.root), "--collection", "wiki", "--no-ray", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, counts(report)) == (0, (9, 0, 0, 1))
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert {event["event"] for event in events} == {"ingest.progress"}
    assert (events[-1]["indexed"], events[-1]["failed"], events[-1]["total"]) == (9, 1, 10)
    (source,) = json.loads(run("sources", "list", "--json").stdout)["sources"]
    assert (source["collection"], source["n_documents"]) == ("wiki", 9)
    assert source["run"]["counts"]["indexed"] == 9
    assert source["run"]["failures"][0]["path"] == "broken.pdf"


def test_without_ray_a_load_says_what_to_do(loaded: Loaded) -> None:
    """Where no Ray runs, a load is refused with the two ways out, before anything is written."""
    with pytest.raises(Unavailable) as caught:
        ray_ingest(loaded.settings, loaded.config)
    assert caught.value.error_code == "ray.missing"
    assert "cortex up" in caught.value.hint
    assert "--no-ray" in caught.value.hint
    assert loaded.runs() == []


def test_a_source_is_loaded_once_at_a_time(loaded: Loaded) -> None:
    """A second load of the same source is refused while the first runs, and the next one is not."""
    with source_lock(loaded.settings, loaded.config.source_id), pytest.raises(Conflict) as caught:
        ingest(loaded.settings, loaded.config)
    assert caught.value.error_code == "run.active"
    assert counts(loaded.load()) == (9, 0, 0, 0)
