"""Sums of exponential numbers times a scale, rounded to whole numbers exactly. Zone: SENSITIVE.

See THEORY section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from privcube.model.noise.limits import ROUNDED_SCALES
from privcube.sensitive.noise.lazy_normal import nearest_whole
from privcube.sensitive.noise.rounded_gaussian import upper_half
from privcube.sensitive.noise.section.lazy_exponential import CELL_BITS, ExponentialDeviates


def check_wide_scale(scale: Fraction) -> None:
    """A scale that sums can be multiplied by."""
    ROUNDED_SCALES.check(scale)


class Sums:
    """Sums of consecutive exponential numbers, m of them for each draw."""

    def __init__(self, numbers: ExponentialDeviates, points: int, draws: int) -> None:
        self._numbers, self._points = numbers, points
        cells = numbers.cell.reshape(draws, points)
        largest = int((cells.sum(axis=1) + points).max(initial=1) >> CELL_BITS)  # above a draw, rounded down
        self._bits = 61 - largest.bit_length()  # so that its sum has less than 2^61 units
        self._upto = np.zeros((draws, points + 1), dtype=np.int64)  # at most the sum of the first 0, 1, ..., m
        np.cumsum(numbers.at_least(self._bits).reshape(draws, points), axis=1, out=self._upto[:, 1:])

    def rounded(
        self, scale: Fraction, start: NDArray[np.int64], end: NDArray[np.int64], twice: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The nearest whole numbers to scale/2 (S_end + S_min(end, twice) - S_start - S_min(start, twice)).

        With a = this difference of sums of 2^-bits units, each number rounded down, and d the same difference of
        places, the exact one is from a to a + d. With b = floor(scale 2^s) < 2^64 the product is at least a b, and less
        than (a + d)(b + 1) = a b + a + d (b + 1). So in units of 2^64 it is at least H = floor(a b / 2^64) and less
        than H + 1 + 1 + d.
        """
        through, before = np.minimum(end, twice), np.minimum(start, twice)
        low = sum(
            sign * np.take_along_axis(self._upto, places, axis=1)
            for sign, places in ((1, end), (1, through), (-1, start), (-1, before))
        )
        point, factor = self._scaled(scale)
        lowest = upper_half(np.asarray(low).astype(np.uint64), factor)
        cut = (end + through - start - before + 2).astype(np.uint64)
        half, shift = np.uint64(1 << point - 1), np.uint64(point)
        least, most = lowest + half >> shift, lowest + cut + half >> shift
        found = least.astype(np.int64)
        for draw, row in np.argwhere(least != most).tolist():
            places = [int(each[draw, row]) for each in (start, end, twice)]
            found[draw, row] = nearest_whole(partial(self._bounds, scale, draw, places))
        return found

    def _scaled(self, scale: Fraction) -> tuple[int, int]:
        """The bits behind the point of the product, and b: for the largest s with b < 2^64 and at most 61 such bits."""
        whole = scale.numerator.bit_length() - scale.denominator.bit_length() + 1  # scale < 2^whole
        s = min(124 - self._bits, 64 - whole)
        return self._bits + 1 + s - 64, int(scale * 2**s)

    def _bounds(self, scale: Fraction, draw: int, places: Sequence[int], bits: int) -> tuple[int, int]:
        """Bounds on one of these numbers, in units of 2^-bits: those of the sum are less than 1 apart, then rounded."""
        start, end, twice = places
        fine = bits + int(scale).bit_length() + self._points.bit_length()
        low = high = 0
        for place in range(start, end):
            least, most = self._numbers.size(draw * self._points + place, fine)
            weight = 2 if place < twice else 1
            low, high = low + weight * least, high + weight * most
        return int(low * scale / 2) >> fine - bits, (int(high * scale / 2) >> fine - bits) + 1
