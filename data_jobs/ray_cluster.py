"""The way to the running Ray: find it, connect to it, ask what it has, and leave nothing of Ray Data behind."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from cortex.errors import Unavailable
from cortex.settings import Settings
from data_jobs.ray_quiet import keep_off_stdout, spare_helpers

# Of all that works for a load: what serves and stores goes first, always.
NICENESS = 10
_CONNECT_TIMEOUT_S = 5.0
# Actors that Ray Data keeps in the cluster for good, 165 MB each, besides those that `ray_quiet` spares it.
_LEFT_BEHIND = ("DataUsageCollectionActor", "dataset_stats_summary_actor")


def require_ray(settings: Settings) -> None:
    """Raise Unavailable unless the Ray that settings name accepts connections."""
    hint = "start it with `cortex up`, or load in this process with --no-ray"
    if not settings.ray_address:
        raise Unavailable("no Ray is running for this home", code="ray.missing", hint=hint)
    host, _, port = settings.ray_address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S):
            return
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"Ray does not answer at {settings.ray_address}", code="ray.unavailable", hint=hint
        ) from error


def connect(settings: Settings) -> None:
    """Connect this process to the running Ray, once, and keep Ray's own chatter off the console."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if settings.ray_address.startswith("127."):
        # Otherwise Ray replaces the loopback address by one of the machine's others, where no embedded head listens.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    if settings.ray_token_path:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN_PATH", settings.ray_token_path)
    import ray

    keep_off_stdout()
    if not ray.is_initialized():
        try:
            with _silence():
                ray.init(address=settings.ray_address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise Unavailable(
                f"Ray at {settings.ray_address} refused the connection: {type(error).__name__}",
                code="ray.unavailable",
                hint="cortex status",
            ) from error


@contextmanager
def _silence() -> Iterator[None]:
    """Drop what is written to stderr, also by C++: Ray announces there that it was told to be quiet."""
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def n_cores() -> int:
    """Count the cores that the cluster offers."""
    import ray

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def n_gpus() -> int:
    """Count the GPUs that the cluster offers."""
    import ray

    return int(ray.cluster_resources().get("GPU", 0))


def free_gpus() -> float:
    """Tell how much of them nobody holds."""
    import ray

    return float(ray.available_resources().get("GPU", 0))


def held_gpus() -> list[str]:
    """List the GPUs that Ray gave to this worker, whole or in part: the process sees no others."""
    import ray

    held: list[str] = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    return held


@contextmanager
def data_session(settings: Settings) -> Iterator[None]:
    """Use Ray Data, and end the actors it would leave for good, unless another load of this home still uses them."""
    with (settings.home / "run" / "ray-data.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        _in_order_and_small()
        spare_helpers()
        try:
            yield
        finally:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _end_data_actors()


def _in_order_and_small() -> None:
    from ray.data import DataContext

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # what fails is raised, and told once
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    context.target_max_block_size = (
        1  # a row each: rows are names of pieces, and any free actor may have the next
    )


def _end_data_actors() -> None:
    import ray

    for named in ray.util.list_named_actors(all_namespaces=True):
        if named["name"] in _LEFT_BEHIND:
            with suppress(ValueError, ray.exceptions.RayError):  # it ended by itself
                ray.kill(ray.get_actor(named["name"], named["namespace"]))
