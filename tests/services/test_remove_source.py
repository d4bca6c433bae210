"""`cortex sources show | remove` on real engines: gone from every store, and others untouched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.catalog.removal import CatalogRemoval, SourceRow
from adapters.objects import ObstoreObjects
from adapters.qdrant_reader import QdrantIndexReader
from adapters.spicedb.reader import SpiceDBReader
from cortex.errors import Conflict
from cortex.ids import sha256_hex
from data_jobs.checkpoint import work_folder
from data_jobs.consistency.check import check
from data_jobs.ingest import ingest
from data_jobs.parts import deliver_queued
from data_jobs.remove_source import remove_source
from data_jobs.source_lock import source_lock
from data_jobs.sources import files_source
from tests.services.loaded_home import PEOPLE, LoadedHome

pytestmark = pytest.mark.services
SHARED = "The plan of open is to move the queue."  # a file of the other source says just this


@pytest.fixture
def source(home: LoadedHome, tmp_path: Path) -> Iterator[SourceRow]:
    """A second source: five documents, one with a content that the first source has too, and a group of its own."""
    root = tmp_path / "second"
    root.mkdir()
    (root / ".cortex-access.yaml").write_text("viewers: {groups: [crew]}\ngroups: {crew: {users: [eve]}}\n")
    for number in range(4):
        (root / f"log-{number}.md").write_text(f"Entry {number} of the log: heading {number * 40} degrees.")
    (root / "shared.md").write_text(SHARED)
    config = files_source(home.settings, root, name="second")
    assert ingest(home.settings, config).indexed == 5
    yield SourceRow(config.source_id, "files", "second")
    left = home.sql("SELECT source_id FROM sources WHERE name = 'second'")
    if left:
        remove_source(home.settings, SourceRow(config.source_id, "files", "second"))


def traces(home: LoadedHome, source_id: str, document_ids: list[str]) -> dict[str, int]:
    """Look for a source and its documents in every table that has text, in the index and in SpiceDB."""
    found = {}
    columns = home.sql(
        "SELECT table_name, string_agg(quote_ident(column_name) || '::text', ' || '' '' || ') FROM information_schema.columns"
        " JOIN information_schema.tables USING (table_schema, table_name)"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name NOT IN ('audit', 'outbox')"
        " AND is_nullable = 'NO' GROUP BY table_name"
    )
    for table, text in columns:
        ((n,),) = home.sql(
            f"SELECT count(*) FROM {table} t WHERE ({text}) ~ %s", "|".join([source_id, *document_ids])
        )
        if n:
            found[table] = n
    if n := QdrantIndexReader.from_settings(home.settings).count_source(source_id):
        found["index"] = n
    token = home.settings.spicedb_token.get_secret_value()
    held = SpiceDBReader(home.settings.spicedb_url, token).relationships()
    if n := sum(any(one in str(row) for one in document_ids) for row in held):
        found["spicedb"] = n
    return found


def test_a_removed_source_is_nowhere_and_others_are_untouched(home: LoadedHome, source: SourceRow) -> None:
    """Its documents are in no table, no collection and no tuple; a content that another source has is kept."""
    ids = [
        row[0] for row in home.sql("SELECT document_id FROM documents WHERE source_id = %s", source.source_id)
    ]
    own = sha256_hex(b"Entry 1 of the log: heading 40 degrees.")
    objects = ObstoreObjects.from_settings(home.settings)
    people = {name: seen - set(ids) for name, seen in home.seen().items()}
    assert set(home.seen()["eve"]) >= set(ids)
    assert set(traces(home, source.source_id, ids)) >= {
        "documents",
        "versions",
        "chunks",
        "tuples",
        "index",
        "spicedb",
    }
    assert (objects.is_there(own), objects.is_there(sha256_hex(SHARED.encode()))) == (True, True)

    part = work_folder(home.settings, source.source_id) / "recipe" / "part"
    part.parent.mkdir(parents=True)
    part.write_text("Entry 1 of the log")  # what a killed load had prepared

    receipt = remove_source(home.settings, source)
    assert not part.exists()
    assert (receipt.documents, receipt.chunks, receipt.points, receipt.tuples) == (5, 5, 5, 5)
    assert (receipt.memberships, receipt.objects, receipt.points_left) == (1, 4, 0)
    assert traces(home, source.source_id, ids) == {}
    assert (objects.is_there(own), objects.is_there(sha256_hex(SHARED.encode()))) == (False, True)
    assert home.seen() == people
    assert check(home.settings).differences == ()
    ((fields,),) = home.sql(
        "SELECT fields FROM audit WHERE action = 'source.remove' ORDER BY acted_at DESC LIMIT 1"
    )
    assert fields["documents"] == 5


def test_a_removal_that_was_killed_hides_at_once_and_goes_on(home: LoadedHome, source: SourceRow) -> None:
    """After its first step nobody sees a document of it; running it again leaves nothing."""
    ids = {
        row[0] for row in home.sql("SELECT document_id FROM documents WHERE source_id = %s", source.source_id)
    }
    catalog = CatalogRemoval(home.settings.postgres_url)
    catalog.hide(home.settings.tenant_id, source.source_id, "operator:test")
    deliver_queued(
        home.settings
    )  # what the relay does; until then checks are closed, a membership being gone
    assert [home.seen()[name] & ids for name in PEOPLE] == [set()] * 3
    catalog.close()
    assert remove_source(home.settings, source).documents == 5
    assert traces(home, source.source_id, sorted(ids)) == {}
    assert check(home.settings).differences == ()


def test_the_commands_show_and_remove(home: LoadedHome, source: SourceRow) -> None:
    """`show` counts, `remove` refuses to guess, a source that is being loaded is left alone, and one removed is unknown."""
    cortex = home.scratch.cortex
    shown = cortex("sources", "show", "second").document
    assert (shown["counts"]["n_documents"], shown["runs"][0]["status"]) == (5, "succeeded")
    refused = cortex("sources", "remove", "second")
    assert (refused.code, refused.document["error"]["code"]) == (2, "confirmation.missing")
    with source_lock(home.settings, source.source_id), pytest.raises(Conflict):
        remove_source(home.settings, source)
    removed = cortex("sources", "remove", "files:second", "--yes")
    assert (removed.code, removed.document["documents"]) == (0, 5), json.dumps(removed.document)
    assert cortex("sources", "remove", "second", "--yes").code == 4
