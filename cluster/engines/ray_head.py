"""The `ray` command without what Cortex never calls: sub-commands that import pandas and FastAPI, Ray Client's server,
and the API server when no dashboard is wanted.

The command itself runs unchanged; to its guarded imports the missing parts look like extras that are not installed.
Measured: `ray --version` takes 10.6 processor-seconds with them and 3.8 without, on a busy machine, and the server of
Ray Client another 5 and 52 MB. Programs connect to the head itself. `ray start` would wait for an API server even
without a dashboard, for 4.8 processor-seconds; all that it then does is report usage, which is switched off.
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

_SUB_COMMANDS = ("ray.serve.scripts", "ray.util.state.state_cli", "ray.dashboard.modules.job.cli")
# In this process only Ray Client's server asks for grpc: it is started where grpc can be imported.
_RAY_CLIENT = ("grpc",)
# Run by its path: the raylet starts it wherever it is itself.
_AGENT = (str(Path(__file__).with_name("ray_agent.py")),)


def main() -> None:
    """Run `ray` with this process's arguments."""
    for module in (*_SUB_COMMANDS, *_RAY_CLIENT):
        sys.modules[module] = None  # type: ignore[assignment]  # the documented way to make an import fail
    if "--include-dashboard=false" in sys.argv:
        leave_out_dashboard()
    runpy.run_module("ray.scripts.scripts", run_name="__main__", alter_sys=True)


def leave_out_dashboard() -> None:
    """Start neither an API server nor the dashboard's agent: answer as when the first could not start, and put our own
    small agent in the place of the second.
    """
    # This process is Ray's own; the other modules of this folder never import it.
    services: Any = import_module("ray._private.services")
    agent = import_module("ray._private.ray_constants").PROCESS_TYPE_DASHBOARD_AGENT
    command_of = services._build_python_executable_command_memory_profileable

    def command(component: str, session_dir: str, unbuffered: bool = True) -> list[str]:
        built: list[str] = command_of(component, session_dir, unbuffered)
        return [*built, *_AGENT] if component == agent else built

    services.start_api_server = lambda *_, **__: (None, None)
    services._build_python_executable_command_memory_profileable = command


if __name__ == "__main__":
    main()
