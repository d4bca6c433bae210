"""Fixtures of the service tests: scratch homes that a test has for itself. The shared one is in `tests/conftest.py`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services.homes import ScratchHome
from tests.services.loaded_home import LoadedHome, loaded_home


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


@pytest.fixture(scope="session")
def home() -> Iterator[LoadedHome]:
    """A home with one loaded folder, whose stores agree; a test leaves it so."""
    with loaded_home() as made:
        yield made
