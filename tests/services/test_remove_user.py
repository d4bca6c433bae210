"""`cortex access remove-user` on real engines: refused from the next request on, whatever sources say and while they are loaded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from adapters.catalog.access import PostgresAccess
from adapters.catalog.ingest import PostgresIngestCatalog
from adapters.catalog.removal import SourceRow
from adapters.spicedb.reader import SpiceDBReader
from cortex.ids import tenant_object_id
from cortex.ports.connectors import SourceConfig
from data_jobs.consistency.check import check
from data_jobs.ingest import ingest
from data_jobs.parts import deliver_queued
from data_jobs.remove_source import remove_source
from data_jobs.sources import files_source
from tests.services.asking import search, token
from tests.services.loaded_home import TENANT, LoadedHome

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection"),  # loopback
]


@pytest.fixture
def crew(home: LoadedHome, tmp_path: Path) -> Iterator[SourceConfig]:
    """A source that names fay and gus: both in its group, and fay on a document of her own."""
    (tmp_path / ".cortex-access.yaml").write_text(
        "viewers: {groups: [crew]}\ngroups: {crew: {users: [fay, gus]}}\n"
    )
    (tmp_path / "log.md").write_text("The log says that the anchor was lifted at dawn.")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / ".cortex-access.yaml").write_text("viewers: {users: [fay]}\n")
    (tmp_path / "own" / "note.md").write_text("A note about the anchor that fay alone may read.")
    config = files_source(home.settings, tmp_path, name="crew")
    assert ingest(home.settings, config).indexed == 2
    yield config
    remove_source(home.settings, SourceRow(config.source_id, "files", "crew"))


def ask(home: LoadedHome, *tokens: str) -> list[tuple[int, object]]:
    """What each token finds of the anchor."""
    return search(home.settings, "anchor", *tokens)


def groups_in_spicedb(home: LoadedHome, user_id: str) -> set[str]:
    """The groups that SpiceDB holds a person in."""
    reader = SpiceDBReader(home.settings.spicedb_url, home.settings.spicedb_token.get_secret_value())
    own = tenant_object_id(TENANT, user_id)
    held = {
        row.resource_id
        for row in reader.relationships()
        if row.subject_id == own and row.resource_type == "group"
    }
    reader.close()
    return held


def test_a_removed_person_finds_nothing_and_comes_back_by_the_operator_alone(
    home: LoadedHome, crew: SourceConfig
) -> None:
    """Their old token is 401 on the next request; loads that name them again change nothing; others keep what they see."""
    cortex = home.scratch.cortex
    old, gus = token(home.settings, "fay", age_s=60), token(home.settings, "gus")
    assert ask(home, old, gus) == [(200, ["log.md", "note.md"]), (200, ["log.md"])]
    assert groups_in_spicedb(home, "fay") == {"default/crew", "default|everyone"}

    ran = cortex("access", "remove-user", "fay")
    assert (ran.code, ran.document) == (0, {"user": "fay", "changed": True})
    assert ask(home, old, token(home.settings, "fay"), gus) == [
        (401, "user.removed"),
        (401, "user.removed"),
        (200, ["log.md"]),
    ]
    assert groups_in_spicedb(home, "fay") == set()
    ingest(home.settings, crew)
    assert cortex("access", "remove-user", "fay").document["changed"] is False
    assert groups_in_spicedb(home, "fay") == set()
    assert check(home.settings).differences == ()
    access = PostgresAccess(home.settings.postgres_url)
    shown = access.user(TENANT, "fay")
    assert (shown.removed_at is None, shown.n_documents, shown.groups) == (False, 0, ())
    assert "fay" in access.tenant(TENANT).removed and "fay" not in access.tenant(TENANT).users

    assert cortex("access", "add-user", "fay").code == 0
    assert ask(home, old, token(home.settings, "fay")) == [(401, "token.revoked"), (200, ["note.md"])]
    ingest(home.settings, crew)
    assert ask(home, token(home.settings, "fay")) == [(200, ["log.md", "note.md"])]
    assert check(home.settings).differences == ()
    events = cortex("access", "history", "--user", "fay", "--action", "user").document["events"]
    assert [(event["action"], event["who"].partition(":")[0]) for event in events] == [
        ("user.readmit", "operator"),
        ("user.remove", "operator"),
    ]


def test_a_person_is_removed_while_a_load_names_them(home: LoadedHome, crew: SourceConfig) -> None:
    """Whatever the load was doing at that moment, the person is out afterwards, and stays out."""
    is_over = Event()

    def load_again_and_again() -> int:
        n = 0
        while not is_over.is_set():
            (Path(crew.options["root"]) / "log.md").write_text(f"The anchor was lifted, says edition {n}.")
            assert ingest(home.settings, crew).failed == ()
            n += 1
        return n

    catalog = PostgresIngestCatalog(home.settings.postgres_url)
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load_again_and_again)
        try:
            time.sleep(0.5)
            assert catalog.remove_user(TENANT, "gus")
            deliver_queued(home.settings)
            said = ask(home, token(home.settings, "gus"))
        finally:
            is_over.set()
            catalog.close()
        assert loading.result() > 0
    ingest(home.settings, crew)
    assert [*said, *ask(home, token(home.settings, "gus"))] == [(401, "user.removed")] * 2
    assert groups_in_spicedb(home, "gus") == set()
    assert check(home.settings).differences == ()
