"""Arithmetic with bounds: decimals rounded down and up, so that a result is always between its two ends. Zone: PUBLIC.

An `Interval` holds a real number between two decimals. `Directed` works with intervals: the lower end of every result
is rounded down, the upper end up, at a chosen number of digits. `decimal` rounds sums, products and quotients as told;
it rounds square roots and exponentials to the nearest, whatever it is told, so their ends are moved on by one unit in
the last place. No binary floating point takes part, and no setting of the calling program.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

_GUARD: Final = 32  # bits of pi beyond those kept


class Interval(NamedTuple):
    """A real number between two decimals."""

    low: Decimal
    high: Decimal


class Directed:
    """Arithmetic with this many digits.

    >>> Directed(3).of(Fraction(2, 3))
    Interval(low=Decimal('0.666'), high=Decimal('0.667'))
    """

    def __init__(self, digits: int) -> None:
        self.digits = digits
        self._down, self._up = _context(digits, decimal.ROUND_FLOOR), _context(digits, decimal.ROUND_CEILING)

    def of(self, number: Fraction) -> Interval:
        """Bounds on a fraction."""
        top, bottom = Decimal(number.numerator), Decimal(number.denominator)
        return Interval(self._down.divide(top, bottom), self._up.divide(top, bottom))

    def plus(self, left: Interval, right: Interval) -> Interval:
        """Bounds on a sum."""
        return Interval(self._down.add(left.low, right.low), self._up.add(left.high, right.high))

    def minus(self, left: Interval, right: Interval) -> Interval:
        """Bounds on a difference."""
        return Interval(self._down.subtract(left.low, right.high), self._up.subtract(left.high, right.low))

    def times(self, left: Interval, right: Interval) -> Interval:
        """Bounds on a product of two numbers of at least 0."""
        _require(left.low >= 0 and right.low >= 0)
        return Interval(self._down.multiply(left.low, right.low), self._up.multiply(left.high, right.high))

    def over(self, top: Interval, bottom: Interval) -> Interval:
        """Bounds on a ratio of a number of at least 0 and one above 0."""
        _require(top.low >= 0 and bottom.low > 0)
        return Interval(self._down.divide(top.low, bottom.high), self._up.divide(top.high, bottom.low))

    def squared(self, number: Interval) -> Interval:
        """Bounds on a square."""
        sizes = sorted((number.low.copy_abs(), number.high.copy_abs()))
        least = sizes[0] if number.low.is_signed() == number.high.is_signed() else Decimal(0)
        return Interval(self._down.multiply(least, least), self._up.multiply(sizes[1], sizes[1]))

    def root(self, number: Interval) -> Interval:
        """Bounds on the square root of a number of at least 0."""
        _require(number.low >= 0)
        low = self._down.next_minus(self._down.sqrt(number.low))
        return Interval(max(low, Decimal(0)), self._up.next_plus(self._up.sqrt(number.high)))

    def exp(self, number: Interval) -> Interval:
        """Bounds on an exponential."""
        low = self._down.next_minus(self._down.exp(number.low))
        return Interval(max(low, Decimal(0)), self._up.next_plus(self._up.exp(number.high)))

    def pi(self) -> Interval:
        """Bounds on pi."""
        bits = self.digits * 10 // 3 + 8
        low, high = _pi(bits)
        return Interval(self.of(Fraction(low, 1 << bits)).low, self.of(Fraction(high, 1 << bits)).high)


def negative(number: Interval) -> Interval:
    """The number with the other sign, without rounding."""
    return Interval(number.high.copy_negate(), number.low.copy_negate())


def whole(number: int) -> Interval:
    """A whole number, without rounding."""
    return Interval(Decimal(number), Decimal(number))


def _require(known: bool) -> None:
    if not known:
        raise ArithmeticError("the sign of a number is not known, or not the one that is needed")


@lru_cache(maxsize=128)
def _context(digits: int, rounding: str) -> decimal.Context:
    return decimal.Context(
        prec=digits,
        rounding=rounding,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        clamp=0,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


@lru_cache(maxsize=64)
def _pi(bits: int) -> tuple[int, int]:
    """low <= pi 2^bits <= high, from 16 arctan(1/5) - 4 arctan(1/239) in whole numbers.

    A sum is off by less than one unit per term for each rounding, and by less than one for what is left out; with at
    most bits + 32 terms, 16 and 4 times this is far below 2^32 units.
    """
    fine = bits + _GUARD
    estimate = 16 * _arctan(5, fine) - 4 * _arctan(239, fine)
    slack = 64 * (fine + 2)
    return (estimate - slack) >> _GUARD, ((estimate + slack) >> _GUARD) + 1


def _arctan(inverse: int, bits: int) -> int:
    """arctan(1/inverse) 2^bits, off by less than two units per term: the alternating series, cut when it is below 1."""
    power, total, odd = (1 << bits) // inverse, 0, 1
    while power:
        total += power // odd if odd % 4 == 1 else -(power // odd)
        power //= inverse**2
        odd += 2
    return total
