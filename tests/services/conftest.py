"""Fixtures of the service tests: scratch homes that a test has for itself. The shared one is in `tests/conftest.py`."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services.homes import ScratchHome
from tests.services.loaded_home import LoadedHome, loaded_home
from tests.twins.slack_workspace import Workspace, serving

EXPORT = Path(__file__).parents[1] / "fixtures" / "slack" / "export"


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


@pytest.fixture
def glacier() -> Iterator[Workspace]:
    """A Slack workspace with one private channel, a thread and a file in it: few calls, because a client paces them."""
    whole = Workspace.of_export(EXPORT)
    channels = [channel for channel in whole.channels if channel["id"] == "G0SEC"]
    users = [user for user in whole.users if user["id"] in whole.members["G0SEC"]]
    with serving(replace(whole, channels=channels, users=users)) as workspace:
        yield workspace
