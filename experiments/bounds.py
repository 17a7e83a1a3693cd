"""The paper's bounds on the error of all k-way tables of d binary attributes, with their constants.

All bounds are on the expected L1 error of one table under a guarantee (epsilon, or epsilon and delta with the classic
constant 2 ln(2/delta)/epsilon^2), for adding or removing one record. With variance v per cell the expected L1 error of
a table of 2^k cells is at most 2^k sqrt(v) (Jensen). They restate Table 1, Lemma 4.2 and Theorem B.1; the lower bounds
of Table 1 hide unknown factors and are not restated.
"""

from __future__ import annotations

from math import comb, log, sqrt
from typing import Literal

BoundedStrategy = Literal["base_counts", "marginals", "fourier_uniform", "fourier"]


def coefficients(d: int, k: int) -> int:
    """|F|: how many Fourier coefficients all k-way tables need.

    >>> coefficients(16, 2)
    137
    """
    return sum(comb(d, i) for i in range(k + 1))


def fourier_row_coefficient(d: int, k: int, size: int) -> float:
    """b_i in the proof of Lemma 4.2, for a coefficient of so many attributes: 2^(d-k+1) (d-|i| choose k-|i|)."""
    return 2.0 ** (d - k + 1) * comb(d - size, k - size)


def fourier_total_variance(d: int, k: int, epsilon: float, delta: float | None = None) -> float:
    """The exact optimum in the proof of Lemma 4.2: the sum of all variances for optimal budgets.

    Pure: (sum_i C(d,i) C(d-i,k-i)^(1/3))^3 / (2^(k-1) epsilon^2). With delta, the same from appendix A; there the
    paper's b_i carries a factor 2 that Laplace noise has and Gaussian noise has not, left out here.
    """
    if delta is None:
        root: float = sum(comb(d, i) * comb(d - i, k - i) ** (1 / 3) for i in range(k + 1))
        return float(root**3 / (2.0 ** (k - 1) * epsilon**2))
    root = sum(comb(d, i) * comb(d - i, k - i) ** (1 / 2) for i in range(k + 1))
    return float(2 * log(2 / delta) * root**2 / (2.0**k * epsilon**2))


def fourier_total_variance_bound(d: int, k: int, epsilon: float, delta: float | None = None) -> float:
    """The bound on it that Lemma 4.2 proves for k < d/2, before the constants go into the O."""
    if delta is None:
        return 3 * (k + 1) ** 2 * comb(d + k, k) * comb(d, k) ** 2 / (2.0 ** (k - 1) * epsilon**2)
    return 4 * (k + 1) * log(2 / delta) * comb(d, k) * comb(d + k, k) / (2.0**k * epsilon**2)


def expected_error_bound(
    strategy: BoundedStrategy, d: int, k: int, epsilon: float, delta: float | None = None
) -> float:
    """Table 1: a bound on the expected L1 error of one k-way table.

    >>> round(expected_error_bound("fourier", 16, 2, 1.0)), round(expected_error_bound("marginals", 16, 2, 1.0))
    (996, 679)
    """
    unit = sqrt(2) if delta is None else sqrt(2 * log(2 / delta))
    if strategy == "base_counts":
        return float(unit * 2.0 ** ((d + k) / 2) / epsilon)
    if strategy == "marginals":
        return float(unit * 2.0**k * (comb(d, k) if delta is None else sqrt(comb(d, k))) / epsilon)
    if strategy == "fourier_uniform":  # Theorem B.1
        if delta is None:
            return coefficients(d, k) * sqrt(2.0 ** (3 + k)) / epsilon
        return unit * sqrt(coefficients(d, k) * 2.0**k) / epsilon
    cells = comb(d, k) * 2.0**k
    return 2.0**k * sqrt(fourier_total_variance_bound(d, k, epsilon, delta) / cells)
