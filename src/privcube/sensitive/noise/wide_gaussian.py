"""Discrete Gaussian noise of large variance, by a coarse draw, a fine one and an exact rejection. Zone: SENSITIVE.

|X| = m K + r with 0 <= r < m, where m is the least whole number with m >= sigma/256. K is proposed with weight exp(-K^2
/ 2^17), the same small table for every variance, r uniformly, a sign freely. The proposal is kept with probability p =
exp(-((m K + r)^2 / variance - K^2 / 2^16) / 2), which is at most 1 because m^2 2^16 >= variance; a zero with a minus is
dropped, as it would count zero twice. What is kept has weight exp(-(m K + r)^2 / (2 variance)), exactly.

Whether a uniform number U is below p is decided for most proposals by the first 64 bits of U and two tables over K:
below the least p of the cell, or above the largest. The rest, well below one in a hundred, compare U with bounds on p
itself, narrowed until they decide (`bits`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Source, Uniform, Words, signed, uniform_below
from privcube.sensitive.noise.fixed import exp_bounds, product_bounds, ratio_bounds
from privcube.sensitive.noise.gaussian_tails import tail_bound, tail_bounds
from privcube.sensitive.noise.tables import TailTable

_BITS: Final = 192
_COARSE: Final = 2**16  # the variance of the coarse draw


def wide_gaussian(variance: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    """Independent draws of discrete Gaussian noise."""
    width = isqrt(-(-variance.numerator // (variance.denominator * _COARSE)) - 1) + 1 if variance > _COARSE else 1
    sure, never = _bands(variance, width)
    kept = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing:
        tries = missing + missing // 4 + 16
        cell = _coarse_table().draw(tries, source)
        value = cell * width + uniform_below(width, tries, source)
        words = source(tries)
        known = np.minimum(cell, len(sure) - 1)
        accepted = words < sure[known]
        open_cases = ~accepted & (words <= never[known])
        for place in np.flatnonzero(open_cases).tolist():
            x, k = int(value[place]), int(cell[place])
            exponent = (x**2 / variance - Fraction(k**2, _COARSE)) / 2
            accepted[place] = Uniform(source, int(words[place])).below(partial(exp_bounds, exponent))
        sign = signed(np.ones(tries, dtype=np.int64), source)
        accepted &= (value > 0) | (sign > 0)
        found = (sign * value)[accepted][:missing]
        kept.append(found)
        missing -= len(found)
    return np.concatenate(kept)


@lru_cache(maxsize=1)
def _coarse_table() -> TailTable:
    """K >= 0 with weight exp(-K^2 / (2 * 2^16)): from the tails T_k of |K| on all whole numbers, T_k / (2 - T_1)."""

    def one_sided(k: int, bits: int) -> tuple[int, int]:
        first = tail_bound(Fraction(_COARSE), 1, bits)
        return ratio_bounds(
            tail_bound(Fraction(_COARSE), k, bits), ((2 << bits) - first[1], (2 << bits) - first[0]), bits
        )

    bits = 320
    known = tail_bounds(Fraction(_COARSE), bits)
    whole = ((2 << bits) - known[0][1], (2 << bits) - known[0][0])
    return TailTable.of([ratio_bounds(each, whole, bits) for each in known], bits, one_sided)


@lru_cache(maxsize=512)
def _bands(variance: Fraction, width: int) -> tuple[Words, Words]:
    """Per K: words below the first prove U < p for every r, words above the second prove U >= p for every r.

    The exponents are a K^2 + b K + c; each step from K to K + 1 multiplies by g, and g by exp(-2 a).
    """
    a = (width**2 / variance - Fraction(1, _COARSE)) / 2
    sure = _quadratic(a, width * (width - 1) / variance, (width - 1) ** 2 / (2 * variance))
    never = _quadratic(a, Fraction(0), Fraction(0))
    shift, top = _BITS - 64, 2**64 - 1
    # The last entry serves all K beyond: never accepted, never rejected by the table.
    low = [min(bounds[0] >> shift, top) for bounds in sure] + [0]
    high = [min(bounds[1] >> shift, top) for bounds in never] + [top]
    return np.array(low, dtype=np.uint64), np.array(high, dtype=np.uint64)


def _quadratic(a: Fraction, b: Fraction, c: Fraction) -> list[tuple[int, int]]:
    """Bounds on exp(-(a k^2 + b k + c)) for k = 0, 1, ... up to where the coarse draw practically ends."""
    value, growth, step = exp_bounds(c, _BITS), exp_bounds(a + b, _BITS), exp_bounds(2 * a, _BITS)
    bounds = []
    for _ in range(10 * isqrt(_COARSE)):
        bounds.append(value)
        value = product_bounds(value, growth, _BITS)
        growth = product_bounds(growth, step, _BITS)
    return bounds
