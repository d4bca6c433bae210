"""A load on two nodes of Ray, the second of which is killed while it works: `python -m pytest -m slow`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import psutil
import pytest

from tests.services.homes import command_line
from tests.services.ray_home import RayHome, ray_home, wait_until
from tests.services.ray_node import kill_node, second_node

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1200)]


T = TypeVar("T")
# A worker has then started, which takes about four, and embedded.
BUSY_S = 8.0


@pytest.fixture(scope="module")
def home() -> Iterator[RayHome]:
    with ray_home(n_pages=96, words_per_page=150) as made:
        yield made


def workers_of(raylet: psutil.Process) -> list[psutil.Process]:
    return [each for each in raylet.children() if "MapWorker" in command_line(each)]


def test_a_load_survives_the_loss_of_its_busy_node(home: RayHome) -> None:
    """With the node killed that embeds, the load ends by itself with the same index, in 1.5 times the time at most."""
    with second_node(home.scratch) as raylet:
        home.write("kept")
        undisturbed_s, undisturbed = timed(home.load)
        expected = home.hashes()
        home.write("other")
        assert home.load()["failed"] == []

        home.write("kept")
        disturbed_s, code = timed(lambda: load_and_lose(home, raylet))
    print(f"undisturbed {undisturbed_s:.1f} s, with the node killed {disturbed_s:.1f} s")
    assert code == 0
    assert home.hashes() == expected
    assert home.load()["unchanged"] == undisturbed["indexed"] == home.n_pages
    assert disturbed_s <= 1.5 * undisturbed_s


def load_and_lose(home: RayHome, raylet: psutil.Process) -> int:
    """Load, and kill the node once one of its workers has embedded for some seconds; returns the load's exit code."""
    process = home.start_load()
    wait_until(lambda: any(each.cpu_times().user > BUSY_S for each in workers_of(raylet)), timeout_s=600)
    assert process.poll() is None
    kill_node(raylet.ppid())
    return process.wait(timeout=900)


def timed(action: Callable[[], T]) -> tuple[float, T]:
    started = time.monotonic()
    done = action()
    return time.monotonic() - started, done
