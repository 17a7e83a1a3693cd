"""The normal distribution with proven bounds, at any number of digits. Zone: PUBLIC.

Everything comes from the Mills ratio m(x) = Q(x) / phi(x), where phi is the density of the standard normal distribution
and Q(x) its tail beyond x. For x >= 0,
- near 0, m(x) = sqrt(pi/2) exp(x^2/2) - (x + x^3/3 + x^5/(3 5) + ...): all terms are positive, and once x^2 is at most
  half of the next odd number, what is left out is below twice the next term;
- farther out, m(x) = 1/t_0 with t_(k-1) = x + k/t_k, Laplace's continued fraction. Every t_k is between x and
  x + (k+1)/x, so bounds on some t_n give bounds on t_0; they close in as n grows.
m falls, by less than 1 per unit of x: m' = x m - 1 is between -1 and 0 for x >= 0. For x < 0, Q(x) = 1 - Q(-x).

See THEORY section 6.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import log, sqrt
from typing import Final

from privcube.algebra.directed import Directed, Interval, negative, whole

_NEAR: Final = 5  # up to here the series takes fewer steps
_EXTRA: Final = 10  # digits that the difference near 0 loses: exp(x^2/2) / m(x) < 10^7 for x <= 5
_ONE, _TWO, _HALF = whole(1), whole(2), Interval(Decimal("0.5"), Decimal("0.5"))


def density(at: Directed, x: Interval) -> Interval:
    """phi(x) = exp(-x^2/2) / sqrt(2 pi)."""
    squares = negative(at.times(_HALF, at.squared(x)))
    return at.over(at.exp(squares), at.root(at.times(_TWO, at.pi())))


def mills(at: Directed, x: Interval) -> Interval:
    """m(x) = Q(x) / phi(x) for x >= 0; an x whose lower end is below 0 is taken as one of at least 0.

    >>> low, high = mills(Directed(20), Interval(Decimal(1), Decimal(1)))
    >>> float(low), high - low < Decimal("1e-18")
    (0.65567954241879..., True)
    """
    start = max(x.low, Decimal(0))
    found = _near(at, start) if start <= _NEAR else _far(at, start)
    wider = at.minus(found, at.minus(Interval(x.high, x.high), Interval(start, start)))
    return Interval(max(wider.low, Decimal(0)), found.high)


def upper_tail(at: Directed, x: Interval) -> Interval:
    """Q(x), the chance of more than x, for x >= 0."""
    return at.times(density(at, x), mills(at, x))


def tail_of_root(squared: Fraction, bits: int) -> tuple[int, int]:
    """low <= 2 Q(sqrt(squared)) 2^bits <= high: the chance that a standard normal number exceeds the root in size.

    >>> low, high = tail_of_root(Fraction(4), 64)
    >>> low / 2**64, high - low <= 2
    (0.0455002638963584..., True)
    """
    if 7 * squared > 10 * (bits + 2):  # 2 Q(x) <= exp(-x^2/2) < 2^(-0.7 x^2)
        return 0, 1
    at = Directed(bits * 31 // 100 - int(squared) // 5 + 14)  # at least 13, as squared is limited
    root = at.root(at.of(squared))
    tail = at.times(whole(2 << bits), upper_tail(at, root))
    return int(tail.low), int(tail.high) + 1


def _near(at: Directed, x: Decimal) -> Interval:
    """By the series."""
    fine = Directed(at.digits + _EXTRA)
    point = Interval(x, x)
    square = fine.squared(point)
    term = total = fine.plus(point, whole(0))
    odd, enough, doubled = 1, Decimal((0, (1,), -fine.digits)), fine.times(_TWO, square).high
    while term.high > enough or doubled > odd + 2:
        odd += 2
        term = fine.over(fine.times(term, square), whole(odd))
        total = fine.plus(total, term)
    total = fine.plus(total, Interval(Decimal(0), fine.times(_TWO, term).high))
    peak = fine.times(fine.root(fine.times(_HALF, fine.pi())), fine.exp(fine.times(_HALF, square)))
    return fine.minus(peak, total)


def _far(at: Directed, x: Decimal) -> Interval:
    """By the continued fraction."""
    point, steps = Interval(x, x), _steps(at.digits, float(min(x, Decimal(10**9))))
    t = Interval(x, at.plus(point, at.over(whole(steps + 1), point)).high)
    for k in range(steps, 0, -1):
        t = at.plus(point, at.over(whole(k), t))
    return at.over(_ONE, t)


def _steps(digits: int, x: float) -> int:
    """How many steps give about this many digits; too few would make bounds wider, never wrong.

    A step from t_k to t_(k-1) narrows the bounds by k / t_k^2, and t_k is about (x + sqrt(x^2 + 4k)) / 2.
    """
    steps, missing = 0, 2.303 * digits + 8
    while missing > 0:
        steps += 1
        missing -= 2 * log((x + sqrt(x * x + 4 * steps)) / 2) - log(steps)
    return steps + 1
