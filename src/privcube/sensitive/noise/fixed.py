"""Bounds on exponentials of fractions, as whole numbers over a power of two. Zone: SENSITIVE.

`decimal` rounds exp correctly at any precision, so the exact value lies within one unit in the last place of exp of the
rounded argument; the argument's own rounding is allowed for. No binary floating point takes part. Only methods of a
context of our own are used: an operator such as unary minus would round to the precision the calling program has set.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final


def context_of(digits: int) -> decimal.Context:
    """Decimal arithmetic with this many digits, no practical limit on exponents, and nothing left to the defaults."""
    return decimal.Context(
        prec=digits,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        clamp=0,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


def power_of_ten(exponent: int) -> Decimal:
    """10^exponent, exactly."""
    return Decimal((0, (1,), exponent))


def exp_bounds(exponent: Fraction, bits: int) -> tuple[int, int]:
    """low <= exp(-exponent) * 2^bits <= high, for an exponent of at least 0.

    >>> low, high = exp_bounds(Fraction(1), 64)
    >>> high - low <= 2 and low / 2**64
    0.36787944117144233
    """
    if exponent == 0:
        return 1 << bits, 1 << bits
    if 7 * exponent > 5 * (bits + 8):  # exp(-x) < 2^(-1.4 x) <= 2^-bits
        return 0, 1
    context, one = _with_bits(bits)
    argument = context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
    scaled = context.multiply(context.exp(argument), one)
    return max(0, int(context.subtract(scaled, _MARGIN))), int(context.add(scaled, _MARGIN)) + 1


_MARGIN: Final = Decimal("1e-9")


@lru_cache(maxsize=64)
def _with_bits(bits: int) -> tuple[decimal.Context, Decimal]:
    """Decimal arithmetic for bounds with a given number of bits, and 2^bits.

    With d digits exp(-x) 2^bits is off by at most (x + 3) 10^(1 - d) of itself: x for the rounded argument, the rest
    for the rounding of exp and of the product. Here x <= 5/7 (bits + 8) and d >= 0.31 bits + 13, so by less than (bits
    + 9) 10^(-12 - 0.008 bits) < 10^-10; sums of that size are rounded by less than 10^-12. `_MARGIN` is more.
    """
    return context_of(bits * 31 // 100 + 14), Decimal(1 << bits)


def product_bounds(left: tuple[int, int], right: tuple[int, int], bits: int) -> tuple[int, int]:
    """Bounds on a product of two numbers of at least 0."""
    return left[0] * right[0] >> bits, (left[1] * right[1] >> bits) + 1


def ratio_bounds(top: tuple[int, int], bottom: tuple[int, int], bits: int) -> tuple[int, int]:
    """Bounds on a ratio of a number of at least 0 and one whose lower bound is above 0."""
    return (max(top[0], 0) << bits) // bottom[1], -(-(top[1] << bits) // bottom[0])
