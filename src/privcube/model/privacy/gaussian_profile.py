"""What Gaussian noise costs exactly in (epsilon, delta), with proven bounds. Zone: PUBLIC.

Formal guarantee (Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022). Independent normal noise of variances v_i on
numbers that a neighboring change moves by d_i satisfies (epsilon, delta)-DP if and only if delta is at least

    D(epsilon, mu) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),

where mu^2 is the largest sum of d_i^2 / v_i. The mu^2 of several releases add up. Rounding is post-processing, so the
same holds for noise that is drawn as the nearest whole number to normal noise and added to whole numbers. It does not
hold for discrete Gaussian noise, which costs slightly more; that noise is accounted through `zcdp`.

Whatever satisfies a pure epsilon is no easier to attack than normal noise of mu = 2 Phi^-1(e^epsilon/(1 + e^epsilon)).
Proof. An attacker who errs with probability a on one data set errs on the other with at least the larger of
1 - e^epsilon a and e^-epsilon (1 - a); the two lines meet where both errors are 1 / (1 + e^epsilon). The least errors
against normal noise form a convex, symmetric curve from (0, 1) to (1, 0), through the point where both errors are
Phi(-mu/2), which is where the lines meet; so it lies below them. By Blackwell's theorem the release is then a
post-processing of the normal noise, so the order is kept when releases are composed.

How it is worked out. With t = epsilon/mu - mu/2 and s = t + mu, e^epsilon phi(s) = phi(t), so that
D = phi(t) (m(t) - m(s)) and 1 - D = phi(t) (m(-t) + m(s)) in terms of Mills ratios (`privcube.algebra.normal`); the
first for t >= 0, the second below. The sign of t is that of 2 epsilon - mu^2, a fraction. Bounds on D are narrowed
until they decide whether it is at most delta. The inverse is found by Newton's method and then checked by such a
decision: the search can cost accuracy, never privacy.

See THEORY section 6.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

from privcube.algebra.directed import Directed, Interval, whole
from privcube.algebra.normal import density, mills, upper_tail

_ROUGH: Final = 12  # correct digits while searching
_FINE: Final = 28  # correct digits in the end
_MOST_DIGITS: Final = 4_000  # a decision that needs more is taken to the private side
_KEPT_DIGITS: Final = 30  # of results, rounded in the private direction
_LEAST_DELTA: Final = Decimal("1e-1000")  # no Gaussian noise has delta 0
_SEARCH: Final = decimal.Context(
    prec=60,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)


def delta_of(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """The least delta, rounded up and never below 1e-1000, of Gaussian noise with this mu^2.

    >>> float(delta_of(Fraction(1), Fraction(1)))
    0.12693673750664...
    """
    inside, _ = _narrow(mu_squared, epsilon, _FINE)
    return min(Fraction(1), _rounded(max(inside.high, _LEAST_DELTA), decimal.ROUND_CEILING))


@lru_cache(maxsize=256)
def mu_squared_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest mu^2, rounded down, of Gaussian noise that satisfies (epsilon, delta)-DP.

    >>> float(mu_squared_of(Fraction(1), Fraction(1, 10**6)))
    0.0560...
    """
    with decimal.localcontext(_SEARCH):
        mu = _start(epsilon, delta)
        for accuracy in (_ROUGH, _FINE):
            for _ in range(100):
                step = _newton_step(mu, epsilon, delta, accuracy)
                mu *= step.exp()
                if abs(step) < Decimal(10) ** (-accuracy // 2 - 1):
                    break
        for slack in range(26, 0, -1):
            found = _rounded(mu * mu * (1 - Decimal(10) ** -slack), decimal.ROUND_FLOOR)
            if at_most(found, epsilon, delta):
                return found
    raise ArithmeticError("no scale of Gaussian noise was found")


def at_most(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether Gaussian noise with this mu^2 satisfies (epsilon, delta)-DP: never True if it does not."""
    digits = _FINE
    while digits <= _MOST_DIGITS:
        at = Directed(digits)
        inside, _ = _bounds(at, mu_squared, epsilon)
        limit = at.of(delta)
        if inside.high <= limit.low:
            return True
        if inside.low > limit.high:
            return False
        digits *= 2
    return False


@lru_cache(maxsize=256)
def mu_squared_of_pure(epsilon: Fraction) -> Fraction:
    """The least mu^2, rounded up, such that Gaussian noise is as easy to attack as any pure epsilon-DP release can be.

    >>> float(mu_squared_of_pure(Fraction(1)))
    1.5179...
    """
    with decimal.localcontext(_SEARCH):
        e = _decimal(epsilon)
        target = -(e + (1 + (-e).exp()).ln())  # the logarithm of 1 / (1 + e^epsilon)
        half = min(e * Decimal("0.63"), (2 * e).sqrt())  # mu / 2
        at = Directed(_SEARCH.prec)
        for _ in range(200):
            here = Interval(half, half)
            step = (upper_tail(at, here).low.ln() - target) * mills(at, here).low
            half = max(half + step, half / 4)
            if abs(step) < half * Decimal("1e-30"):
                break
        for slack in range(26, 0, -1):
            found = _rounded((2 * half) ** 2 * (1 + Decimal(10) ** -slack), decimal.ROUND_CEILING)
            if _as_easy(found, epsilon):
                return found
    raise ArithmeticError("no scale of Gaussian noise was found")


def _as_easy(mu_squared: Fraction, epsilon: Fraction) -> bool:
    """Whether Phi(-mu/2) <= 1 / (1 + e^epsilon): never True if it is not."""
    digits = 2 * _FINE
    while digits <= _MOST_DIGITS:
        at = Directed(digits)
        tail = upper_tail(at, at.root(at.of(mu_squared / 4)))
        product = at.times(tail, at.plus(whole(1), at.exp(at.of(epsilon))))
        if product.high <= 1:
            return True
        if product.low > 1:
            return False
        digits *= 2
    return False


def _bounds(at: Directed, mu_squared: Fraction, epsilon: Fraction) -> tuple[Interval, Interval]:
    """D and 1 - D."""
    left = 2 * epsilon - mu_squared
    twice = at.times(whole(2), at.root(at.of(mu_squared)))
    near, far = at.over(at.of(abs(left)), twice), at.over(at.of(2 * epsilon + mu_squared), twice)  # |t| and s
    if left >= 0:
        apart = at.minus(mills(at, near), mills(at, far))
        inside = at.times(density(at, near), _clipped(apart))
        return inside, _clipped(at.minus(whole(1), inside))
    outside = at.times(density(at, near), at.plus(mills(at, near), mills(at, far)))
    return _clipped(at.minus(whole(1), outside)), outside


def _clipped(number: Interval) -> Interval:
    """Bounds on a number that is at least 0; so is their upper end."""
    return Interval(max(number.low, Decimal(0)), number.high)


def _narrow(mu_squared: Fraction, epsilon: Fraction, accuracy: int) -> tuple[Interval, Interval]:
    """D and 1 - D with this many correct digits, as far as D is not negligible."""
    digits, part = accuracy + 8, Interval(*[Decimal((0, (1,), -accuracy))] * 2)
    while True:
        at = Directed(digits)
        inside, outside = _bounds(at, mu_squared, epsilon)
        close = all(at.minus(each, each).high <= at.times(each, part).low for each in (inside, outside))
        if close or inside.high < _LEAST_DELTA or digits > _MOST_DIGITS:
            return inside, outside
        digits *= 2


def _start(epsilon: Fraction, delta: Fraction) -> Decimal:
    """A mu that is small enough, as D is at most exp(-t^2/2) and at most mu / sqrt(2 pi)."""
    e, d = _decimal(epsilon), _decimal(delta)
    t = (-2 * d.ln()).sqrt()
    return max(2 * e / ((t * t + 2 * e).sqrt() + t), d * Decimal("2.5"))


def _newton_step(mu: Decimal, epsilon: Fraction, delta: Fraction, accuracy: int) -> Decimal:
    """By how much ln mu is short, from ln D, or from ln(1 - D) where that is smaller; the derivative of D is phi(t)."""
    inside, outside = _narrow(Fraction(mu) ** 2, epsilon, accuracy)
    t = _decimal(epsilon) / mu - mu / 2
    slope = mu * (-t * t / 2).exp() / Decimal("2.506628274631000502415765285")
    if delta <= Fraction(1, 2):
        step = (_decimal(delta).ln() - inside.low.ln()) * inside.low / slope
    else:
        step = (outside.low.ln() - _decimal(1 - delta).ln()) * outside.low / slope
    return max(min(step, Decimal(2)), Decimal(-2))


def _decimal(amount: Fraction) -> Decimal:
    return Decimal(amount.numerator) / Decimal(amount.denominator)


def _rounded(number: Decimal, rounding: str) -> Fraction:
    with decimal.localcontext(_SEARCH) as context:
        context.prec, context.rounding = _KEPT_DIGITS, rounding
        return Fraction(+number)
