"""Intervals: a mean over queries never stands without its 95 % interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_N_RESAMPLES = 2_000  # enough for the second digit of a 95 % percentile interval
_SEED = 20_261_130


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float


def mean_with_interval(values: Sequence[float]) -> Estimate:
    """Estimate the mean with a percentile bootstrap over queries (Efron 1979), seeded, so that it can be repeated.

    An empty sample gives zeros.
    """
    if not values:
        return Estimate(0.0, 0.0, 0.0)
    sample = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(_SEED).integers(0, len(sample), (_N_RESAMPLES, len(sample)))
    low, high = np.percentile(sample[picks].mean(axis=1), [2.5, 97.5])
    return Estimate(float(sample.mean()), float(low), float(high))
