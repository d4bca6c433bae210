"""How many actors a bulk load has and what each holds: none a core of Ray's, those that embed a share of a GPU if there is one."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from cortex.errors import Misconfigured, Unavailable
from cortex.settings import Settings
from cortex.telemetry import event
from data_jobs.parts import can_use_gpus
from data_jobs.patience import patiently
from data_jobs.ray_cluster import free_gpus, n_cores, n_gpus

# A small model leaves a GPU idle while texts are tokenized: several processes fill it, and fit into its memory.
_USUAL_SHARE = 0.25


# Of content: what one process embeds while another would start.
_BYTES_PER_WORKER = 200_000


@dataclass(frozen=True, slots=True)
class Pools:
    """How many actors prepare and embed, and which share of a GPU each of the latter holds."""

    n_prepare: int
    n_embed: int
    gpu_share: float = 0.0

    def fitting(self, n_portions: int, n_bytes: int) -> Pools:
        """Leave out actors that would have nothing to do: a portion is prepared by one, and embedded by several if it is large."""
        n_embed = min(self.n_embed, max(n_portions, n_bytes // _BYTES_PER_WORKER))
        return Pools(min(self.n_prepare, n_portions), n_embed, self.gpu_share)

    @classmethod
    def of_cores(cls, n_workers: int) -> Pools:
        """Share cores: preparing takes half of the time that embedding takes, or less."""
        return cls(-(-n_workers // 2), n_workers)

    @classmethod
    def of_gpus(cls, n_workers: int, n_gpus: int, share: float) -> Pools:
        """Fill whole GPUs, each with as many as it holds, and leave the cores to preparing."""
        return cls(n_workers, n_gpus * int(1 / share + 1e-9), share)


def choose_pools(settings: Settings) -> Pools:
    """Decide by settings and by what Ray has; raises Misconfigured or Unavailable where GPUs that must be used cannot be had.

    Ray itself would wait for them without a word.
    """
    n_workers = settings.ingest_workers or n_cores()
    demanded = settings.ingest_gpus_per_worker
    share = _share_offered() if demanded is None else demanded
    if not share:
        return Pools.of_cores(n_workers)
    try:
        patiently(lambda: _require_gpus(share))
    except Unavailable as error:
        if demanded:
            raise
        event("ingest.without_gpu", level=logging.WARNING, code=error.error_code, hint=error.hint)
        return Pools.of_cores(n_workers)
    return Pools.of_gpus(n_workers, n_gpus(), share)


def _share_offered() -> float:
    return _USUAL_SHARE if n_gpus() and can_use_gpus() else 0.0


def _require_gpus(share: float) -> None:
    hint = (
        "unset CORTEX_INGEST_GPUS_PER_WORKER to do without, or start Ray with GPUs (`ray start --num-gpus`)"
    )
    if not n_gpus():
        raise Misconfigured(
            f"a load is to hold {share:g} of a GPU per process, and this Ray has none",
            code="ray.no_gpus",
            hint=hint,
        )
    if free_gpus() < share:
        raise Unavailable(
            f"less than {share:g} of Ray's GPUs is free",
            code="ray.gpus_busy",
            hint="wait for what holds them",
        )
