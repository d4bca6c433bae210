"""A load on two nodes of Ray, the second of which is killed while it works: `python -m pytest -m slow`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from cluster.children import kill_all
from tests.services.ray_home import RayHome, ray_home, wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def home() -> Iterator[RayHome]:
    with ray_home(n_pages=96, words_per_page=500) as made:
        yield made


def start_node(home: RayHome) -> psutil.Process:
    """Start a second node; returns its raylet."""
    settings = home.scratch.state.env
    command = [sys.executable, "-m", "tests.services.ray_node", settings["CORTEX_RAY_ADDRESS"]]
    process = subprocess.Popen(
        command, env={**home.scratch.env, **settings}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None  # a pipe was asked for
    return psutil.Process(int(process.stdout.readline()))


def workers_of(raylet: psutil.Process) -> list[psutil.Process]:
    return [each for each in raylet.children() if any("MapWorker" in part for part in each.cmdline())]


def kill_node(raylet: psutil.Process) -> None:
    """Kill a node with all that runs on it."""
    program = raylet.parent()
    assert program is not None
    kill_all([program, *program.children(recursive=True)])


def test_a_load_survives_the_loss_of_its_busy_node(home: RayHome) -> None:
    """With the node killed that embeds, the load ends by itself with the same index, in 1.5 times the time at most."""
    raylet = start_node(home)
    home.write("kept")
    started = time.monotonic()
    undisturbed = home.load()
    undisturbed_s = time.monotonic() - started
    expected = home.hashes()
    home.write("other")
    assert home.load()["failed"] == []

    home.write("kept")
    started = time.monotonic()
    process = home.start_load()
    wait_until(lambda: any(each.cpu_times().user > 10 for each in workers_of(raylet)))
    kill_node(raylet)
    assert process.wait(timeout=600) == 0
    disturbed_s = time.monotonic() - started
    print(f"undisturbed {undisturbed_s:.1f} s, with the node killed {disturbed_s:.1f} s")
    assert home.hashes() == expected
    assert home.load()["unchanged"] == undisturbed["indexed"] == home.n_pages
    assert disturbed_s <= 1.5 * undisturbed_s
