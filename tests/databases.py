"""Databases of their own for tests, copied from a migrated template."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg

_numbers = itertools.count(1)


def named(url: str, database: str) -> str:
    """The URL of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


@contextmanager
def new_database(url: str, template: str = "template1") -> Iterator[str]:
    """Make a database, yield its URL, and drop it with whoever is still connected."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield named(url, name)
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")
