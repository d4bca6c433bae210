"""A second node of a home's Ray on this machine: `python -m tests.services.ray_node HOST:PORT [--gpus N]`; dies as a whole
with its raylet. Its GPUs are a claim.

Not `ray start`, which would give it an address that is not the loopback's, where no embedded head listens.
"""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from typing import Any

from cluster.engines import ray_head


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
