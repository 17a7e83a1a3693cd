"""Rounded Gaussian noise: the nearest whole number to a normal number, for a rational variance. Zone: SENSITIVE.

Formal guarantee. For whole numbers q, q + Round(N) = Round(q + N), and rounding is post-processing. So adding
independent draws of variances v_i to whole numbers that a neighboring change moves by d_i has exactly the guarantee of
continuous Gaussian noise: mu^2 = sum d_i^2 / v_i in the Gaussian profile (`privcube.model.privacy.gaussian_profile`).
`variance` is that of the normal numbers; rounding adds about 1/12.

The draws are exact: up to a standard deviation of a thousand many draws of |X| come from a table of its tails
(`normal_tails`, `tables`). Others round normal deviates whose digits are drawn as needed (`lazy_normal`): 64 bits of
each, times a standard deviation of 64 bits, in whole numbers; where the bounds on the product do not round alike, more
bits. No float decides anything.

See THEORY section 6.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.model.noise.limits import VARIANCES
from privcube.sensitive.noise.bits import Source, Words, signed, system_words
from privcube.sensitive.noise.lazy_normal import CELLS, MOST_CELLS, NormalDeviates, nearest_whole
from privcube.sensitive.noise.normal_tails import BITS, tail_bound, tail_bounds
from privcube.sensitive.noise.tables import TailTable

_LARGEST_TABLE_VARIANCE: Final = 2**20
_CELL_BITS: Final = CELLS.bit_length() - 1


def rounded_gaussian(variance: Fraction, count: int, source: Source = system_words) -> NDArray[np.int64]:
    """Independent draws of rounded Gaussian noise."""
    check_rounded_variance(variance)
    if variance > _LARGEST_TABLE_VARIANCE or count < 1000 + 400 * isqrt(int(variance)):  # draws for a table to be worth
        return rounded_deviates(variance, NormalDeviates.draw(count, source))
    return signed(_table(variance).draw(count, source), source)


def check_rounded_variance(variance: Fraction) -> None:
    """Refuse what is too narrow to matter or too wide for whole numbers of 64 bits."""
    VARIANCES.check(variance)


def rounded_deviates(variance: Fraction, deviates: NormalDeviates) -> NDArray[np.int64]:
    """The nearest whole numbers to normal deviates times the standard deviation.

    With a = floor((K + v) 2^54) and b = floor(sigma 2^s), both below 2^64, the upper half H of the product a b is at
    most sigma |Z| 2^(s-4), and H + 3 is more: each of the three roundings loses less than 1.
    """
    point, factor = _scaled(variance)
    known = deviates.cell < MOST_CELLS
    cell = np.where(known, deviates.cell, 0).astype(np.uint64)
    product = upper_half(cell << np.uint64(54) | deviates.word >> np.uint64(10), factor)
    half, shift = np.uint64(1 << point - 1), np.uint64(point)
    low, high = product + half >> shift, product + half + np.uint64(3) >> shift
    magnitude = low.astype(np.int64)
    for place in np.flatnonzero(~known | (low != high)).tolist():
        magnitude[place] = nearest_whole(partial(_product, variance, deviates, place))
    return np.where(deviates.minus, -magnitude, magnitude)


def _scaled(variance: Fraction) -> tuple[int, int]:
    """s - 4 and b: the bits behind the point of the product, and the standard deviation as a whole number.

    s is the largest with b < 2^64, but at most 65, so that a half can be added to any product without overflow.
    """
    s = 65
    while variance * 4**s >= 4**64:
        s -= 1
    return s + _CELL_BITS - 10, isqrt(int(variance * 4**s))


def upper_half(left: Words, right: int | Words) -> Words:
    """floor(left right / 2^64) for numbers below 2^64, in parts of 32 bits."""
    low, shift = np.uint64(2**32 - 1), np.uint64(32)
    factor = np.asarray(right, dtype=np.uint64)
    top, bottom = factor >> shift, factor & low
    left_top, left_bottom = left >> shift, left & low
    middle = left_top * bottom + (left_bottom * bottom >> shift)
    other = left_bottom * top + (middle & low)
    return np.asarray(left_top * top + (middle >> shift) + (other >> shift), dtype=np.uint64)


def _product(variance: Fraction, deviates: NormalDeviates, place: int, bits: int) -> tuple[int, int]:
    """Bounds on sigma |Z| 2^bits."""
    fine = bits + isqrt(int(variance)).bit_length() + 4
    low, high = deviates.size(place, fine)
    squares = [variance * end**2 for end in (low, high)]
    return isqrt(int(squares[0])) >> fine - bits, (isqrt(int(squares[1])) >> fine - bits) + 1


@lru_cache(maxsize=64)
def _table(variance: Fraction) -> TailTable:
    return TailTable.of(tail_bounds(variance), BITS, partial(tail_bound, variance))
