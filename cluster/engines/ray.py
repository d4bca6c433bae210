"""The Ray head: bulk jobs and the serving processes, on loopback with a token, its files in the home."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cluster.engine import Engine, Launch
from cluster.place import Place, private_folder
from cluster.probe import probe_tcp
from cortex.errors import Misconfigured, Unavailable

# Blocks are small and text is dropped after chunking; Ray spills to disk past this.
OBJECT_STORE_BYTES = 300_000_000
# A Unix socket's path holds at most 107 bytes, and Ray adds about 62 to its temporary folder.
LONGEST_TEMP_DIR = 44
_ADDRESS_FILE = "ray_current_cluster"
# Stages call each other in plain gRPC, on the loop that runs their code, instead of through Ray's object store and a
# second thread. Not its direct ingress, which opens every replica on all addresses (decision 0013).
_FAST_STAGES = {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0"}


def _provides(place: Place) -> dict[str, str]:
    token_path = place.folder("keys") / "ray.secret"
    place.secret("ray")
    return {
        "CORTEX_RAY_ADDRESS": f"127.0.0.1:{place.port('ray')}",
        "CORTEX_RAY_TOKEN_PATH": str(token_path),
        "CORTEX_RAY_TEMP_DIR": str(_temp_dir(place)),
        # Ray itself reads these, in whatever process imports it.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # only then does Ray stay on loopback
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token_path),
    }


async def _probe(env: Mapping[str, str]) -> None:
    await probe_tcp(env["CORTEX_RAY_ADDRESS"])
    if folder := env.get("CORTEX_RAY_TEMP_DIR"):
        _see_node(Path(folder))


def _see_node(folder: Path) -> None:
    """Raise Unavailable until `ray start` has written its address: it does so once its node takes work."""
    if not (folder / _ADDRESS_FILE).exists():
        raise Unavailable("Ray's node is starting")


def _launch(place: Place) -> Launch:
    temp_dir = _temp_dir(place)
    _forget_earlier(temp_dir)
    ports = {
        "port": "ray",
        "dashboard-port": "ray_dashboard",
        # Given, these need not be reported back: the raylet would wait for its agents' imports, 15 s at most, and
        # `ray start` gives the raylet 30 s. Both limits are fixed in Ray, and a machine under full load exceeds them.
        "dashboard-agent-listen-port": "ray_agent",
        "dashboard-agent-grpc-port": "ray_agent_grpc",
        "runtime-env-agent-port": "ray_runtime_env",
        "metrics-export-port": "ray_metrics_export",
    }
    arguments = [f"--{flag}={place.port(name)}" for flag, name in ports.items()]
    arguments += [
        "--node-ip-address=127.0.0.1",
        "--dashboard-host=127.0.0.1",
        f"--include-dashboard={str(place.settings.ray_dashboard).lower()}",
        "--disable-usage-stats",
        "--no-monitor",  # the autoscaler's: one machine does not grow
        "--include-log-monitor=false",  # it copies workers' logs to the consoles of jobs, and ours read the files
        f"--object-store-memory={OBJECT_STORE_BYTES}",
        f"--temp-dir={temp_dir}",
    ]
    env = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # the default of 15 starves workers beside the databases
        # Serve looks after its replicas, and its processes report figures, ten times a second: half of what idling costs.
        "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",
        "RAY_SERVE_METRICS_EXPORT_INTERVAL_MS": "5000",
        # The default of 5 s, three times in a row, is too short for a machine under full load, as is the dashboard's of 60.
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "30",
        "DASHBOARD_METRIC_PORT": str(place.port("ray_metrics")),
        "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "180",
        **(_FAST_STAGES if place.settings.placement == "staged" else {}),
    }
    command = (sys.executable, "-m", "cluster.engines.ray_head", "start", "--head", "--block")
    return Launch((*command, *arguments), env)


def _forget_earlier(folder: Path) -> None:
    """Remove what earlier sessions left, all but the logs of the last one."""
    (folder / _ADDRESS_FILE).unlink(missing_ok=True)
    sessions = sorted(path for path in folder.glob("session_*") if not path.is_symlink())
    for session in sessions[:-1]:
        shutil.rmtree(session, ignore_errors=True)


def _temp_dir(place: Place) -> Path:
    """Return Ray's folder: in the home, or under the system's temporary folder when the home lies too deep."""
    folder = place.home / "ray"
    if len(os.fsencode(folder)) > LONGEST_TEMP_DIR:
        name = hashlib.sha256(os.fsencode(place.home)).hexdigest()[:10]
        folder = Path(tempfile.gettempdir()) / f"cortex-ray-{name}"
    private_folder(folder)
    if folder.stat().st_uid != os.geteuid():
        raise Misconfigured(
            f"{folder} belongs to another user",
            code="ray.temp_dir",
            hint="set TMPDIR to a short private folder",
        )
    return folder


ENGINE = Engine(
    name="ray",
    summary="jobs and serving processes",
    probe=_probe,
    provides=_provides,
    launch=_launch,
    given_url=lambda settings: settings.ray_address,
    start_timeout_s=300.0,  # a dozen imports of Ray: 18 processor-seconds on an idle machine
    stop_timeout_s=20.0,
)
