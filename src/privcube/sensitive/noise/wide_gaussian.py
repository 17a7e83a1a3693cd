"""Discrete Gaussian noise of any variance, by a coarse draw, a fine one and an exact rejection. Zone: SENSITIVE.

|X| = m K + r with 0 <= r < m. K is proposed with weight exp(-K^2 / (2 c)), r uniformly, a sign freely. Here c is a
power of four up to 2^16, the least that is not below the variance if there is one, and m the least whole number with
m^2 c >= variance; so a few small tables of K serve every variance, and a draw takes no set-up of its own. The proposal
is kept with probability p = exp(-((m K + r)^2 / variance - K^2 / c) / 2), which is at most 1 because m^2 c >= variance;
a zero with a minus is dropped, as it would count zero twice. What is kept has weight exp(-(m K + r)^2 / (2 variance)),
exactly.

Whether it is kept is a coin that comes up with probability p (`coins`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Source, signed, uniform_below
from privcube.sensitive.noise.coins import LARGEST, POINT, Exponents, coins, times
from privcube.sensitive.noise.fixed import ratio_bounds
from privcube.sensitive.noise.gaussian_tails import tail_bound, tail_bounds
from privcube.sensitive.noise.tables import TailTable

_LARGEST_COARSE: Final = 2**16
_FAR: Final = 2**63 - 1


def wide_gaussian(variance: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    """Independent draws of discrete Gaussian noise."""
    coarse, width = _grid(variance)
    table = coarse_table(coarse)
    kept = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing:
        tries = missing + missing // 4 + 4
        cell = table.draw(tries, source)
        value = cell * width + uniform_below(width, tries, source)
        sign = signed(np.ones(tries, dtype=np.int64), source)
        accepted = _kept(value, cell, variance, coarse, source) & ((value > 0) | (sign > 0))
        kept.append((sign * value)[accepted][:missing])
        missing -= len(kept[-1])
    return np.concatenate(kept)


def _kept(
    value: NDArray[np.int64], cell: NDArray[np.int64], variance: Fraction, coarse: int, source: Source
) -> NDArray[np.bool_]:
    def exponent(place: int) -> Fraction:
        return (int(value[place]) ** 2 / variance - Fraction(int(cell[place]) ** 2, coarse)) / 2

    return coins(source(len(value)), _exponents(value, cell, variance, coarse), exponent, source)


def _exponents(value: NDArray[np.int64], cell: NDArray[np.int64], variance: Fraction, coarse: int) -> Exponents:
    """Bounds on (value^2 / variance - cell^2 / coarse) / 2, where these numbers are small enough to have any."""
    small = (value < 2**31) & (cell * cell < 120 * coarse)
    low, high = times(np.where(small, np.where(small, value, 0) ** 2, _FAR), 1 / (2 * variance))
    known = high < LARGEST
    proposed = np.where(known, cell * cell, 0) << POINT - coarse.bit_length()  # the bits of 4^j are 2 j + 1
    return np.maximum(low - proposed, 0), np.where(known, high - proposed, LARGEST)


def _grid(variance: Fraction) -> tuple[int, int]:
    """The variance c of the coarse draw and the width m of its cells, with m^2 c >= variance."""
    coarse = 1
    while coarse < variance and coarse < _LARGEST_COARSE:
        coarse *= 4
    return coarse, isqrt(-(-variance.numerator // (variance.denominator * coarse)) - 1) + 1


@lru_cache(maxsize=16)
def coarse_table(coarse: int) -> TailTable:
    """K >= 0 with weight exp(-K^2 / (2 c)): from the tails T_k of |K| on all whole numbers, T_k / (2 - T_1)."""
    variance, bits = Fraction(coarse), 320

    def one_sided(k: int, bits: int) -> tuple[int, int]:
        low, high = tail_bound(variance, 1, bits)
        return ratio_bounds(tail_bound(variance, k, bits), ((2 << bits) - high, (2 << bits) - low), bits)

    last = len(tail_bounds(variance, bits))
    return TailTable.of([one_sided(k, bits) for k in range(1, last + 1)], bits, one_sided)
