"""How many actors a load asks Ray for: by its cores, or by its GPUs and the share of one that each actor holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortex.errors import CortexError
from cortex.settings import Settings
from data_jobs import patience, ray_pools
from data_jobs.ray_pools import Pools, choose_pools


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Eight cores and two idle GPUs, with the runtime that can use them."""
    monkeypatch.setattr(patience, "PATIENCE_S", 0.0)
    offers(monkeypatch)
    return monkeypatch


def offers(
    patch: pytest.MonkeyPatch, *, n_gpus: int = 2, free: float = 2.0, is_gpu_build: bool = True
) -> None:
    patch.setattr(ray_pools, "n_cores", lambda: 8)
    patch.setattr(ray_pools, "n_gpus", lambda: n_gpus)
    patch.setattr(ray_pools, "free_gpus", lambda: free)
    patch.setattr(ray_pools, "can_use_gpus", lambda: is_gpu_build)


def chosen(share: float | None, n_workers: int = 0) -> Pools:
    return choose_pools(
        Settings(home=Path("/nowhere"), ingest_gpus_per_worker=share, ingest_workers=n_workers)
    )


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (None, Pools(8, 8, 0.25)),
        (0.0, Pools(4, 8)),
        (1.0, Pools(8, 2, 1.0)),
        (0.4, Pools(8, 4, 0.4)),  # two fit on each, and the rest of both is no room for a fifth
        (0.1, Pools(8, 20, 0.1)),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_gpus_are_filled_one_by_one(share: float | None, expected: Pools) -> None:
    """As many embed as hold their share of one GPU, and the cores are left to preparing; 0 means no GPU."""
    assert chosen(share) == expected


@pytest.mark.parametrize(
    ("n_portions", "n_bytes", "expected"),
    [
        (1, 50_000, Pools(1, 1)),
        (1, 500_000, Pools(1, 2)),
        (1, 30_000_000, Pools(1, 8)),
        (3, 50_000, Pools(3, 3)),
        (100, 50_000, Pools(4, 8)),
    ],
)
def test_small_loads_start_few_actors(n_portions: int, n_bytes: int, expected: Pools) -> None:
    """No more prepare than there are portions; one large document is still embedded by all."""
    assert Pools.of_cores(8).fitting(n_portions, n_bytes) == expected


def test_without_gpus_or_their_runtime_the_cores_embed(cluster: pytest.MonkeyPatch) -> None:
    """Nobody who said nothing about GPUs waits for one, or holds one that he cannot use."""
    offers(cluster, n_gpus=0, free=0.0)
    assert chosen(None, n_workers=3) == Pools(2, 3)
    offers(cluster, is_gpu_build=False)
    assert chosen(None) == Pools(4, 8)


def test_gpus_that_are_not_there_are_refused(cluster: pytest.MonkeyPatch) -> None:
    """A share that was set, on a Ray without GPUs, is an error with a way out, not a wait for ever."""
    offers(cluster, n_gpus=0, free=0.0)
    with pytest.raises(CortexError) as caught:
        chosen(0.5)
    assert (caught.value.error_code, caught.value.exit_code) == ("ray.no_gpus", 8)
    assert "CORTEX_INGEST_GPUS_PER_WORKER" in caught.value.hint


def test_gpus_that_others_hold_are_waited_for_and_then_told(cluster: pytest.MonkeyPatch) -> None:
    """Who demands a share is told that none is free; who does not, loads with the cores."""
    offers(cluster, free=0.2)
    with pytest.raises(CortexError) as caught:
        chosen(0.5)
    assert (caught.value.error_code, caught.value.exit_code) == ("ray.gpus_busy", 7)
    assert chosen(None) == Pools(4, 8)
