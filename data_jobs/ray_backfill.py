"""The process of a backfill: a detached actor in the cluster, which drives the load and ends with it.

Ray restarts it when its worker or node dies, and the load goes on from its checkpoint. Neither the dashboard nor its job
server is needed: they cost a home a third of its memory.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from cortex.errors import Conflict
from cortex.settings import Settings
from cortex.telemetry import event
from data_jobs.backfill import Submission, backfills, carry_out
from data_jobs.foresee import Forecast, announcing
from data_jobs.ray_cluster import connect
from data_jobs.ray_ingest import ray_ingest

_NAMESPACE = "cortex.backfills"
_RESTARTS = 5
_START_TIMEOUT_S = 120.0


class BackfillActor:
    """Begins to load when it starts, also when it is started again."""

    def __init__(self, settings: Settings, submission: Submission) -> None:
        self._settings = settings
        self._submission = submission
        threading.Thread(target=self._run, daemon=True).start()

    def ping(self) -> bool:
        """Say that it has started."""
        return True

    def _run(self) -> None:
        import ray

        announce = announcing(self._settings, _announce, lambda counts: None)
        carry_out(self._settings, self._submission, partial(ray_ingest, on_progress=announce))
        ray.kill(ray.get_runtime_context().current_actor)


def _announce(forecast: Forecast) -> None:
    event("load.planned", **asdict(forecast), fits=forecast.fits)


def start(settings: Settings, submission: Submission) -> None:
    """Start a claimed submission in the cluster; when that fails, it is recorded as failed and may be sent again."""
    try:
        connect(settings)
        _start(settings, submission)
    except BaseException:
        backfills(settings).finish(submission.submission_id, "failed")
        raise


def _start(settings: Settings, submission: Submission) -> None:
    import ray

    options: dict[str, Any] = {
        "name": submission.submission_id,
        "namespace": _NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_restarts": _RESTARTS,
    }
    try:
        actor = ray.remote(BackfillActor).options(**options).remote(settings, submission)
    except ValueError as error:
        raise Conflict(
            f"the cluster still runs {submission.submission_id}",
            code="backfill.active",
            hint="wait a minute: it may be ending",
        ) from error
    with suppress(ray.exceptions.GetTimeoutError):  # a busy cluster starts it later
        ray.get(actor.ping.remote(), timeout=_START_TIMEOUT_S)
