"""The `ray` command without what Cortex never calls: sub-commands that import pandas and FastAPI, and Ray Client's server.

The command itself runs unchanged; to its guarded imports the missing parts look like extras that are not installed.
Measured: `ray --version` takes 10.6 processor-seconds with them and 3.8 without, on a busy machine, and the server of
Ray Client another 5 and 52 MB. Programs connect to the head itself.
"""

from __future__ import annotations

import runpy
import sys

_SUB_COMMANDS = ("ray.serve.scripts", "ray.util.state.state_cli", "ray.dashboard.modules.job.cli")
# In this process only Ray Client's server asks for grpc: it is started where grpc can be imported.
_RAY_CLIENT = ("grpc",)


def main() -> None:
    """Run `ray` with this process's arguments."""
    for module in (*_SUB_COMMANDS, *_RAY_CLIENT):
        sys.modules[module] = None  # type: ignore[assignment]  # the documented way to make an import fail
    runpy.run_module("ray.scripts.scripts", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
