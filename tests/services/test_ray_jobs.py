"""Loads in the running Ray, with the job, its workers and Ray itself killed at random moments, and backfills.

Each load starts actors that load a model, so that most of these take a minute: `python -m pytest -m slow`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from cluster.children import kill_all
from tests.services.ray_home import N_PAGES, RayHome, ray_home, wait_until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def home() -> Iterator[RayHome]:
    with ray_home() as made:
        yield made


def test_a_load_in_ray_ends_whole_and_leaves_no_worker(home: RayHome) -> None:
    """All pages are indexed, no helper of Ray Data appears, a second load changes nothing, and no process is left behind."""
    home.write("first")
    process = home.start_load()
    helpers: list[str] = []
    while process.poll() is None:
        helpers += home.helpers()
        time.sleep(0.3)
    assert (process.returncode, helpers) == (0, [])
    before = home.hashes()
    again = home.load()
    assert (again["indexed"], again["unchanged"], again["removed"]) == (0, N_PAGES, 0)
    assert home.hashes() == before
    wait_until(lambda: home.workers() == [])


def test_a_load_survives_its_workers(home: RayHome) -> None:
    """With workers killed while they work, the same load ends with every page, none listed as failed, and says only so."""
    home.write("second")
    process = home.start_load()
    wait_until(lambda: len(home.workers()) > 0)
    time.sleep(2.0)
    kill_all(home.workers())
    assert process.wait(timeout=240) == 0
    report = json.loads(home.report_path.read_text())
    assert (report["indexed"], report["failed"]) == (N_PAGES, [])
    again = home.load()
    assert (again["indexed"], again["unchanged"], again["failed"]) == (0, N_PAGES, [])
    home.hashes()


@pytest.mark.parametrize("victim", ["job", "ray"])
def test_a_killed_load_is_finished_by_the_next(home: RayHome, victim: str) -> None:
    """Whatever is killed at a random moment, the next load ends with every page, and all stores agree."""
    home.write(f"killed-{victim}")
    chance = random.Random(victim)
    process = home.start_load()
    wait_until(lambda: len(home.workers()) > 0)
    time.sleep(chance.uniform(0.5, 5.0))
    if victim == "job":
        process.kill()
    else:
        restarts = home.scratch.state.engines[victim].restarts
        home.scratch.kill_engines(victim)
        wait_until(lambda: home.scratch.state.engines[victim].restarts > restarts)
        wait_until(lambda: home.scratch.state.is_ready)
    process.wait(timeout=240)
    loaded = home.load()
    assert (loaded["indexed"] + loaded["unchanged"], loaded["failed"]) == (N_PAGES, [])
    home.hashes()


def test_gpus_that_ray_does_not_have_are_refused(home: RayHome) -> None:
    """A load that must use GPUs ends at once where there are none, with the way out; it does not wait for them."""
    home.write("gpus")
    demanding = replace(home.scratch, extra_env={"CORTEX_INGEST_GPUS_PER_WORKER": "0.5"})
    ran = demanding.cortex("ingest", "files", str(home.pages), "--name", "pages", timeout_s=60)
    assert (ran.code, ran.document["error"]["code"]) == (8, "ray.no_gpus")
    assert "CORTEX_INGEST_GPUS_PER_WORKER" in ran.document["error"]["hint"]


def test_a_backfill_runs_by_itself_and_a_repeat_is_refused(home: RayHome) -> None:
    """A submitted load succeeds with nobody waiting; while it runs a second one is refused and told which has it."""
    home.write("backfill")
    first = home.scratch.cortex("backfill", "submit", "pages")
    assert first.code == 0, first.document
    name = first.document["submission_id"]
    second = home.scratch.cortex("backfill", "submit", "pages")
    assert second.code == 5
    assert name in second.document["error"]["message"]

    def status() -> dict[str, Any]:
        found: dict[str, Any] = home.scratch.cortex("backfill", "status", name).document["backfills"][0]
        return found

    wait_until(lambda: status()["status"] != "running", timeout_s=240)
    assert (status()["status"], status()["counts"]["indexed"]) == ("succeeded", N_PAGES)
    assert home.load()["unchanged"] == N_PAGES


def test_a_backfill_stops_when_told(home: RayHome) -> None:
    """A stopped backfill keeps what it loaded and is recorded as stopped; the next load goes on to the end."""
    home.write("stopped")
    name = home.scratch.cortex("backfill", "submit", "pages").document["submission_id"]
    wait_until(lambda: home.scratch.cortex("backfill", "stop", name).code == 0)

    def status() -> str:
        found: str = home.scratch.cortex("backfill", "status", name).document["backfills"][0]["status"]
        return found

    wait_until(lambda: status() != "running", timeout_s=240)
    assert status() in ("stopped", "succeeded")
    loaded = home.load()
    assert (loaded["indexed"] + loaded["unchanged"], loaded["failed"]) == (N_PAGES, [])
    home.hashes()
