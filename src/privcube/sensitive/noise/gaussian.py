"""Discrete Gaussian noise: P(X = k) proportional to exp(-k^2 / (2 variance)), for a rational variance. Zone: SENSITIVE.

Formal guarantee (Canonne, Kamath and Steinke 2020). Adding independent draws with variances v_i to whole numbers that a
neighboring change moves by d_i costs rho = sum d_i^2 / (2 v_i) in zCDP. `variance` is the parameter of the
distribution; the variance of the draws is no larger. The draws are exact (`tables`, `bits`).

Up to a standard deviation of a few thousand |X| is drawn from a table of its tails. Beyond, a discrete Laplace draw Y
of scale t, the whole number above the standard deviation, is kept with probability exp(-(|Y| - variance/t)^2 / (2
variance)) (their algorithm 3); each such decision is exact, too.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Source, Uniform, system_words
from privcube.sensitive.noise.fixed import exp_bounds, product_bounds, ratio_bounds
from privcube.sensitive.noise.laplace import check_scale, discrete_laplace
from privcube.sensitive.noise.tables import TailTable

_BITS: Final = 320
_LARGEST_TABLE_VARIANCE: Final = 3000**2


def discrete_gaussian(variance: Fraction, count: int, source: Source = system_words) -> NDArray[np.int64]:
    """Independent draws of discrete Gaussian noise."""
    check_scale(variance)
    if variance > _LARGEST_TABLE_VARIANCE:
        return _by_rejection(variance, count, source)
    magnitude = _table(variance).draw(count, source)
    signs = np.unpackbits(source(-(-count // 64)).view(np.uint8))[:count]
    return np.where(signs == 1, -magnitude, magnitude)


@lru_cache(maxsize=64)
def _table(variance: Fraction) -> TailTable:
    return TailTable.of(_tails(variance, _BITS), _BITS, lambda k, bits: _tail(variance, k, bits))


def _tail(variance: Fraction, k: int, bits: int) -> tuple[int, int]:
    """Bounds on P(|X| >= k), worked out with room for the rounding of the sums."""
    extra = 64
    tails = _tails(variance, bits + extra)
    if k > len(tails):
        return 0, 1
    low, high = tails[k - 1]
    return low >> extra, (high >> extra) + 1


@lru_cache(maxsize=8)
def _tails(variance: Fraction, bits: int) -> list[tuple[int, int]]:
    """Bounds on P(|X| >= k) for k = 1..K, the first K with K^2 > 1.4 variance bits.

    With w_k = exp(-k^2/(2v)): w_(k+1) = w_k q_k, and q_(k+1) = q_k exp(-1/v). As 0.7 > ln 2, w_K < 2^-bits; and q
    falls, so that all the rest together is below 2^-bits / (1 - q_K).
    """
    last = isqrt(7 * variance.numerator * bits // (5 * variance.denominator)) + 1
    one = 1 << bits
    weights = [exp_bounds(1 / (2 * variance), bits)]
    ratio, step = exp_bounds(3 / (2 * variance), bits), exp_bounds(1 / variance, bits)
    for _ in range(last - 1):
        weights.append(product_bounds(weights[-1], ratio, bits))
        ratio = product_bounds(ratio, step, bits)
    rest = -(-one // (one - ratio[1])) + 1
    sums: list[tuple[int, int]] = []
    low, high = 0, rest
    for weight in reversed(weights):
        low, high = low + weight[0], high + weight[1]
        sums.append((low, high))
    whole = (one + 2 * low, one + 2 * high)
    return [ratio_bounds((2 * low, 2 * high), whole, bits) for low, high in reversed(sums)]


def _by_rejection(variance: Fraction, count: int, source: Source) -> NDArray[np.int64]:
    scale = isqrt(variance.numerator // variance.denominator) + 1
    kept: list[int] = []
    while len(kept) < count:
        for draw in discrete_laplace(Fraction(scale), 2 * (count - len(kept)) + 8, source).tolist():
            exponent = (abs(draw) - variance / scale) ** 2 / (2 * variance)
            if Uniform(source).below(partial(exp_bounds, exponent)):
                kept.append(draw)
    return np.array(kept[:count], dtype=np.int64)
