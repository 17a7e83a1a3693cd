"""How wide an interval must be to contain an error at a given confidence. Zone: PUBLIC.

The error of a published number has a known variance and kurtosis (`privcube.accuracy.error_bars`). Its interval is that
of the exponential power distribution with the same two, which is exact for normal, Laplace and uniform noise and close
for everything in between (THEORY section 11).

See THEORY section 11.1.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from privcube.errors import PlanError

LAPLACE: Final = 3.0  # the excess kurtosis of Laplace noise, assumed where it is not computed

_GRID: Final = 20_000  # points of the density: enough for quantiles with an error below 1e-4


def interval_factor(kurtosis: float, confidence: float) -> float:
    """The half-width, in standard errors, of an interval at a given confidence for an error of this excess kurtosis.

    >>> [round(interval_factor(kurtosis, 0.95), 3) for kurtosis in (0, 3)]  # normal, Laplace
    [1.96, 2.118]
    """
    if not 0 < confidence < 1:
        raise PlanError("confidence", expected="a number above 0 and below 1", given=confidence)
    return _factor(round(min(max(kurtosis, -1.19), 8.0), 2), confidence)


@lru_cache(maxsize=4096)
def _factor(kurtosis: float, confidence: float) -> float:
    """The quantile of the exponential power density exp(-|x|^shape), scaled to variance 1."""
    low, high = 0.4, 200.0
    for _ in range(80):
        shape = math.sqrt(low * high)
        low, high = (shape, high) if _kurtosis_of(shape) > kurtosis else (low, shape)
    width = math.exp((math.lgamma(3 / shape) - math.lgamma(1 / shape)) / 2)  # the standard deviation
    x = np.linspace(0, max(40 ** (1 / shape), 1.2) * 1.5, _GRID)
    density = np.exp(-(x**shape))
    mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(np.interp(confidence, mass / mass[-1], x)) / width


def _kurtosis_of(shape: float) -> float:
    return math.exp(math.lgamma(5 / shape) + math.lgamma(1 / shape) - 2 * math.lgamma(3 / shape)) - 3
