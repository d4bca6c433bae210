"""Brings a database's tables to this version: numbered SQL files, each applied once, in order, in its own transaction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from adapters.catalog.failures import translated
from adapters.catalog.queries import queries
from cortex.errors import Misconfigured
from cortex.ids import sha256_hex

FOLDER = Path(__file__).parent / "migrations"
_NAME = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_SQL = queries("migrations")


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered SQL file."""

    number: int
    name: str
    sha256: str
    sql: bytes


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What a migration found and did: file names already there, and those applied now (or due, in a dry run)."""

    present: tuple[str, ...]
    applied: tuple[str, ...]
    is_dry_run: bool


def read_migrations(folder: Path = FOLDER) -> tuple[Migration, ...]:
    """Read the migration files in order; their numbers must run 1, 2, 3, …"""
    found: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if not match or int(match[1]) != len(found) + 1:
            raise Misconfigured(f"{path.name} is out of sequence", code="migration.misnamed")
        content = path.read_bytes()
        found.append(Migration(int(match[1]), path.name, sha256_hex(content), content))
    return tuple(found)


def migrate(
    url: str, *, is_dry_run: bool = False, up_to: int | None = None, folder: Path = FOLDER
) -> MigrationReport:
    """Apply what is missing, up to a number if given; two at once take turns.

    Raises Misconfigured when an applied file has changed since, or when the database is newer than this code.
    """
    migrations = read_migrations(folder)
    with translated(), psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SQL["lock"])
        try:
            present = _history(connection)
            _compare(present, migrations)
            due = [m for m in migrations[len(present) :] if up_to is None or m.number <= up_to]
            if not is_dry_run:
                _apply(connection, due)
        finally:
            connection.execute(_SQL["unlock"])
    return MigrationReport(tuple(name for name, _ in present), tuple(m.name for m in due), is_dry_run)


def _history(connection: psycopg.Connection) -> list[tuple[str, str]]:
    """List what was applied, in order, as (name, sha256)."""
    row = connection.execute(_SQL["has_history"]).fetchone()
    return connection.execute(_SQL["history"]).fetchall() if row and row[0] else []


def _compare(present: Sequence[tuple[str, str]], migrations: Sequence[Migration]) -> None:
    """Refuse a database whose history is not a prefix of the files here."""
    if len(present) > len(migrations):
        raise Misconfigured(
            f"the database is newer than this version of Cortex: it has {present[-1][0]}",
            code="migration.newer",
            hint="install the version that wrote it, or restore a backup",
        )
    for (name, sha256), migration in zip(present, migrations, strict=False):
        if (name, sha256) != (migration.name, migration.sha256):
            raise Misconfigured(
                f"{migration.name} differs from the {name} that this database was made with",
                code="migration.changed",
                hint="never edit an applied migration; restore the file and add a new one",
            )


def _apply(connection: psycopg.Connection, due: Sequence[Migration]) -> None:
    """Run each file and record it in the same transaction."""
    connection.execute(_SQL["make_history"])
    for migration in due:
        with connection.transaction():
            connection.execute(migration.sql)
            connection.execute(
                _SQL["record"],
                {"number": migration.number, "name": migration.name, "sha256": migration.sha256},
            )
