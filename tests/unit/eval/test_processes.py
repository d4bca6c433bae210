"""What processes of a home are called and have used."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

from eval.processes import Spent, _part, _role

SLEEP = "import time; time.sleep(60)"


def test_what_was_used_between_two_readings() -> None:
    """By part: new processes count whole, ended ones not at all."""
    before = Spent({1: ("qdrant", 5.0), 2: ("postgres", 1.0), 3: ("postgres", 9.0)})
    after = Spent({1: ("qdrant", 7.0), 2: ("postgres", 1.5), 4: ("postgres", 0.25)})
    assert before.until(after) == {"qdrant": 2.0, "postgres": 0.75}


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("ray::ServeReplica:cortex:query", "replica query"),
        ("ray::ServeReplica:cortex:embedding.handle_request", "replica embedding"),
        ("ray::ServeReplica:empty:empty", "app empty"),
        ("ray::ProxyActor", "proxy"),
        ("ray::ServeController", "controller"),
        ("ray::IDLE", ""),
        ("python", ""),
    ],
)
def test_a_process_of_ray_says_what_it_does(title: str, role: str) -> None:
    """Serve's replicas by deployment, the proxy, the controller; helpers have no role of their own."""
    with subprocess.Popen(["bash", "-c", f'exec -a "$0" {sys.executable} -c "{SLEEP}"', title]) as process:
        try:
            running = psutil.Process(process.pid)
            while running.cmdline()[:1] != [title]:
                time.sleep(0.01)
            assert _role(running) == role
            assert _part(running, {process.pid: "ray"}) == (role or "ray")
        finally:
            process.kill()


def test_a_process_belongs_to_the_engine_above_it() -> None:
    """A worker below an engine is that engine's; what no engine started is the supervisor's."""
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as process:
        try:
            running = psutil.Process(process.pid)
            assert _part(running, {psutil.Process().pid: "postgres"}) == "postgres"
            assert _part(running, {}) == "supervisor"
        finally:
            process.kill()
