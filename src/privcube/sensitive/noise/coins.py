"""Many coins at once that come up with probability exp(-x), decided in whole numbers of 64 bits. Zone: SENSITIVE.

x is given by bounds in units of 2^-56. Cut to 32 bits behind the point, upwards or downwards, it has five digits: a
whole part below 64 and four of 8 bits. exp(-x) is the product of an exponential for each, kept in tables as bounds of
31 bits; products of lower bounds rounded down and of upper bounds rounded up bound it from both sides, to about 10^-8.
The first 31 bits of a uniform number U then decide whether U < exp(-x), or, so rarely that it does not matter, they do
not; then U is compared with bounds on exp(-x) that are narrowed until they decide (`bits`). So each coin has exactly
its probability, and no floating point takes part.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Source, Uniform, Words
from privcube.sensitive.noise.fixed import exp_bounds

Integers = NDArray[np.int64]
Exponents = tuple[Integers, Integers]  # bounds on x, in units of 2^-POINT

POINT: Final = 56  # bits behind the point
LARGEST: Final = 2**62  # in these units: bounds up to here are taken, 0 and this one say nothing
_KEPT: Final = 31  # bits of an exponential, and of a word
_DIGITS: Final = (64, 256, 256, 256, 256)  # their ranges
_SHIFTS: Final = (32, 24, 16, 8, 0)  # where they stand in a number with 32 bits behind the point


def coins(words: Words, exponents: Exponents, exact: Callable[[int], Fraction], source: Source) -> NDArray[np.bool_]:
    """Whether the uniform numbers that begin with these words are below exp(-x); `exact` is x at a place."""
    least, most = bounds(exponents)
    first = (words >> np.uint64(64 - _KEPT)).astype(np.int64)  # U is from first to first + 1, in units of 2^-31
    below = first < least
    for place in np.flatnonzero(~below & (first < most)).tolist():
        below[place] = Uniform(source, int(words[place])).below(partial(exp_bounds, exact(place)))
    return below


def bounds(exponents: Exponents) -> tuple[Integers, Integers]:
    """low <= exp(-x) 2^31 <= high, from bounds on x."""
    lowest, highest = exponents
    drop, end = POINT - 32, (_DIGITS[0] << 32) - 1  # beyond 64 both bounds stay: exp(-64) is less than a unit
    up, down = (np.minimum(cut, end) for cut in (-(-highest >> drop), lowest >> drop))
    low, high = np.full(len(up), 1 << _KEPT), np.full(len(down), 1 << _KEPT)
    for (below, above), digits, shift in zip(_tables(), _DIGITS, _SHIFTS, strict=True):
        low = low * below[(up >> shift) % digits] >> _KEPT
        high = (high * above[(down >> shift) % digits] >> _KEPT) + 1
    return low, high


def times(numbers: Integers, factor: Fraction) -> Exponents:
    """Bounds on whole numbers times a fraction, none of them below 0; those too large say nothing.

    >>> low, high = times(np.array([0, 3, 2**60]), Fraction(1, 3))
    >>> (low / 2**POINT).tolist(), (high / 2**POINT).tolist()
    ([0.0, 1.0, 0.0], [0.0, 1.0, 64.0])
    """
    unit = (factor.numerator << POINT) // factor.denominator
    fit = numbers <= LARGEST // (unit + 1)
    fitting = np.where(fit, numbers, 0)
    return fitting * min(unit, LARGEST), np.where(fit, fitting * min(unit + 1, LARGEST), LARGEST)


@lru_cache(maxsize=1)
def _tables() -> list[tuple[Integers, Integers]]:
    """For each digit and each of its values, bounds on its exponential."""
    found = []
    for digits, shift in zip(_DIGITS, _SHIFTS, strict=True):
        values = [exp_bounds(Fraction(digit << shift, 1 << 32), _KEPT) for digit in range(digits)]
        low, high = (np.array(side, dtype=np.int64) for side in zip(*values, strict=True))
        found.append((low, high))
    return found
