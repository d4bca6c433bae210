"""Writes a whole catalog into files and reads it back: one snapshot, Postgres' own text format, any server of any host."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from graphlib import TopologicalSorter
from pathlib import Path

import psycopg
from psycopg import sql

from adapters.catalog.failures import translated
from adapters.catalog.migrate import migrate, read_migrations
from adapters.catalog.queries import queries
from cortex.errors import Conflict, Misconfigured

_SQL = queries("dump")
_COMPRESSION = 1  # the disk is slower than level 1 and much faster than level 9


@dataclass(frozen=True, slots=True)
class DumpedTable:
    """One table in a file of its own, `<name>.copy.gz`."""

    name: str
    columns: tuple[str, ...]
    n_rows: int


@dataclass(frozen=True, slots=True)
class Dump:
    """A catalog at one moment. `sequences` are numbers never to be given out again, profiles' above all."""

    tables: tuple[DumpedTable, ...]
    sequences: Mapping[str, int]
    migrations: tuple[str, ...]
    newest_access_change_at: datetime | None


@contextmanager
def dumping(url: str, folder: Path) -> Iterator[tuple[Dump, Iterator[str]]]:
    """Write every table; gives the dump, and the hashes of the contents that the same snapshot refers to."""
    with translated(), psycopg.connect(url, options="-c timezone=UTC") as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        tables = []
        for name, columns in connection.execute(_SQL["tables"]).fetchall():
            tables.append(_write(connection, name, columns, folder / f"{name}.copy.gz"))
        # Sequences do not belong to a snapshot: read after the rows, they are past all of them.
        sequences: dict[str, int] = dict(connection.execute(_SQL["sequences"]).fetchall())
        migrations = tuple(name for (name,) in connection.execute(_SQL["history"]))
        row = connection.execute(_SQL["newest_access_change"]).fetchone()
        yield Dump(tuple(tables), sequences, migrations, row[0] if row else None), _contents(connection)


def _write(connection: psycopg.Connection, name: str, columns: Sequence[str], path: Path) -> DumpedTable:
    query = sql.SQL("COPY {} ({}) TO STDOUT").format(sql.Identifier(name), _listed(columns))
    with gzip.open(path, "wb", _COMPRESSION) as file, connection.cursor() as cursor:
        with cursor.copy(query) as copy:
            for block in copy:
                file.write(block)
        return DumpedTable(name, tuple(columns), cursor.rowcount)


def _contents(connection: psycopg.Connection) -> Iterator[str]:
    with connection.cursor(name="contents") as cursor:
        cursor.execute(queries("inventory")["referenced_objects"])
        for (sha256,) in cursor:
            yield sha256


def require_empty(url: str) -> None:
    """Raise Conflict when a catalog holds anything."""
    with translated(), psycopg.connect(url) as connection:
        row = connection.execute(_SQL["has_rows"]).fetchone()
    if row and row[0]:
        raise Conflict(
            "the catalog is not empty, and a restore never mixes two",
            code="restore.not_empty",
            hint="restore into a new CORTEX_HOME, or an empty database",
        )


def load(url: str, folder: Path, dump: Dump) -> None:
    """Fill an empty catalog, all or nothing, then bring it to this version; raises what `fill` raises."""
    fill(url, folder, dump)
    migrate(url)


def fill(url: str, folder: Path, dump: Dump) -> None:
    """Fill an empty catalog as of the dump's migrations.

    Raises Conflict when the catalog is not empty, Misconfigured when a newer Cortex wrote the dump.
    """
    known = [migration.name for migration in read_migrations()]
    if list(dump.migrations) != known[: len(dump.migrations)]:
        raise Misconfigured(
            "this backup was written by a newer version of Cortex",
            code="migration.newer",
            hint="install the version that wrote it",
        )
    require_empty(url)
    with translated(), psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    migrate(url, up_to=len(dump.migrations))
    with translated(), psycopg.connect(url, options="-c timezone=UTC") as connection:
        by_name = {table.name: table for table in dump.tables}
        listed = sql.SQL(", ").join(map(sql.Identifier, by_name))
        connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(listed))  # rows that migrations begin with
        for name in _in_order(by_name, connection.execute(_SQL["references"]).fetchall()):
            _read(connection, by_name[name], folder / f"{name}.copy.gz")
        for sequence, value in dump.sequences.items():
            connection.execute(_SQL["set_sequence"], {"name": sequence, "value": value})


def _in_order(names: Iterable[str], references: Iterable[tuple[str, str]]) -> list[str]:
    """Order tables so that each comes after those it refers to."""
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(names, ()))
    for table, referred in references:
        sorter.add(table, referred)
    return list(sorter.static_order())


def _read(connection: psycopg.Connection, table: DumpedTable, path: Path) -> None:
    query = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table.name), _listed(table.columns))
    with gzip.open(path, "rb") as file, connection.cursor() as cursor, cursor.copy(query) as copy:
        while block := file.read(65_536):
            copy.write(block)


def _listed(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))
