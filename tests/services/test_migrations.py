"""Migrations on the real Postgres: from every earlier version with data in it, and refusals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from adapters.catalog.migrate import FOLDER, MigrationReport, migrate, read_migrations
from cortex.errors import Misconfigured, Unavailable
from cortex.settings import Settings
from tests.databases import new_database

pytestmark = pytest.mark.services

ALL = tuple(migration.name for migration in read_migrations())
# Rows as a catalog of version N holds them: `0001.sql` is loaded into a database that has migration 1, and so on.
# A new migration that changes stored rows brings the rows of the version before it.
SEEDS = Path(__file__).parent.parent / "fixtures" / "catalog"


@pytest.fixture
def empty_url(home_engines: Settings) -> Iterator[str]:
    with new_database(home_engines.postgres_url) as url:
        yield url


def rows(url: str, query: str) -> list[tuple]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def tables(url: str) -> list[tuple]:
    """Every column, index and constraint of the catalog's tables, as Postgres describes them."""
    return rows(
        url,
        """
        SELECT 'column', table_name, column_name, data_type || coalesce(column_default, '') || is_nullable
        FROM information_schema.columns WHERE table_schema = 'public'
        UNION ALL
        SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL
        SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        ORDER BY 1, 2, 3
        """,
    )


@pytest.mark.parametrize("version", range(len(ALL)))
def test_every_earlier_version_with_data_comes_up_to_this_one(home_engines: Settings, version: int) -> None:
    """A database of an older version keeps its rows, and ends with the same tables as a new one."""
    with new_database(home_engines.postgres_url) as old, new_database(home_engines.postgres_url) as new:
        migrate(old, up_to=version)
        seeds = [SEEDS / f"{number:04d}.sql" for number in range(1, version + 1)]
        with psycopg.connect(old) as connection:
            for seed in seeds:
                connection.execute(seed.read_text())
        assert migrate(old).applied == ALL[version:]
        migrate(new)
        assert tables(old) == tables(new)
        if version >= 1:
            shown = """
                SELECT d.document_id, v.title, c.text
                FROM documents d
                JOIN versions v ON v.version_id = d.version_id
                JOIN chunks c ON c.version_id = d.version_id
                ORDER BY c.ordinal"""
            assert rows(old, shown) == [("d1", "A title", "first"), ("d1", "A title", "second")]
        if version >= 2:
            assert rows(old, "SELECT user_id FROM users WHERE user_id = 'ann'") == [("ann",)]
            assert rows(old, "SELECT resource_name, subject_name FROM tuples") == [("eng", "ann")]
        if version >= 3:
            assert rows(old, "SELECT topic, published_at IS NULL FROM outbox") == [("tuples", True)]
            assert rows(old, "SELECT token FROM permission_state") == [("",)]
        if version >= 4:
            assert rows(old, "SELECT question, text FROM answers") == [("What?", "That.")]
        if version >= 5:
            led = rows(old, "SELECT target, target_document_id, state FROM resolved_edges")
            assert led == [("a.md", "d1", "resolved")]
        if version >= 6:
            assert rows(old, "SELECT status, skipped FROM sync_runs WHERE run_id = 'r6'") == [("stopped", [])]
            assert rows(old, "SELECT status FROM backfills") == [("succeeded",)]
        if version >= 7:
            assert rows(old, "SELECT changed_ids, settled_at FROM pushes") == [(["a.md"], None)]
        if version >= 8:
            people = "SELECT user_id, removed_at IS NULL, readmitted_at IS NULL FROM users ORDER BY 1"
            assert rows(old, people) == [("ann", True, True), ("zed", False, True), ("zoe", True, False)]
        if version >= 9:
            banded = "SELECT document_id FROM versions WHERE bands && '{8}'::bigint[]"
            assert rows(old, banded) == [("d1",)]
        if version >= 1:
            n = int(version >= 5)
            assert rows(old, "SELECT n_edges, n_names FROM versions") == [(n, n)]


def test_a_dry_run_changes_nothing(empty_url: str) -> None:
    """A dry run says what would be applied and leaves the database empty."""
    assert migrate(empty_url, is_dry_run=True) == MigrationReport((), ALL, True)
    assert tables(empty_url) == []
    assert migrate(empty_url) == MigrationReport((), ALL, False)
    assert migrate(empty_url) == MigrationReport(ALL, (), False)


def test_two_at_once_take_turns(empty_url: str) -> None:
    """Two programs that start together migrate once between them."""
    reports: list[MigrationReport] = []
    threads = [threading.Thread(target=lambda: reports.append(migrate(empty_url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(len(report.applied) for report in reports) == [0, 0, 0, len(ALL)]


def test_an_edited_migration_is_refused(empty_url: str, tmp_path: Path) -> None:
    """A file that changed since it was applied is named, and nothing is run."""
    migrate(empty_url)
    for path in FOLDER.glob("*.sql"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / ALL[1]).write_text("-- something else\n")
    with pytest.raises(Misconfigured, match=ALL[1]) as refused:
        migrate(empty_url, folder=tmp_path)
    assert refused.value.error_code == "migration.changed"


def test_a_newer_database_is_refused(empty_url: str, tmp_path: Path) -> None:
    """An older Cortex does not touch a database that a newer one has migrated."""
    migrate(empty_url)
    (tmp_path / ALL[0]).write_bytes((FOLDER / ALL[0]).read_bytes())
    with pytest.raises(Misconfigured) as refused:
        migrate(empty_url, folder=tmp_path)
    assert refused.value.error_code == "migration.newer"


def test_a_failing_migration_leaves_the_version_before_it(empty_url: str, tmp_path: Path) -> None:
    """A file with an error is rolled back whole; those before it stay and it is tried again."""
    (tmp_path / "0001_good.sql").write_text("CREATE TABLE good (x integer)")
    (tmp_path / "0002_bad.sql").write_text("CREATE TABLE half (x integer); SELECT 1 / 0")
    for _ in range(2):
        with pytest.raises(Exception, match="catalog"):
            migrate(empty_url, folder=tmp_path)
    assert rows(empty_url, "SELECT to_regclass('good') IS NULL, to_regclass('half') IS NULL") == [
        (False, True)
    ]
    (tmp_path / "0002_bad.sql").write_text("CREATE TABLE half (x integer)")
    assert migrate(empty_url, folder=tmp_path).applied == ("0002_bad.sql",)


def test_numbers_without_a_gap(tmp_path: Path) -> None:
    """A missing or misnamed file is found before anything is run."""
    (tmp_path / "0002_second.sql").write_text("SELECT 1")
    with pytest.raises(Misconfigured):
        read_migrations(tmp_path)


def test_a_database_that_is_down_is_unavailable() -> None:
    """Nobody listening is an error that can be waited out, and says nothing of the password."""
    with pytest.raises(Unavailable) as down:
        migrate("postgresql://cortex:sekret@127.0.0.1:9/postgres")
    assert "sekret" not in str(down.value)
