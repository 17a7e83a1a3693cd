"""Bounds on the tails of rounded normal noise, many at a time. Zone: SENSITIVE.

P(|X| >= k) = 2 Q(x) with x = (k - 1/2) / sigma for the nearest whole number X to normal noise. For a table of them, 2 Q
is worked out on a grid of step 1/16 (`privcube.algebra.normal`) and between its points by Taylor's formula in whole
numbers: with d = x - c at most 1/32 in size and He_n the Hermite polynomials,

    2 Q(c + d) = 2 Q(c) - sum over n of (-1)^n 2 phi(c) He_n(c) / (n+1)! d^(n+1).

By Cramer's inequality phi |He_n| < 0.44 sqrt(n!), so that with 20 terms less than 2^-138 is left out. In units of
2^-128, a coefficient and a step of Horner's scheme are each off by less than 1, of which the next step leaves 1/32;
2 Q(c) is off by at most 1, and x by less than 2, while the slope is below 1. Together this is less than 6; `_SLACK` is
more.

See THEORY section 11.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import factorial, isqrt
from typing import Final

from privcube.algebra.directed import Directed, whole
from privcube.algebra.normal import density, tail_of_root

BITS: Final = 128
_STEP: Final = 16  # grid points per unit
_TERMS: Final = 20
_SLACK: Final = 64
_BEYOND: Final = Fraction(48, 5)  # 2 Q(9.6) < 2^-69


def tail_bound(variance: Fraction, k: int, bits: int) -> tuple[int, int]:
    """Bounds on P(|X| >= k)."""
    return tail_of_root((2 * k - 1) ** 2 / (4 * variance), bits)


def tail_bounds(variance: Fraction) -> list[tuple[int, int]]:
    """Bounds on P(|X| >= k) 2^128 for k = 1, 2, ... until 2^64 times it is below 1."""
    inverse = Fraction(1) / (4 * variance)
    unit = isqrt((inverse.numerator << 2 * (BITS + 64)) // inverse.denominator)  # 1 / (2 sigma), 64 bits finer
    last = (_BEYOND.numerator << BITS + 64) // (unit * _BEYOND.denominator)
    found = []
    for odd in range(1, last + 4, 2):
        x = odd * unit >> 64
        nearest = (x * _STEP + (1 << BITS - 1)) >> BITS
        d = x - (nearest << BITS) // _STEP
        total = 0
        for coefficient in _coefficients(nearest):
            total = coefficient + (total * d >> BITS)
        found.append((max(total - _SLACK, 0), total + _SLACK))
    return found


@lru_cache(maxsize=256)
def _coefficients(point: int) -> list[int]:
    """Of the powers of d, the highest first, around a point of the grid; in units of 2^-128."""
    at = Directed(60)
    phi = int(at.times(density(at, at.of(Fraction(point, _STEP))), whole(2 << BITS + 32)).low)  # 2 phi, 32 bits finer
    hermite = [1, point]  # He_n(c) 16^n
    for n in range(1, _TERMS - 1):
        hermite.append(point * hermite[n] - n * _STEP**2 * hermite[n - 1])
    series = [(-1) ** (n + 1) * phi * value // (_STEP**n * factorial(n + 1) << 32) for n, value in enumerate(hermite)]
    return [*reversed(series), sum(tail_of_root(Fraction(point, _STEP) ** 2, BITS)) // 2]
