"""Ray without its word on stdout, and Ray Data without its helper actors: for statistics, autoscaling and locations.

Each actor is a process that imports all of Ray Data: some processor-seconds and 165 MB, for a dashboard that does not run,
for nodes that actors without logical CPUs never ask for, and for sending blocks where they lie, which are names here.
Their places are taken in this process, by what Ray Data itself does when they are away. The names are private to the Ray that the locks pin; a test sees that no such actor appears.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Nobody:
    """Stands for an actor: every call of every method is dropped, also in a worker that was told of it."""

    def __getattr__(self, name: str) -> _Nobody:
        if name.startswith("__"):  # what pickling asks for
            raise AttributeError(name)
        return self

    def remote(self, *_: object, **__: object) -> None:
        """Call nothing."""


class _AsItIs:
    """A cluster that is not scaled: what there is, is what there will be."""

    def __init__(self, *_: object, **__: object) -> None:
        """Take what a cluster autoscaler takes, and need none of it."""

    def try_trigger_scaling(self) -> None:
        """Ask for nothing."""

    def on_executor_shutdown(self) -> None:
        """Take nothing back."""

    def get_total_resources(self) -> Any:
        """Return what all nodes have together."""
        import ray
        from ray.data import ExecutionResources

        return ExecutionResources.from_resource_dict(ray.cluster_resources())


# How long Ray Data's loop waits for all running tasks before it looks at each: with two tasks at every actor, seldom is enough.
_LOOK_EVERY_S = 0.3


def spare_helpers() -> None:
    """Do without them in what this process runs from now on."""
    stats: Any = import_module("ray.data._internal.stats")
    stats.get_or_create_stats_actor = _Nobody
    stats._StatsManager.gen_dataset_id_from_stats_actor = staticmethod(_new_id)
    executor: Any = import_module("ray.data._internal.execution.streaming_executor")
    executor.create_cluster_autoscaler = _AsItIs
    pools: Any = import_module("ray.data._internal.execution.operators.actor_pool_map_operator")
    pools.get_or_create_actor_location_tracker = _Nobody
    pools.get_actor_locations = _as_they_began
    loop: Any = import_module("ray.data._internal.execution.streaming_executor_state")
    loop.WAIT_FOR_TASK_COMPLETION_TIMEOUT_S = _LOOK_EVERY_S


def keep_off_stdout() -> None:
    """Leave stdout to our one document: Ray prints there which of its workers died, whatever it is told about logs."""
    worker: Any = import_module("ray._private.worker")
    worker.print_to_stdstream = _drop


def _drop(*_: object, **__: object) -> None:
    """Print nothing: Ray's own logs have it."""


def _as_they_began(_: object) -> dict[str, str]:
    """Know of no actor that it moved: Ray Data then takes it to be where it began."""
    return {}


def _new_id() -> str:
    from uuid import uuid4

    return uuid4().hex
