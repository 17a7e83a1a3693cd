"""Noise for a bundle of groups: P(z) proportional to exp(-max_g |z_g|_1 / scale) on whole numbers. Zone: SENSITIVE.

Formal guarantee. If a neighboring change moves the answers of every group by at most D in L1, it moves the largest of
the groups' L1 norms by at most D, so the whole bundle costs epsilon = D/scale, once (a K-norm mechanism, Hardt and
Talwar 2010). A bundle of one group is discrete Laplace noise.

How it is drawn. exp(-N/s) = (1 - e^(-1/s)) sum_(r >= N) e^(-r/s), so z is uniform on {max_g |z_g|_1 <= r} for a radius
r drawn with weight e^(-r/s) prod_g B(n_g, r), where B(n, r) counts the lattice points of the L1 ball. Given r the
groups are independent: a uniform lattice point of a ball has i coordinates that are not zero with weight 2^i C(n,i)
C(r,i); which ones they are is a uniform subset of the n places, their absolute values are the gaps of a uniform subset
of {1..r}, their signs are free. r and i are drawn from cumulative weights with bounds, narrowed until the bits decide;
subsets come from sorting random words, all drawn again if two are equal. So every draw has exactly the stated
probability.
"""

from __future__ import annotations

import decimal
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import GuaranteeError
from privcube.sensitive.noise.bits import Source, system_words
from privcube.sensitive.noise.laplace import check_scale, discrete_laplace
from privcube.sensitive.noise.weights import Cumulative, context_of, drawn_index

_LARGEST_RADIUS: Final = 20_000_000  # the radius is about rows times scale, and all up to it are gone through


def max_norm_noise(scale: Fraction, sizes: Sequence[int], source: Source = system_words) -> list[NDArray[np.int64]]:
    """One draw for groups of these numbers of rows."""
    check_scale(scale)
    if not sizes or min(sizes) < 1:
        raise GuaranteeError("bundle", expected="groups of at least one row", given=list(sizes)[:5])
    if len(sizes) == 1:
        return [discrete_laplace(scale, sizes[0], source)]
    if sum(sizes) * scale > _LARGEST_RADIUS:
        raise GuaranteeError(
            "bundle",
            expected=f"rows times scale of at most {_LARGEST_RADIUS:,}; noise its groups one by one",
            given=scale,
        )
    radius = drawn_index(lru_cache(partial(_radius_weights, scale, Counter(sizes))), source)
    singles = iter(_uniform(2 * radius + 1, sum(size == 1 for size in sizes), source) - radius)
    supports = {size: lru_cache(partial(_support_weights, size, radius)) for size in set(sizes)}
    return [
        np.array([next(singles)], dtype=np.int64) if size == 1 else _ball_point(size, radius, supports[size], source)
        for size in sizes
    ]


def _ball_point(size: int, radius: int, support: Callable[[int], Cumulative], source: Source) -> NDArray[np.int64]:
    """A uniform lattice point of the L1 ball, given the weights of its numbers of coordinates that are not zero."""
    count = drawn_index(support, source)
    point = np.zeros(size, dtype=np.int64)
    if count:
        magnitudes = np.diff(_subset(radius, count, source) + 1, prepend=0)
        signs = np.unpackbits(source(-(-count // 64)).view(np.uint8))[:count]
        point[_subset(size, count, source)] = np.where(signs == 1, -magnitudes, magnitudes)
    return point


def _uniform(total: int, count: int, source: Source) -> NDArray[np.int64]:
    """Uniform whole numbers below a total; words from the last, incomplete round of it are drawn again."""
    words = source(count).copy()
    limit = 2**64 - 2**64 % total
    while limit < 2**64 and np.any(late := words >= np.uint64(limit)):
        words[late] = source(int(late.sum()))
    return (words % np.uint64(total)).astype(np.int64)


def _subset(total: int, count: int, source: Source) -> NDArray[np.int64]:
    """A uniform subset of so many of 0..total-1, in rising order."""
    if count == total:
        return np.arange(total, dtype=np.int64)
    if total > 4 * count + 64:  # few of many: uniform numbers until so many differ
        found: dict[int, None] = {}
        while len(found) < count:
            for number in _uniform(total, count - len(found), source).tolist():
                found[number] = None
        return np.sort(np.array(list(found), dtype=np.int64))
    while True:  # the places of the smallest of random words that all differ
        keys = source(total)
        if len(np.unique(keys)) == total:
            return np.sort(np.argpartition(keys, count)[:count])


def _radius_weights(scale: Fraction, groups: Counter[int], digits: int) -> Cumulative:
    """e^(-r/scale) prod_g B(n_g, r) around its mode, with bounds on what is left out on both sides.

    g(r) = B(n, r+1) / B(n, r) obeys (r+1) g(r) = 2n+1 + r / g(r-1), from the generating function (1+x)^n /
    (1-x)^(n+1) of B(n, .). B is log-concave in r, so the ratio of two weights in a row falls with r: beyond the
    last weight kept they are below a geometric series, and so they are before the first. Rounding: g(r) is off by
    at most 3 (r+1) units, a power of it by `times` as many, e^(-1/scale) by 2 + 1/scale, and a weight by the sum of
    these over the steps from the mode; 8 instead of 3 leaves room for the second order and the additions.
    """
    context = context_of(digits)
    step = context.exp(context.divide(Decimal(-scale.denominator), Decimal(scale.numerator)))
    growth: dict[int, list[Decimal]] = {n: [] for n in groups}

    def ratio(radius: int) -> Decimal:
        """The weight of radius + 1 over that of radius."""
        product = step
        for n, times in groups.items():
            known = growth[n]
            if len(known) <= radius:
                _extend(known, n, radius, context)
            product = context.multiply(product, context.power(known[radius], times))
        return product

    reach = 1
    while ratio(reach) >= 1:
        reach *= 2
    low, mode = -1, reach  # ratio(mode) < 1
    while mode - low > 1:
        middle = (low + mode) // 2
        low, mode = (low, middle) if ratio(middle) < 1 else (middle, mode)
    small = Decimal(10) ** (20 - digits)
    one = Decimal(1)
    after, above = [one], None
    while above is None or above > small:
        factor = ratio(mode + len(after) - 1)
        after.append(context.multiply(after[-1], factor))
        above = context.divide(context.multiply(after[-1], factor), one - factor) if factor < 1 else None
    before, below = [one], Decimal(0) if mode == 0 else None
    while below is None or below > small:
        radius = mode - len(before)
        factor = ratio(radius)
        before.append(context.divide(before[-1], factor))
        below = Decimal(0) if radius == 0 else context.divide(before[-1], factor - one) if factor > 1 else None
    weights = before[:0:-1] + after
    units = (len(weights) + 10) * (sum(groups.values()) * (mode + len(after) + 10) + 2 + int(1 / scale))
    error = Decimal(8 * units) * Decimal(10) ** (1 - digits)
    return Cumulative.of(mode - len(before) + 1, weights, digits, below=below, above=above, error=error)


def _extend(growth: list[Decimal], n: int, radius: int, context: decimal.Context) -> None:
    """Go on with g(r) up to a radius."""
    divide, add, odd = context.divide, context.add, Decimal(2 * n + 1)
    last = growth[-1] if growth else Decimal(1)
    for r in range(len(growth), radius + 1):
        last = divide(add(odd, divide(r, last)), r + 1)
        growth.append(last)


def _support_weights(size: int, radius: int, digits: int) -> Cumulative:
    """2^i C(size, i) C(radius, i) for i = 0..min(size, radius); each step rounds twice."""
    context = context_of(digits)
    weights = [Decimal(1)]
    for i in range(min(size, radius)):
        ratio = context.divide(Decimal(2 * (size - i) * (radius - i)), Decimal((i + 1) ** 2))
        weights.append(context.multiply(weights[-1], ratio))
    error = Decimal(8 * (len(weights) + 10)) * Decimal(10) ** (1 - digits)
    return Cumulative.of(0, weights, digits, below=Decimal(0), above=Decimal(0), error=error)
