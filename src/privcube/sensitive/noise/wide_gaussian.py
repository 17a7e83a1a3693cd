"""Discrete Gaussian noise of any variance, by a coarse draw, a fine one and an exact rejection. Zone: SENSITIVE.

|X| = m K + r with 0 <= r < m. K is proposed with weight exp(-K^2 / (2 c)), r uniformly, a sign freely. Here c is a
power of four up to 2^16, the least that is not below the variance if there is one, and m the least whole number with
m^2 c >= variance; so a few small tables of K serve every variance, and a draw takes no set-up of its own. The proposal
is kept with probability p = exp(-((m K + r)^2 / variance - K^2 / c) / 2), which is at most 1 because m^2 c >= variance;
a zero with a minus is dropped, as it would count zero twice. What is kept has weight exp(-(m K + r)^2 / (2 variance)),
exactly.

Whether a uniform number U is below p is decided by bounds on p, narrowed until they decide (`bits`). For many draws two
tables over K spare most of that work: below the least p of the cell, or above the largest, the first 64 bits of U
decide.
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
_LARGEST_COARSE: Final = 2**16
_MANY: Final = 512  # draws that are worth two tables of their own
_UNDECIDED: Final = (np.zeros(1, dtype=np.uint64), np.full(1, 2**64 - 1, dtype=np.uint64))  # tables that decide nothing


def wide_gaussian(variance: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    """Independent draws of discrete Gaussian noise."""
    coarse, width = _grid(variance)
    sure, never = _bands(variance, coarse, width) if count >= _MANY else _UNDECIDED
    table = _coarse_table(coarse)
    kept = [np.zeros(0, dtype=np.int64)]
    missing = count
    while missing:
        tries = missing + missing // 4 + 4
        cell = table.draw(tries, source)
        value = cell * width + uniform_below(width, tries, source)
        words = source(tries)
        known = np.minimum(cell, len(sure) - 1)
        accepted = words < sure[known]
        open_cases = ~accepted & (words <= never[known])
        for place in np.flatnonzero(open_cases).tolist():
            x, k = int(value[place]), int(cell[place])
            exponent = (x**2 / variance - Fraction(k**2, coarse)) / 2
            accepted[place] = Uniform(source, int(words[place])).below(partial(exp_bounds, exponent))
        sign = signed(np.ones(tries, dtype=np.int64), source)
        accepted &= (value > 0) | (sign > 0)
        found = (sign * value)[accepted][:missing]
        kept.append(found)
        missing -= len(found)
    return np.concatenate(kept)


def _grid(variance: Fraction) -> tuple[int, int]:
    """The variance c of the coarse draw and the width m of its cells, with m^2 c >= variance."""
    coarse = 1
    while coarse < variance and coarse < _LARGEST_COARSE:
        coarse *= 4
    return coarse, isqrt(-(-variance.numerator // (variance.denominator * coarse)) - 1) + 1


@lru_cache(maxsize=16)
def _coarse_table(coarse: int) -> TailTable:
    """K >= 0 with weight exp(-K^2 / (2 c)): from the tails T_k of |K| on all whole numbers, T_k / (2 - T_1)."""
    variance, bits = Fraction(coarse), 320

    def one_sided(k: int, bits: int) -> tuple[int, int]:
        low, high = tail_bound(variance, 1, bits)
        return ratio_bounds(tail_bound(variance, k, bits), ((2 << bits) - high, (2 << bits) - low), bits)

    known = tail_bounds(variance, bits)
    whole = ((2 << bits) - known[0][1], (2 << bits) - known[0][0])
    return TailTable.of([ratio_bounds(each, whole, bits) for each in known], bits, one_sided)


@lru_cache(maxsize=512)
def _bands(variance: Fraction, coarse: int, width: int) -> tuple[Words, Words]:
    """Per K: words below the first prove U < p for every r, words above the second prove U >= p for every r.

    The exponents are a K^2 + b K + c; each step from K to K + 1 multiplies by g, and g by exp(-2 a).
    """
    a = (width**2 / variance - Fraction(1, coarse)) / 2
    cells = 10 * isqrt(coarse) + 10
    sure = _quadratic(cells, a, width * (width - 1) / variance, (width - 1) ** 2 / (2 * variance))
    never = _quadratic(cells, a, Fraction(0), Fraction(0))
    shift, top = _BITS - 64, 2**64 - 1
    # The last entry serves all K beyond: never accepted, never rejected by the table.
    low = [min(bounds[0] >> shift, top) for bounds in sure] + [0]
    high = [min(bounds[1] >> shift, top) for bounds in never] + [top]
    return np.array(low, dtype=np.uint64), np.array(high, dtype=np.uint64)


def _quadratic(cells: int, a: Fraction, b: Fraction, c: Fraction) -> list[tuple[int, int]]:
    """Bounds on exp(-(a k^2 + b k + c)) for k = 0, 1, ..."""
    value, growth, step = exp_bounds(c, _BITS), exp_bounds(a + b, _BITS), exp_bounds(2 * a, _BITS)
    bounds = []
    for _ in range(cells):
        bounds.append(value)
        value = product_bounds(value, growth, _BITS)
        growth = product_bounds(growth, step, _BITS)
    return bounds
