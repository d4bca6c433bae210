"""A load on two nodes of Ray, the second of which is killed while it works: `python -m pytest -m slow`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import psutil
import pytest

from cluster.children import kill_all
from tests.services.homes import command_line
from tests.services.ray_home import RayHome, ray_home, wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(1200)]


T = TypeVar("T")
# A worker has then started, which takes about four, and embedded.
BUSY_S = 8.0


@pytest.fixture(scope="module")
def home() -> Iterator[RayHome]:
    with ray_home(n_pages=96, words_per_page=150) as made:
        yield made


@contextmanager
def second_node(home: RayHome) -> Iterator[psutil.Process]:
    """Start a second node, yield its raylet, and kill the node with all that runs on it, if that is not done yet."""
    env = home.scratch.state.env
    command = [sys.executable, "-m", "tests.services.ray_node", env["CORTEX_RAY_ADDRESS"]]
    with subprocess.Popen(
        command, env={**home.scratch.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as program:
        assert program.stdout is not None  # a pipe was asked for
        try:
            yield psutil.Process(int(program.stdout.readline()))
        finally:
            kill_node(program.pid)


def workers_of(raylet: psutil.Process) -> list[psutil.Process]:
    return [each for each in raylet.children() if "MapWorker" in command_line(each)]


def kill_node(pid: int) -> None:
    """Kill the program that holds a node, and all below it."""
    with suppress(psutil.NoSuchProcess):
        program = psutil.Process(pid)
        kill_all([program, *program.children(recursive=True)])


def test_a_load_survives_the_loss_of_its_busy_node(home: RayHome) -> None:
    """With the node killed that embeds, the load ends by itself with the same index, in 1.5 times the time at most."""
    with second_node(home) as raylet:
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
