"""Fixtures of the service tests: scratch homes with real engines."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cortex.settings import Settings
from tests.services.homes import ScratchHome

SEARCH_ENGINES = ("postgres", "qdrant", "spicedb")


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


@pytest.fixture
def new_home() -> Iterator[Callable[..., ScratchHome]]:
    """Makes empty homes (keyword arguments: environment variables), ended and deleted after the test."""
    homes: list[ScratchHome] = []

    def make(**extra_env: str) -> ScratchHome:
        homes.append(ScratchHome(Path(tempfile.mkdtemp(prefix="cortex-test-")), extra_env))
        return homes[-1]

    yield make
    for home in homes:
        if (home.path / "run" / "state.json").exists():
            home.down()
        shutil.rmtree(home.path, ignore_errors=True)
