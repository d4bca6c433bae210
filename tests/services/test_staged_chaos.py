"""The staged placement under losses: replicas killed, a new version under load, full queues, a GPU that comes later. `-m slow`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from cluster.children import kill_all
from serve_apps.config import serve_config
from serve_apps.placements import STAGES
from tests.services.homes import ScratchHome
from tests.services.ray_home import wait_until
from tests.services.ray_node import kill_node, second_node
from tests.services.staged_home import ASKED, PEOPLE, Askers, StagedHome, own_config, staged_home

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]

TWO = {"autoscaling_config": {"min_replicas": 2, "max_replicas": 2}}
A_GPU = {"ray_actor_options": {"num_cpus": 0, "num_gpus": 1}}


@pytest.fixture(scope="module")
def home() -> Iterator[StagedHome]:
    """Two replicas of what is killed again and again, one of the rest."""
    with staged_home(ingress=TWO, search=TWO, recheck=TWO) as made:
        yield made


@pytest.mark.parametrize("stage", ["search", "recheck", "permissions", "understanding"])
def test_a_stage_replica_killed_under_load_fails_no_request(home: StagedHome, stage: str) -> None:
    """Whether another replica takes over or the call waits for the new one, every question is answered."""
    n_before = len(home.replicas(stage))
    with Askers(home) as askers:
        wait_until(lambda: askers.outcomes["found"] >= 8)
        kill_all(home.replicas(stage)[:1])
        n_found = askers.outcomes["found"]
        wait_until(lambda: len(home.replicas(stage)) == n_before and askers.outcomes["found"] >= n_found + 20)
    print(stage, dict(askers.outcomes), dict(askers.degraded))
    assert set(askers.outcomes) == {"found"}


def test_a_lost_embedding_replica_costs_the_dense_lane_at_most(home: StagedHome) -> None:
    """With the only replica gone, questions wait for the new one or are answered by words and say so; none fails."""
    with Askers(home) as askers:
        wait_until(lambda: askers.outcomes["found"] >= 8)
        kill_all(home.replicas("embedding"))
        wait_until(lambda: bool(home.replicas("embedding")))
        n_found = askers.outcomes["found"]
        wait_until(lambda: askers.outcomes["found"] >= n_found + 20)
    assert set(askers.outcomes) == {"found"}
    wait_until(lambda: home.staged(PEOPLE[0], ASKED[0])["degraded"] == [])


def test_a_killed_ingress_replica_costs_what_it_held_and_our_clients_nothing(home: StagedHome) -> None:
    """Whoever asks once loses at most the question that the replica held; the command line asks again, and is answered."""
    with Askers(home) as once, Askers(home, is_patient=True) as patient:
        wait_until(lambda: min(once.outcomes["found"], patient.outcomes["found"]) >= 8)
        kill_all(home.replicas("ingress")[:1])
        n_found = once.outcomes["found"], patient.outcomes["found"]
        wait_until(lambda: len(home.replicas("ingress")) == 2)
        wait_until(lambda: once.outcomes["found"] >= n_found[0] + 20)
        wait_until(lambda: patient.outcomes["found"] >= n_found[1] + 20)
    print("asked once", dict(once.outcomes), "patient", dict(patient.outcomes))
    assert set(patient.outcomes) == {"found"}
    assert once.outcomes.total() - once.outcomes["found"] <= once.n_people


def test_a_new_version_drains_the_old_one(home: StagedHome) -> None:
    """The whole app is replaced while people ask; new replicas start first, old ones finish what they hold."""
    stages = ("ingress", *STAGES)
    before = {each.pid for stage in stages for each in home.replicas(stage)}
    document = serve_config(home.settings, "staged")
    (application,) = document["applications"]
    application["args"] |= {"home": str(home.settings.home)}
    path = home.scratch.path / "new-version.yaml"
    path.write_text(yaml.safe_dump(document))
    with Askers(home, n_people=1) as once, Askers(home, n_people=1, is_patient=True) as patient:
        wait_until(lambda: min(once.outcomes["found"], patient.outcomes["found"]) >= 8)
        deploy(home, path)
        wait_until(
            lambda: not before & {each.pid for stage in stages for each in home.replicas(stage)},
            timeout_s=500,
        )
        n_found = once.outcomes["found"]
        wait_until(lambda: once.outcomes["found"] >= n_found + 20)
    print("asked once", dict(once.outcomes), "patient", dict(patient.outcomes), dict(once.degraded))
    assert set(patient.outcomes) == {"found"}
    # Nothing breaks off; ten processes that start on two cores may keep the permission check from its time limit.
    assert set(once.outcomes) <= {"found", "503 permissions.slow"}


def deploy(home: StagedHome, path: Path) -> None:
    """Run `serve run` on a config in the home's Ray, as an operator does without a dashboard."""
    env = {**home.scratch.env, **home.scratch.state.env}
    command = [sys.executable, "-m", "ray.serve.scripts", "run", str(path), "--non-blocking"]
    done = subprocess.run(
        [*command, "--address", env["CORTEX_RAY_ADDRESS"]],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]


# ---------------------------------------------------------------------------------------------- a GPU that is not there


def test_a_cluster_without_gpus_that_is_asked_for_one_says_so(tmp_path: Path) -> None:
    """`cortex up` ends with the reason instead of waiting for a GPU that never comes."""
    config = own_config(tmp_path, embedding=A_GPU)
    with scratch(tmp_path, config) as starting:
        started_s = time.monotonic()
        ran = starting.cortex("up")
        assert ran.code != 0
        assert "GPU" in str(ran.document), ran.document
        assert time.monotonic() - started_s < 120


@pytest.fixture(scope="module")
def poor() -> Iterator[StagedHome]:
    """An encoder that waits for a GPU, and a search stage that takes one question and lets one wait."""
    from_zero = A_GPU | {"autoscaling_config": {"min_replicas": 0, "max_replicas": 1}}
    one = {"max_ongoing_requests": 1, "max_queued_requests": 1}
    with staged_home(embedding=from_zero, search=one) as made:
        yield made


def test_a_full_stage_answers_429_with_a_pause(poor: StagedHome) -> None:
    """Whoever does not fit is told when to come back; nobody gets less than all or an error of another kind."""
    with ThreadPoolExecutor(24) as pool:
        replies = list(pool.map(lambda n: ask(poor, ASKED[n % len(ASKED)]), range(24)))
    assert Counter(reply.status_code for reply in replies).keys() == {200, 429}
    for reply in replies:
        if reply.status_code == 429:
            assert (reply.json()["code"], reply.headers["retry-after"]) == ("stage.busy", "1")


def test_the_embedding_stage_grows_from_zero_when_a_gpu_comes(poor: StagedHome) -> None:
    """Until a node with a GPU joins, words alone answer and say so, in bounded time; afterwards both lanes do."""
    started_s = time.monotonic()
    degraded = poor.staged(PEOPLE[0], ASKED[0])["degraded"]
    assert [each["part"] for each in degraded] == ["dense"]
    assert time.monotonic() - started_s < 15
    with second_node(poor.scratch, "--gpus", "1"):
        wait_until(lambda: poor.staged(PEOPLE[0], ASKED[0])["degraded"] == [])


def test_a_lost_node_costs_the_lane_that_it_held_until_another_comes(poor: StagedHome) -> None:
    """The node of the encoder is killed under questions: none fails, words alone answer, and the next node takes over."""
    with second_node(poor.scratch, "--gpus", "1") as raylet:
        wait_until(lambda: poor.staged(PEOPLE[0], ASKED[0])["degraded"] == [])
        with Askers(poor, n_people=1) as asker:
            wait_until(lambda: asker.outcomes["found"] >= 3)
            assert not asker.degraded
            kill_node(raylet.ppid())
            wait_until(lambda: asker.degraded.total() >= 3)
    assert set(asker.outcomes) == {"found"}
    assert {each.partition(":")[0] for each in asker.degraded} == {"dense"}
    with second_node(poor.scratch, "--gpus", "1"):
        wait_until(lambda: poor.staged(PEOPLE[0], ASKED[0])["degraded"] == [])


def ask(home: StagedHome, text: str) -> httpx.Response:
    return httpx.post(
        f"{home.url}/v1/search", json={"query": text}, headers=home.headers(PEOPLE[0]), timeout=60
    )


@contextmanager
def scratch(folder: Path, config: Path) -> Iterator[ScratchHome]:
    made = ScratchHome(folder / "home", {"CORTEX_PLACEMENT": "staged", "CORTEX_SERVE_CONFIG": str(config)})
    try:
        yield made
    finally:
        if (made.path / "run" / "state.json").exists():
            made.down()
