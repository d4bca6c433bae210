"""A second node of a home's Ray on this machine; dies as a whole with its raylet. Its GPUs are a claim.

Its program, `python -m tests.services.ray_node HOST:PORT [--gpus N]`, is not `ray start`, which would give it an address
that is not the loopback's, where no embedded head listens.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import psutil

from cluster.children import kill_all
from cluster.engines import ray_head
from tests.services.homes import ScratchHome


@contextmanager
def second_node(home: ScratchHome, *options: str) -> Iterator[psutil.Process]:
    """Start a second node, yield its raylet, and kill the node with all that runs on it, if that is not done yet."""
    env = home.state.env
    command = [sys.executable, "-m", "tests.services.ray_node", env["CORTEX_RAY_ADDRESS"], *options]
    with subprocess.Popen(
        command, env={**home.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as program:
        assert program.stdout is not None  # a pipe was asked for
        try:
            yield psutil.Process(int(program.stdout.readline()))
        finally:
            kill_node(program.pid)


def kill_node(pid: int) -> None:
    """Kill the program that holds a node, and all below it."""
    with suppress(psutil.NoSuchProcess):
        program = psutil.Process(pid)
        kill_all([program, *program.children(recursive=True)])


def main() -> None:
    """Start the node, print its raylet's process id, and wait to be killed."""
    ray_head.leave_out_dashboard()
    parameters: Any = import_module("ray._private.parameter")
    node: Any = import_module("ray._private.node")
    started = node.Node(
        parameters.RayParams(
            gcs_address=sys.argv[1],
            node_ip_address="127.0.0.1",
            num_cpus=2,
            num_gpus=int(sys.argv[3]) if "--gpus" in sys.argv else None,
            object_store_memory=80_000_000,
        ),
        head=False,
        shutdown_at_exit=False,
        spawn_reaper=False,
    )
    print(started.all_processes["raylet"][0].process.pid, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
