"""`cortex doctor --consistency` on real engines: every kind of difference is planted, found, mended, and nothing gets wider."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adapters.catalog.inventory import CatalogInventory
from adapters.catalog.removal import SourceRow
from adapters.objects import ObstoreObjects
from adapters.qdrant_reader import QdrantIndexReader
from adapters.qdrant_writer import QdrantIndexWriter
from cortex.chunks import ChunkVectors, IndexPoint, SparseVector
from cortex.ids import tenant_object_id
from cortex.ports.connectors import SourceConfig
from cortex.ports.outbox import Relationship
from data_jobs.checkpoint import work_folder
from data_jobs.consistency.check import check
from data_jobs.consistency.menders import ContentMender
from data_jobs.consistency.report import Kind, Ledger, Report
from data_jobs.ingest import ingest
from data_jobs.remove_source import remove_source
from data_jobs.sources import Naming, vault_source
from tests.services.loaded_home import PEOPLE, TENANT, LoadedHome

pytestmark = pytest.mark.services


def found(report: Report) -> dict[str, int]:
    return {one.code.value: one.n_found for one in report.differences}


def left(report: Report) -> dict[str, int]:
    return {one.code.value: one.n_left for one in report.differences if one.n_left}


def hashes(report: Report) -> tuple[str, str, str]:
    return report.index_sha256, report.vectors_sha256, report.catalog_sha256


def other_dense(vectors: ChunkVectors) -> ChunkVectors:
    dense = vectors.dense.copy()
    dense[0] = np.nextafter(dense[0], np.float32(2.0))
    return replace(vectors, dense=dense)


def other_sparse(vectors: ChunkVectors) -> ChunkVectors:
    sparse = vectors.sparse
    return replace(
        vectors, sparse=SparseVector((*sparse.indices[:-1], sparse.indices[-1] + 1), sparse.values)
    )


def plant_point_missing(home: LoadedHome) -> None:
    QdrantIndexWriter.from_settings(home.settings).delete_chunks([home.document("page-0.md")[1]])


def plant_point_orphan(home: LoadedHome) -> None:
    lost = str(uuid.uuid4())
    vectors = ChunkVectors(np.eye(384, dtype=np.float32)[0], SparseVector((7,), (1.0,)))
    point = IndexPoint(lost, lost, TENANT, 1, lost, "files", "default", lost, None, "a model", vectors)
    QdrantIndexWriter.from_settings(home.settings).upsert([point])


def plant_point_profile(home: LoadedHome) -> None:
    home.index().set_payload("chunks", {"profile_id": 77}, points=[home.document("page-1.md")[1]])


def plant_point_payload(home: LoadedHome) -> None:
    home.index().set_payload("chunks", {"collection": "other"}, points=[home.document("page-2.md")[1]])


def plant_object_missing(home: LoadedHome) -> None:
    ObstoreObjects.from_settings(home.settings).delete(home.document("page-3.md")[2])


def plant_object_corrupt(home: LoadedHome) -> None:
    sha256 = home.document("page-4.md")[2]
    (home.settings.home / "objects" / sha256[:2] / sha256[2:4] / sha256).write_bytes(b"something else")


def plant_object_orphan(home: LoadedHome) -> None:
    sha256 = ObstoreObjects.from_settings(home.settings).put(b"nobody refers to me")
    os.utime(home.settings.home / "objects" / sha256[:2] / sha256[2:4] / sha256, (1_000, 1_000))


def plant_access_missing(home: LoadedHome) -> None:
    home.sql("DELETE FROM tuples WHERE resource_name = %s", home.document("page-5.md")[0])


def plant_access_foreign(home: LoadedHome) -> None:
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


def plant_profile_altered(home: LoadedHome) -> None:
    """A grant that would let eve see what eng alone may."""
    home.sql(
        "INSERT INTO tuples (tenant_id, resource_type, resource_name, relation, subject_type, subject_name)"
        " SELECT %s, 'profile', profile_id::text, 'viewer', 'user', 'eve' FROM documents WHERE document_id = %s",
        TENANT,
        home.document("eng/plan.md")[0],
    )


def plant_profile_unknown(home: LoadedHome) -> None:
    home.sql(
        "INSERT INTO tuples (tenant_id, resource_type, resource_name, relation, subject_type, subject_name)"
        " VALUES (%s, 'profile', '99999', 'viewer', 'user', 'eve')",
        TENANT,
    )


def plant_tuple_missing(home: LoadedHome) -> None:
    ((profile,),) = home.sql(
        "SELECT profile_id::text FROM documents WHERE document_id = %s", home.document("shut/plan.md")[0]
    )
    row = Relationship("profile", f"{TENANT}/{profile}", "viewer", "user", f"{TENANT}/eve")
    home.spicedb().apply([], [row])


def plant_tuple_stale(home: LoadedHome) -> None:
    row = Relationship("group", f"{TENANT}/eng", "member", "user", f"{TENANT}/eve")
    home.spicedb().apply([row], [])


def plant_edge_foreign(home: LoadedHome) -> None:
    home.sql(
        "INSERT INTO names (version_id, ordinal, source_id, space, key, rank, byte_start)"
        " SELECT version_id, 99, 'another', 'path', 'key', 0, 0 FROM documents WHERE document_id = %s",
        home.document("page-8.md")[0],
    )


def plant_version_unused(home: LoadedHome) -> None:
    home.sql(
        "INSERT INTO versions (document_id, tenant_id, content_sha256, fingerprint, embedding_model_version, source_type,"
        " collection, title, media_type, permalink, author, language, group_id) SELECT document_id, tenant_id,"
        " content_sha256, '', embedding_model_version, source_type, collection, title, media_type, permalink, author,"
        " language, group_id FROM versions WHERE document_id = %s",
        home.document("page-9.md")[0],
    )


def plant_outbox_parked(home: LoadedHome) -> None:
    home.sql(
        "INSERT INTO outbox (tenant_id, topic, key, payload, parked_at, reason)"
        " VALUES (%s, 'document.profile', %s, %s::jsonb, now(), 'planted')",
        TENANT,
        home.document("page-7.md")[0],
        json.dumps({"document_id": home.document("page-7.md")[0], "profile_id": 1}),
    )


# What is planted together, and what it shows as besides: the mirror and SpiceDB differ from both sides.
PLANTED: dict[str, tuple[dict[Kind, Callable[[LoadedHome], None]], dict[str, int]]] = {
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
            Kind.EDGE_FOREIGN: plant_edge_foreign,
            Kind.VERSION_UNUSED: plant_version_unused,
        },
        {"tuple.stale": 1},
    ),
    "profiles": (
        {Kind.PROFILE_ALTERED: plant_profile_altered, Kind.PROFILE_UNKNOWN: plant_profile_unknown},
        {"tuple.missing": 2},
    ),
    "tuples": ({Kind.TUPLE_MISSING: plant_tuple_missing, Kind.TUPLE_STALE: plant_tuple_stale}, {}),
}


def test_an_undisturbed_home_has_no_difference(home: LoadedHome) -> None:
    """After a load all stores agree, and each person sees what the lists say."""
    report = check(home.settings)
    assert (report.differences, report.in_flight, report.exit_code) == ((), 0, 0)
    assert report.counted["points"] == report.counted["objects"] == 15
    assert {name: len(documents) for name, documents in home.seen().items()} == {"ana": 13, "bo": 2, "eve": 2}


@pytest.mark.parametrize("group", PLANTED)
def test_each_difference_is_found_and_mended(home: LoadedHome, group: str) -> None:
    """Planted failures are found as what they are; the repair and the next load restore hashes and access, never more."""
    before, people = check(home.settings, reads_vectors=True), home.seen()
    planted, also = PLANTED[group]
    for plant in planted.values():
        plant(home)
    report = check(home.settings)
    assert found(report) == {**{kind.value: 1 for kind in planted}, **also}

    assert left(check(home.settings, repairs=True)) == {}
    narrowed = home.seen()
    assert all(narrowed[name] <= people[name] for name in PEOPLE)
    home.load()
    after = check(home.settings, reads_vectors=True)
    assert after.differences == ()
    assert hashes(after) == hashes(before)
    assert home.seen() == people


@pytest.mark.parametrize("alter", [other_dense, other_sparse])
def test_a_vector_that_is_another_shows_in_its_hash_alone(
    home: LoadedHome, alter: Callable[[ChunkVectors], ChunkVectors]
) -> None:
    """The last bit of one number, or one term; no hash of vectors is made unless it is asked for."""
    before = check(home.settings, reads_vectors=True)
    reader, writer = (kind.from_settings(home.settings) for kind in (QdrantIndexReader, QdrantIndexWriter))
    point = next(reader.whole_points(reader.serving()))
    writer.upsert([replace(point, vectors=alter(point.vectors))])
    altered = check(home.settings, reads_vectors=True)
    writer.upsert([point])

    assert (altered.differences, altered.index_sha256) == ((), before.index_sha256)
    assert altered.vectors_sha256 != before.vectors_sha256
    assert hashes(check(home.settings, reads_vectors=True)) == hashes(before)
    assert check(home.settings).vectors_sha256 == ""


def test_a_load_under_way_is_no_difference(home: LoadedHome) -> None:
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


@pytest.fixture
def vault(home: LoadedHome, tmp_path: Path) -> Iterator[SourceConfig]:
    """A vault of three notes that link to one another."""
    for name, text in (("a", "See [[b]] and [[c]]."), ("b", "Back to [[a]]."), ("c", "No link.")):
        (tmp_path / f"{name}.md").write_text(text)
    config = vault_source(home.settings, tmp_path, Naming("links", "default"))
    assert ingest(home.settings, config).indexed == 3
    yield config
    remove_source(home.settings, SourceRow(config.source_id, "vault", "links"))


@pytest.mark.parametrize("table", ["edges", "names"])
def test_lost_links_are_found_and_loaded_again(home: LoadedHome, vault: SourceConfig, table: str) -> None:
    """Rows that vanished from a shown document are noticed, and the next load of its source brings them back."""
    rows = f"SELECT * FROM {table} WHERE source_id = %s ORDER BY version_id, ordinal"
    before = [row[1:] for row in home.sql(rows, vault.source_id)]
    assert before and check(home.settings).differences == ()
    home.sql(
        f"DELETE FROM {table} t USING documents d"
        " WHERE d.version_id = t.version_id AND t.ordinal = 0 AND d.source_id = %s AND d.external_id = 'a.md'",
        vault.source_id,
    )
    report = check(home.settings)
    assert (found(report), report.exit_code) == ({"edge.missing": 1}, 9)
    (repaired,) = check(home.settings, repairs=True).differences
    assert (repaired.n_left, repaired.n_to_reload, repaired.examples) == (
        0,
        1,
        report.differences[0].examples,
    )
    assert ingest(home.settings, vault).indexed == 1
    assert sorted(row[1:] for row in home.sql(rows, vault.source_id)) == sorted(before)
    assert check(home.settings).differences == ()


def test_what_a_load_has_just_stored_is_no_litter(home: LoadedHome) -> None:
    """Neither new contents that the catalog has not heard of yet, nor old ones that a load found there, are collected."""
    objects = ObstoreObjects.from_settings(home.settings)
    new, old = objects.put(b"stored a moment ago"), objects.put(b"nobody refers to me")
    plant_object_orphan(home)
    assert found(check(home.settings, reads_objects=False)) == {"object.orphan": 1}
    inventory = CatalogInventory(home.settings.postgres_url)
    mender = ContentMender(home.settings, inventory, objects, Ledger(lambda *_: None))
    objects.put(b"nobody refers to me")  # a load, between the look and the deletion
    mender.mend(Kind.OBJECT_ORPHAN, [old])
    assert check(home.settings, repairs=True, reads_objects=False).differences == ()
    assert (objects.is_there(new), objects.is_there(old)) == (True, True)
    plant_object_orphan(home)
    part = work_folder(home.settings, home.config.source_id) / "recipe" / "part"
    part.parent.mkdir(parents=True)
    part.touch()  # a load that was killed, and may go on
    mender.mend(Kind.OBJECT_ORPHAN, [old])
    assert objects.is_there(old)
    shutil.rmtree(part.parent)
    mender.mend(Kind.OBJECT_ORPHAN, [old])
    assert not objects.is_there(old)
    objects.delete(new)
    inventory.close()


def test_the_command_says_what_differs_and_mends_it(home: LoadedHome) -> None:
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
