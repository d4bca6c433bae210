"""`cortex doctor --consistency` on real engines: every kind of difference is planted, found, mended, and nothing gets wider."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from qdrant_client import QdrantClient

from adapters.objects import ObstoreObjects
from adapters.qdrant_writer import QdrantIndexWriter
from adapters.spicedb.writer import SpiceDBWriter
from cortex.chunks import ChunkVectors, IndexPoint, SparseVector
from cortex.ids import tenant_object_id
from cortex.ports import Relationship, SourceConfig
from cortex.principals import Principal
from cortex.settings import Settings
from data_jobs.consistency.check import check
from data_jobs.consistency.report import Kind, Report
from data_jobs.ingest import ingest
from data_jobs.ingest_commands import files_source
from serve_apps.parts import open_parts
from tests.services.homes import ScratchHome

pytestmark = pytest.mark.services
TENANT = "default"
PEOPLE = ("ana", "bo", "eve")


@dataclass(frozen=True, slots=True)
class Home:
    """A home with one loaded folder, and ways to break it."""

    scratch: ScratchHome
    settings: Settings
    root: Path

    @property
    def config(self) -> SourceConfig:
        return files_source(self.settings, self.root)

    def load(self) -> None:
        assert ingest(self.settings, self.config).failed == ()

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.settings.postgres_url) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def document(self, name: str) -> tuple[str, str, str]:
        """The id, the only chunk's id and the content's hash of one document."""
        (row,) = self.sql(
            "SELECT d.document_id, c.chunk_id, v.content_sha256 FROM documents d JOIN versions v USING (version_id)"
            " JOIN chunks c ON c.version_id = v.version_id WHERE d.external_id = %s",
            name,
        )
        return row  # type: ignore[return-value]

    def index(self) -> QdrantClient:
        headers = {"api-key": self.settings.qdrant_api_key.get_secret_value()}
        return QdrantClient(url=self.settings.qdrant_url, check_compatibility=False, headers=headers)

    def spicedb(self) -> SpiceDBWriter:
        return SpiceDBWriter(self.settings.spicedb_url, self.settings.spicedb_token.get_secret_value())

    def seen(self) -> dict[str, frozenset[str]]:
        """Which documents each person may see: by the catalog's permit and by SpiceDB, both."""

        async def ask() -> dict[str, frozenset[str]]:
            ids = [row[0] for row in self.sql("SELECT document_id FROM documents WHERE deleted_at IS NULL")]
            found = {}
            async with open_parts(self.settings) as parts:
                for name in PEOPLE:
                    person = Principal(TENANT, name)
                    permit = await parts.catalog.permit(person)
                    token = await parts.catalog.permission_token()
                    allowed = await parts.checker.allowed(person, ids, token)
                    hits = [hit for one in ids for hit in await parts.catalog.document_hits(one, permit)]
                    found[name] = allowed & {hit.document_id for hit in hits}
            return found

        return asyncio.run(ask())


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    scratch = ScratchHome(Path(tempfile.mkdtemp(prefix="cortex-test-")))
    root = Path(tempfile.mkdtemp(prefix="cortex-test-docs-"))
    groups = "groups: {eng: {users: [bo]}, all: {users: [ana, bo, eve]}}\n"
    (root / ".cortex-access.yaml").write_text("viewers: {users: [ana]}\n" + groups)
    for number in range(12):
        (root / f"page-{number}.md").write_text(
            f"# Page {number}\n\nNumber {number} speaks of wing {number**3}.\n"
        )
    for folder, viewers in (
        ("eng", "{groups: [eng]}"),
        ("open", "{groups: [all]}"),
        ("shut", "{users: [eve]}"),
    ):
        (root / folder).mkdir()
        (root / folder / ".cortex-access.yaml").write_text(f"viewers: {viewers}\n")
        (root / folder / "plan.md").write_text(f"The plan of {folder} is to move the queue.")
    try:
        scratch.up("postgres", "qdrant", "spicedb")
        made = Home(scratch, scratch.settings(), root)
        made.load()
        yield made
    finally:
        scratch.down()
        shutil.rmtree(scratch.path, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


def found(report: Report) -> dict[str, int]:
    return {one.code.value: one.n_found for one in report.differences}


def left(report: Report) -> dict[str, int]:
    return {one.code.value: one.n_left for one in report.differences if one.n_left}


def plant_point_missing(home: Home) -> None:
    QdrantIndexWriter.from_settings(home.settings).delete_chunks([home.document("page-0.md")[1]])


def plant_point_orphan(home: Home) -> None:
    lost = str(uuid.uuid4())
    vectors = ChunkVectors(np.eye(384, dtype=np.float32)[0], SparseVector((7,), (1.0,)))
    point = IndexPoint(lost, lost, TENANT, 1, lost, "files", "default", lost, None, "a model", vectors)
    QdrantIndexWriter.from_settings(home.settings).upsert([point])


def plant_point_profile(home: Home) -> None:
    home.index().set_payload("chunks", {"profile_id": 77}, points=[home.document("page-1.md")[1]])


def plant_point_payload(home: Home) -> None:
    home.index().set_payload("chunks", {"collection": "other"}, points=[home.document("page-2.md")[1]])


def plant_object_missing(home: Home) -> None:
    ObstoreObjects.from_settings(home.settings).delete(home.document("page-3.md")[2])


def plant_object_corrupt(home: Home) -> None:
    sha256 = home.document("page-4.md")[2]
    (home.settings.home / "objects" / sha256[:2] / sha256[2:4] / sha256).write_bytes(b"something else")


def plant_object_orphan(home: Home) -> None:
    sha256 = ObstoreObjects.from_settings(home.settings).put(b"nobody refers to me")
    os.utime(home.settings.home / "objects" / sha256[:2] / sha256[2:4] / sha256, (1_000, 1_000))


def plant_access_missing(home: Home) -> None:
    home.sql("DELETE FROM tuples WHERE resource_name = %s", home.document("page-5.md")[0])


def plant_access_foreign(home: Home) -> None:
    """A tuple that would open a document of ana's to everyone in `all`, in the mirror and in SpiceDB."""
    ((profile,),) = home.sql(
        "SELECT profile_id::text FROM documents WHERE document_id = %s", home.document("open/plan.md")[0]
    )
    document_id = home.document("page-6.md")[0]
    home.sql(
        "INSERT INTO tuples (tenant_id, resource_type, resource_name, relation, subject_type, subject_name)"
        " VALUES (%s, 'document', %s, 'access', 'profile', %s)",
        TENANT,
        document_id,
        profile,
    )
    row = Relationship(
        "document", tenant_object_id(TENANT, document_id), "access", "profile", f"{TENANT}/{profile}"
    )
    home.spicedb().apply([row], [])


def plant_profile_altered(home: Home) -> None:
    """A grant that would let eve see what eng alone may."""
    home.sql(
        "INSERT INTO tuples (tenant_id, resource_type, resource_name, relation, subject_type, subject_name)"
        " SELECT %s, 'profile', profile_id::text, 'viewer', 'user', 'eve' FROM documents WHERE document_id = %s",
        TENANT,
        home.document("eng/plan.md")[0],
    )


def plant_profile_unknown(home: Home) -> None:
    home.sql(
        "INSERT INTO tuples (tenant_id, resource_type, resource_name, relation, subject_type, subject_name)"
        " VALUES (%s, 'profile', '99999', 'viewer', 'user', 'eve')",
        TENANT,
    )


def plant_tuple_missing(home: Home) -> None:
    ((profile,),) = home.sql(
        "SELECT profile_id::text FROM documents WHERE document_id = %s", home.document("shut/plan.md")[0]
    )
    row = Relationship("profile", f"{TENANT}/{profile}", "viewer", "user", f"{TENANT}/eve")
    home.spicedb().apply([], [row])


def plant_tuple_stale(home: Home) -> None:
    row = Relationship("group", f"{TENANT}/eng", "member", "user", f"{TENANT}/eve")
    home.spicedb().apply([row], [])


def plant_outbox_parked(home: Home) -> None:
    home.sql(
        "INSERT INTO outbox (tenant_id, topic, key, payload, parked_at, reason)"
        " VALUES (%s, 'document.profile', %s, %s::jsonb, now(), 'planted')",
        TENANT,
        home.document("page-7.md")[0],
        json.dumps({"document_id": home.document("page-7.md")[0], "profile_id": 1}),
    )


# What is planted together, and what it shows as besides: the mirror and SpiceDB differ from both sides.
PLANTED: dict[str, tuple[dict[Kind, Callable[[Home], None]], dict[str, int]]] = {
    "points": (
        {
            Kind.POINT_MISSING: plant_point_missing,
            Kind.POINT_ORPHAN: plant_point_orphan,
            Kind.POINT_PROFILE: plant_point_profile,
            Kind.POINT_PAYLOAD: plant_point_payload,
        },
        {},
    ),
    "objects": (
        {
            Kind.OBJECT_MISSING: plant_object_missing,
            Kind.OBJECT_CORRUPT: plant_object_corrupt,
            Kind.OBJECT_ORPHAN: plant_object_orphan,
        },
        {},
    ),
    "documents": (
        {
            Kind.ACCESS_MISSING: plant_access_missing,
            Kind.ACCESS_FOREIGN: plant_access_foreign,
            Kind.OUTBOX_PARKED: plant_outbox_parked,
        },
        {"tuple.stale": 1},
    ),
    "profiles": (
        {Kind.PROFILE_ALTERED: plant_profile_altered, Kind.PROFILE_UNKNOWN: plant_profile_unknown},
        {"tuple.missing": 2},
    ),
    "tuples": ({Kind.TUPLE_MISSING: plant_tuple_missing, Kind.TUPLE_STALE: plant_tuple_stale}, {}),
}


def test_an_undisturbed_home_has_no_difference(home: Home) -> None:
    """After a load all stores agree, and each person sees what the lists say."""
    report = check(home.settings)
    assert (report.differences, report.in_flight, report.exit_code) == ((), 0, 0)
    assert report.counted["points"] == report.counted["objects"] == 15
    assert {name: len(documents) for name, documents in home.seen().items()} == {"ana": 13, "bo": 2, "eve": 2}


@pytest.mark.parametrize("group", PLANTED)
def test_each_difference_is_found_and_mended(home: Home, group: str) -> None:
    """Planted failures are found as what they are; the repair and the next load restore hashes and access, never more."""
    before, people = check(home.settings), home.seen()
    planted, also = PLANTED[group]
    for plant in planted.values():
        plant(home)
    report = check(home.settings)
    assert found(report) == {**{kind.value: 1 for kind in planted}, **also}

    assert left(check(home.settings, repairs=True)) == {}
    narrowed = home.seen()
    assert all(narrowed[name] <= people[name] for name in PEOPLE)
    home.load()
    after = check(home.settings)
    assert after.differences == ()
    assert (after.index_sha256, after.catalog_sha256) == (before.index_sha256, before.catalog_sha256)
    assert home.seen() == people


def test_a_load_under_way_is_no_difference(home: Home) -> None:
    """While documents change, come and go, every comparison is clean, and the hash changes with the content."""
    before = check(home.settings)

    def change() -> None:
        for number in range(3):
            for page in range(6):
                (home.root / f"page-{page}.md").write_text(f"# Page {page}\n\nEdition {number} of {page}.\n")
            (home.root / f"new-{number}.md").write_text(f"Something new, number {number}.")
            (home.root / f"new-{number - 1}.md").unlink(missing_ok=True)
            home.load()

    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(change)
        reports = []
        while not loading.done():
            reports.append(check(home.settings, reads_objects=False))
        loading.result()
    reports.append(check(home.settings))
    assert len(reports) > 2
    assert [found(report) for report in reports] == [{}] * len(reports)
    assert reports[-1].index_sha256 != before.index_sha256


def test_the_command_says_what_differs_and_mends_it(home: Home) -> None:
    """`cortex doctor --consistency` ends with 9 and names codes and examples; with `--repair` all is well."""
    plant_tuple_stale(home)
    plant_object_orphan(home)
    ran = home.scratch.cortex("doctor", "--consistency")
    assert ran.code == 9
    assert {one["code"]: one["is_harmless"] for one in ran.document["differences"]} == {
        "object.orphan": True,
        "tuple.stale": False,
    }
    assert ran.document["differences"][1]["examples"] == ["group:default/eng#member@user:default/eve"]
    assert home.scratch.cortex("doctor", "--consistency", "--repair").code == 0
    assert check(home.settings).differences == ()
