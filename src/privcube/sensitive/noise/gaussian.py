"""Discrete Gaussian noise: P(X = k) proportional to exp(-k^2 / (2 variance)), for a rational variance. Zone: SENSITIVE.

Formal guarantee (Canonne, Kamath and Steinke 2020). Adding independent draws with variances v_i to whole numbers that a
neighboring change moves by d_i costs rho = sum d_i^2 / (2 v_i) in zCDP. `variance` is the parameter of the
distribution; the variance of the draws is no larger. The draws are exact (`tables`, `bits`): up to a standard deviation
of a thousand many draws of |X| come from a table of its tails, others are made as `wide_gaussian` says.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.model.noise.limits import VARIANCES
from privcube.sensitive.noise.bits import Source, signed, system_words
from privcube.sensitive.noise.gaussian_tails import tail_bound, tail_bounds
from privcube.sensitive.noise.tables import TailTable
from privcube.sensitive.noise.wide_gaussian import wide_gaussian

_BITS: Final = 320
_LARGEST_TABLE_VARIANCE: Final = 2**20


def discrete_gaussian(variance: Fraction, count: int, source: Source = system_words) -> NDArray[np.int64]:
    """Independent draws of discrete Gaussian noise."""
    check_variance(variance)
    if variance > _LARGEST_TABLE_VARIANCE or count < 1000 + 400 * isqrt(int(variance)):  # draws for a table to be worth
        return wide_gaussian(variance, count, source)
    magnitude = _table(variance).draw(count, source)
    return signed(magnitude, source)


def check_variance(variance: Fraction) -> None:
    """A variance that is exact and within what the sampler is built for."""
    VARIANCES.check(variance)


@lru_cache(maxsize=64)
def _table(variance: Fraction) -> TailTable:
    return TailTable.of(tail_bounds(variance, _BITS), _BITS, partial(tail_bound, variance))
