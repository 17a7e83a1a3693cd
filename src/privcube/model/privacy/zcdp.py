"""Conversion between zero-concentrated and approximate differential privacy. Zone: PUBLIC.

Formal guarantee. A mechanism that is rho-zCDP satisfies (epsilon, delta)-DP whenever, for some alpha > 1,

    ln delta >= (alpha - 1)(alpha rho - epsilon) + (alpha - 1) ln(alpha - 1) - alpha ln alpha        (*)

(Canonne, Kamath and Steinke 2020, proposition 7: sharper than rho + 2 sqrt(rho ln(1/delta))). Every alpha gives a
valid statement, so the numerical search for the best alpha can cost accuracy but never privacy. What could cost
privacy is rounding in the final evaluation of (*); it is done with 60 significant digits in `decimal`, whose exp
and ln are correctly rounded, and the result is moved in the private direction (delta and epsilon up, rho down) by
1e-50 of the sum of the sizes of its terms, far more than the rounding errors of the dozen operations involved, even
where large terms cancel.

The bound holds for any rho-zCDP mechanism, discrete Gaussian noise included. The analytic Gaussian formula is for
continuous noise only and is not used.

See THEORY section 1.3.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

_DIGITS: Final = 60  # of intermediate results
_MARGIN: Final = Decimal("1e-50")  # relative slack in the private direction: covers all rounding, see above
_KEPT_DIGITS: Final = 30  # of the final result, rounded in the private direction
_LEAST_DELTA: Final = Decimal("1e-1000")  # exp underflows to 0 far below, and no mechanism here has delta 0


def delta_of(rho: Fraction, epsilon: Fraction) -> Fraction:
    """The least delta, rounded up and never below 1e-1000, such that rho-zCDP implies (epsilon, delta)-DP.

    >>> float(delta_of(Fraction(1, 2), Fraction(4)))
    0.000195...
    """
    with decimal.localcontext(prec=_DIGITS):
        r, e = _decimal(rho), _decimal(epsilon)
        # The right side of (*) is convex in alpha; its derivative below increases from -infinity.
        alpha = _root(lambda a: (2 * a - 1) * r - e + (1 - 1 / a).ln())
        terms = ((alpha - 1) * alpha * r, (1 - alpha) * e, (alpha - 1) * (alpha - 1).ln(), -alpha * alpha.ln())
        log_delta = sum(terms) + (sum(map(abs, terms)) + 1) * _MARGIN
        if log_delta >= 0:
            return Fraction(1)
        return min(Fraction(1), _rounded(max(log_delta.exp(), _LEAST_DELTA), decimal.ROUND_CEILING))


def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """The least epsilon, rounded up, such that rho-zCDP implies (epsilon, delta)-DP.

    >>> float(epsilon_of(Fraction(1, 2), Fraction(1, 10**6)))
    5.2215...
    """
    with decimal.localcontext(prec=_DIGITS):
        r, log_inverse = _decimal(rho), -_decimal(delta).ln()
        # Solving (*) for epsilon, the derivative in alpha vanishes where this increasing function does.
        alpha = _root(lambda a: r * (a - 1) ** 2 + a.ln() - log_inverse)
        epsilon = alpha * r + (log_inverse - alpha.ln()) / (alpha - 1) + (1 - 1 / alpha).ln()
        slack = (alpha * r + (log_inverse + alpha.ln() + 1) / (alpha - 1) + abs(epsilon) + 1) * _MARGIN
        return max(Fraction(0), _rounded(epsilon + slack, decimal.ROUND_CEILING))


@lru_cache(maxsize=256)
def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, rounded down, such that rho-zCDP implies (epsilon, delta)-DP.

    >>> float(rho_of(Fraction(1), Fraction(1, 10**6)))
    0.02435...
    """
    with decimal.localcontext(prec=_DIGITS):
        e, log_inverse = _decimal(epsilon), -_decimal(delta).ln()

        # Along the best alpha for each rho (see epsilon_of), rho and epsilon both fall as alpha grows.
        def excess(a: Decimal) -> Decimal:
            rho = (log_inverse - a.ln()) / (a - 1) ** 2
            return e - (2 * a - 1) * rho - (1 - 1 / a).ln()

        alpha = _root(excess)
        rho = ((alpha - 1) * e - log_inverse - (alpha - 1) * (alpha - 1).ln() + alpha * alpha.ln()) / (
            alpha * (alpha - 1)
        )
        logs = alpha.ln() / (alpha - 1) + abs((alpha - 1).ln()) / alpha
        slack = (e / alpha + (log_inverse + 1) / (alpha * (alpha - 1)) + logs + abs(rho)) * _MARGIN
        return max(Fraction(0), _rounded(rho - slack, decimal.ROUND_FLOOR))


def classic_gaussian_variance(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The paper's 2 ln(2/delta)/epsilon^2 (Theorem 2.2), rounded up, only to reproduce its figures.

    It is stated for continuous noise and unproven for epsilon above 1; releases use zCDP accounting.

    >>> float(classic_gaussian_variance(Fraction(1), Fraction(1, 10**6)))
    29.01...
    """
    with decimal.localcontext(prec=_DIGITS):
        variance = 2 * (2 / _decimal(delta)).ln() / _decimal(epsilon) ** 2
        return _rounded(variance * (1 + _MARGIN), decimal.ROUND_CEILING)


def _decimal(amount: Fraction) -> Decimal:
    return Decimal(amount.numerator) / Decimal(amount.denominator)


def _rounded(number: Decimal, rounding: str) -> Fraction:
    with decimal.localcontext(prec=_KEPT_DIGITS, rounding=rounding):
        return Fraction(+number)


def _root(increasing: Callable[[Decimal], Decimal]) -> Decimal:
    """Where an increasing function of alpha > 1 changes sign, by bisection on the scale of alpha - 1."""
    low, high = Decimal("1e-45"), Decimal("1e45")
    for _ in range(200):
        middle = (low * high).sqrt()
        if high - low <= low * Decimal("1e-20"):
            break
        low, high = (low, middle) if increasing(1 + middle) > 0 else (middle, high)
    return 1 + (low * high).sqrt()
