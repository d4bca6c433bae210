"""Fixtures that several folders share: real engines in one scratch home, and a fresh catalog in it for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest

from adapters.catalog.migrate import migrate
from cortex.settings import Settings
from tests.databases import named, new_database
from tests.services.homes import ScratchHome

# Engines on the same machine make single examples slow now and then: that says nothing about a property.
hypothesis.settings.register_profile("cortex", deadline=None)
hypothesis.settings.load_profile("cortex")

SEARCH_ENGINES = ("postgres", "qdrant", "spicedb")
_TEMPLATE = "catalog_template"


@pytest.fixture(scope="session")
def home_engines() -> Iterator[Settings]:
    """Settings of a home in which Postgres, the Qdrant engine and SpiceDB run, shared by the session's tests.

    Tests must not depend on what others left: take a tenant of your own.
    """
    with_engines = ScratchHome(Path(tempfile.mkdtemp(prefix="cortex-test-")))
    try:
        with_engines.up(*SEARCH_ENGINES)
        yield with_engines.settings()
    finally:
        with_engines.down()
        shutil.rmtree(with_engines.path, ignore_errors=True)


@pytest.fixture(scope="session")
def empty_catalog(home_engines: Settings) -> str:
    """The name of a database with every table and no row, to copy from."""
    with psycopg.connect(home_engines.postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {_TEMPLATE}")
    migrate(named(home_engines.postgres_url, _TEMPLATE))
    return _TEMPLATE


@pytest.fixture
def catalog_url(home_engines: Settings, empty_catalog: str) -> Iterator[str]:
    """The URL of a migrated, empty catalog that this test has for itself."""
    with new_database(home_engines.postgres_url, empty_catalog) as url:
        yield url
