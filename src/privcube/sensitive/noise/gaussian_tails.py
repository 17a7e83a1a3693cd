"""Bounds on the tails of discrete Gaussian distributions. Zone: SENSITIVE."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

from privcube.sensitive.noise.fixed import exp_bounds, product_bounds, ratio_bounds


def tail_bound(variance: Fraction, k: int, bits: int) -> tuple[int, int]:
    """Bounds on P(|X| >= k), worked out with room for the rounding of the sums."""
    extra = 64
    tails = tail_bounds(variance, bits + extra)
    if k > len(tails):
        return 0, 1
    low, high = tails[k - 1]
    return low >> extra, (high >> extra) + 1


@lru_cache(maxsize=8)
def tail_bounds(variance: Fraction, bits: int) -> list[tuple[int, int]]:
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
    rest = -(-one // (one - ratio[1]))
    sums: list[tuple[int, int]] = []
    low, high = 0, rest
    for weight in reversed(weights):
        low, high = low + weight[0], high + weight[1]
        sums.append((low, high))
    whole = (one + 2 * low, one + 2 * high)
    return [ratio_bounds((2 * low, 2 * high), whole, bits) for low, high in reversed(sums)]
