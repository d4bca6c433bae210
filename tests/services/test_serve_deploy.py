"""A Serve config handed to a Ray of its own, by `serve deploy` as an operator does and KubeRay's controller in its place. `-m slow`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml

from cluster.children import kill_all
from cluster.place import choose_port, is_free
from data_jobs.ingest import ingest
from data_jobs.sources import files_source
from kuberay.build import shipped
from kuberay.serving import small_patch
from serve_apps.placements import STAGES
from tests.services.asking import token
from tests.services.homes import ScratchHome
from tests.services.ray_home import wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PERSON = "mara@tarnvik.example"
START_S = 300.0
FAST_STAGES = {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_SERVE_ENABLE_DIRECT_INGRESS": "0"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray with its dashboard, beside a home that has the engines."""

    env: dict[str, str]
    dashboard: str
    port: int
    folder: Path

    def serve(self, *arguments: str) -> str:
        """Run Serve's own command; fails the test with what it said."""
        command = [sys.executable, "-m", "ray.serve.scripts", *arguments]
        done = subprocess.run(
            command, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def cortex(self, *arguments: str) -> str:
        """Run `cortex` in the cluster's environment."""
        command = [sys.executable, "-m", "clients.cli.main", *arguments]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def deploy(self, document: dict[str, Any]) -> None:
        """Check a config, hand it over, and return when all of it runs."""
        path = self.folder / "cortex.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        self.cortex("serve-config", "--check", str(path))
        self.serve("deploy", str(path), "--address", self.dashboard)
        wait_until(self.runs, timeout_s=START_S)

    def runs(self) -> bool:
        (application,) = self.status()["applications"].values()
        assert application["status"] != "DEPLOY_FAILED", application["message"]
        return bool(application["status"] == "RUNNING")

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = yaml.safe_load(self.serve("status", "--address", self.dashboard))
        return told


@pytest.fixture(scope="module")
def home() -> Iterator[ScratchHome]:
    """The engines, with the sample company loaded."""
    with tempfile.TemporaryDirectory(prefix="cortex-test-") as folder:
        scratch = ScratchHome(Path(folder) / "home")
        try:
            scratch.up("postgres", "qdrant", "spicedb", "relay")
            settings = scratch.settings()
            company = files_source(settings, EXAMPLES / "sample_company", name="sample_company")
            assert ingest(settings, company).failed == ()
            yield scratch
        finally:
            scratch.down()


@pytest.fixture(scope="module")
def cluster(home: ScratchHome) -> Iterator[Cluster]:
    """A Ray as a cluster has it: the engines by their addresses, a home that holds nothing but the key, a dashboard."""
    with tempfile.TemporaryDirectory(prefix="cr-") as name:  # short: Ray's sockets lie below it
        folder = Path(name)
        (folder / "home" / "keys").mkdir(parents=True, mode=0o700)
        token(home.settings(), PERSON)  # the key is made with the first token
        shutil.copy(home.path / "keys" / "issuer.pem", folder / "home" / "keys")
        told = {name: value for name, value in home.state.env.items() if not name.startswith("CORTEX_RAY")}
        env = home.env | told | {"CORTEX_HOME": str(folder / "home")}
        with ray_head(env | FAST_STAGES, folder) as dashboard:
            yield Cluster(env | FAST_STAGES, dashboard, choose_port(None, (), is_free), folder)


@contextmanager
def ray_head(env: dict[str, str], folder: Path) -> Iterator[str]:
    """Start Ray with its dashboard on loopback, and yield the dashboard's address."""
    ports = {name: str(choose_port(None, (), is_free)) for name in ("gcs", "dashboard", "agent", "client")}
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats"),
        *("--node-ip-address", "127.0.0.1", "--dashboard-host", "127.0.0.1", "--num-cpus", "4"),
        *("--port", ports["gcs"], "--dashboard-port", ports["dashboard"], "--temp-dir", str(folder / "ray")),
        *("--dashboard-agent-listen-port", ports["agent"], "--ray-client-server-port", ports["client"]),
        *("--object-store-memory", "100000000"),
    ]
    with (
        (folder / "ray.log").open("w") as log,
        subprocess.Popen(command, env=env, stdout=log, stderr=log) as head,
    ):
        try:
            address = f"http://127.0.0.1:{ports['dashboard']}"
            wait_until(lambda: answers(f"{address}/api/gcs_healthz"), timeout_s=START_S)
            yield address
        finally:
            program = psutil.Process(head.pid)
            kill_all([*program.children(recursive=True), program])


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=10).status_code < 500
    except httpx.HTTPError:
        return False


def of_kuberay(port: int) -> dict[str, Any]:
    """The Serve config in KubeRay's manifest for one node, on a port of this machine."""
    (value,) = (each["value"] for each in small_patch(shipped()) if each["path"] == "/spec/serveConfigV2")
    document: dict[str, Any] = yaml.safe_load(value)
    document["http_options"] |= {"host": "127.0.0.1", "port": port}
    return document


def test_what_is_deployed_answers_and_changes_in_place(home: ScratchHome, cluster: Cluster) -> None:
    """KubeRay's config for one node is taken, all stages run, questions are answered; a change of numbers is made in place."""
    document = of_kuberay(cluster.port)
    cluster.deploy(document)
    (application,) = cluster.status()["applications"].values()
    assert set(application["deployments"]) == {"ingress", *STAGES}
    hits = ask(home, cluster.port)
    assert hits

    deployments = {each["name"]: each for each in document["applications"][0]["deployments"]}
    deployments["understanding"]["autoscaling_config"] |= {"min_replicas": 2, "max_replicas": 2}
    cluster.deploy(document)
    wait_until(lambda: n_running(cluster, "understanding") == 2)
    assert ask(home, cluster.port) == hits


def test_what_serve_build_writes_is_deployed_too(home: ScratchHome, cluster: Cluster) -> None:
    """`serve build serve_apps.apps:staged` writes a config that passes the check and says what ours says."""
    path = cluster.folder / "built.yaml"
    cluster.serve("build", "serve_apps.apps:staged", "-o", str(path))
    cluster.cortex("serve-config", "--check", str(path))
    built = yaml.safe_load(path.read_text())
    for each in built["applications"][0]["deployments"]:
        each["ray_actor_options"] = {"num_cpus": 0}
        if "autoscaling_config" in each:
            each["autoscaling_config"] |= {"min_replicas": 1, "initial_replicas": 1, "max_replicas": 1}
    built["applications"][0]["name"] = "cortex"
    built["http_options"] |= {"host": "127.0.0.1", "port": cluster.port}
    cluster.deploy(built)
    assert ask(home, cluster.port)


def n_running(cluster: Cluster, name: str) -> int:
    (application,) = cluster.status()["applications"].values()
    return int(application["deployments"][name]["replica_states"].get("RUNNING", 0))


def ask(home: ScratchHome, port: int) -> list[str]:
    reply = httpx.post(
        f"http://127.0.0.1:{port}/v1/search",
        json={"query": "When are travel receipts due?"},
        headers={"Authorization": f"Bearer {token(home.settings(), PERSON)}"},
        timeout=60,
    )
    return [hit["chunk_id"] for hit in reply.raise_for_status().json()["hits"]]
