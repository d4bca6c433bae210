"""A load on two nodes of Ray, the second of which is killed while it works: `python -m pytest -m slow`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.services.homes import command_line
from tests.services.ray_home import RayHome, ray_home
from tests.services.ray_node import kill_node, second_node

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1200)]


# Of the processor time that a load's worker takes: it has then started, and embeds.
BUSY_SHARE = 0.6
MOST_S = 900


@pytest.fixture(scope="module")
def home() -> Iterator[RayHome]:
    with ray_home(n_pages=240, words_per_page=150) as made:
        yield made


def busiest_s(raylet: psutil.Process) -> float:
    """Return the most processor time that a worker of a node has taken so far; 0 where none is left."""
    most_s = 0.0
    with suppress(psutil.NoSuchProcess):
        for each in raylet.children():
            if "MapWorker" in command_line(each):
                most_s = max(most_s, each.cpu_times().user)
    return most_s


def test_a_load_survives_the_loss_of_its_busy_node(home: RayHome) -> None:
    """With the node killed that embeds, the load ends by itself with the same index, in 1.5 times the time at most."""
    with second_node(home.scratch) as raylet:
        home.write("kept")
        undisturbed_s, most_s = load(home, raylet)
        expected = home.hashes()
        home.write("other")
        assert home.load()["failed"] == []

        home.write("kept")
        disturbed_s, _ = load(home, raylet, kill_at_s=BUSY_SHARE * most_s)
    print(f"undisturbed {undisturbed_s:.1f} s, with the node killed {disturbed_s:.1f} s")
    assert home.hashes() == expected
    assert home.load()["unchanged"] == home.n_pages
    assert disturbed_s <= 1.5 * undisturbed_s


def load(home: RayHome, raylet: psutil.Process, kill_at_s: float | None = None) -> tuple[float, float]:
    """Load to the end; returns the seconds it took and the most processor time of a node's worker.

    With `kill_at_s`, the node is killed once one of its workers has taken that much.
    """
    started_s, most_s, is_killed = time.monotonic(), 0.0, kill_at_s is None
    process = home.start_load()
    try:
        while process.poll() is None:
            most_s = max(most_s, busiest_s(raylet))
            if not is_killed and most_s > kill_at_s:
                kill_node(raylet.ppid())
                is_killed = True
            assert time.monotonic() < started_s + MOST_S, "the load does not end"
            time.sleep(0.1)
    finally:
        if process.poll() is None:
            process.terminate()
        code = process.wait(timeout=60)
    assert code == 0
    assert is_killed, f"the load ended before a worker of the node had taken {kill_at_s:.1f} s"
    return time.monotonic() - started_s, most_s
