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

See THEORY section 3.
"""

from __future__ import annotations

import decimal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import GuaranteeError
from privcube.model.slices import largest_scale
from privcube.sensitive.noise.bits import Source, signed, system_words, uniform_below
from privcube.sensitive.noise.fixed import context_of, power_of_ten
from privcube.sensitive.noise.laplace import check_scale, discrete_laplace
from privcube.sensitive.noise.weights import Cumulative, drawn_index

# What is left out of the weights is 10^(30 - digits) of the largest: less than bits can tell (`weights`).
_LOST_DIGITS: Final = 30


def max_norm_noise(scale: Fraction, sizes: Sequence[int], source: Source = system_words) -> list[NDArray[np.int64]]:
    """One draw for groups of these numbers of rows."""
    check_bundle(scale, sizes)
    if len(sizes) == 1:
        return [discrete_laplace(scale, sizes[0], source)]
    radius = drawn_index(partial(_known_radius_weights, scale, tuple(sorted(Counter(sizes).items()))), source)
    singles = iter((uniform_below(2 * radius + 1, sum(size == 1 for size in sizes), source) - radius).reshape(-1, 1))
    supports = {size: partial(_support_weights, size, radius) for size in set(sizes)}
    return [next(singles) if size == 1 else _ball_point(size, radius, supports[size], source) for size in sizes]


def check_bundle(scale: Fraction, sizes: Sequence[int]) -> None:
    """A scale and groups that the sampler is built for."""
    check_scale(scale)
    if not sizes or min(sizes) < 1:
        raise GuaranteeError("bundle", expected="groups of at least one row", given=list(sizes)[:5])
    most = largest_scale(sum(sizes))
    if len(sizes) > 1 and scale > most:
        raise GuaranteeError(
            "bundle",
            expected=f"a scale of at most {most:,} for {sum(sizes):,} rows; noise its groups one by one",
            given=scale,
        )


def _ball_point(size: int, radius: int, support: Callable[[int], Cumulative], source: Source) -> NDArray[np.int64]:
    """A uniform lattice point of the L1 ball, given the weights of its numbers of coordinates that are not zero."""
    count = drawn_index(support, source)
    point = np.zeros(size, dtype=np.int64)
    if count:
        magnitudes = _subset(radius, count, source) + 1
        magnitudes[1:] -= magnitudes[:-1].copy()
        point[_subset(size, count, source)] = signed(magnitudes, source)
    return point


def _subset(total: int, count: int, source: Source) -> NDArray[np.int64]:
    """A uniform subset of `count` of the numbers 0..total-1, in rising order."""
    if count == total:
        return np.arange(total, dtype=np.int64)
    if total > 4 * count + 64:  # few of many: uniform numbers until enough of them differ
        found: dict[int, None] = {}
        while len(found) < count:
            for number in uniform_below(total, count - len(found), source).tolist():
                found[number] = None
        return np.sort(np.array(list(found), dtype=np.int64))
    while True:  # the places of the smallest of random words that all differ
        keys = source(total)
        order = np.argsort(keys)
        rising = keys[order]
        if (rising[1:] > rising[:-1]).all():
            return np.sort(order[:count])


@lru_cache(maxsize=16)
def _known_radius_weights(scale: Fraction, groups: tuple[tuple[int, int], ...], digits: int) -> Cumulative:
    return _radius_weights(scale, Counter(dict(groups)), digits)


def _radius_weights(scale: Fraction, groups: Counter[int], digits: int) -> Cumulative:
    """e^(-r/scale) prod_g B(n_g, r) around its mode, with bounds on what is left out on both sides.

    The first weight kept is called 1, and each next one is the last times q(r) = e^(-1/scale) prod_g B(n_g, r+1) /
    B(n_g, r). B is log-concave in r, so q falls: beyond the last weight kept the rest is below a geometric series, and
    so it is before the first. These two bounds are doubled, which is room for their own rounding as |q - 1| > 10^-20
    there. Where the window starts is guessed (`_guessed_window`), and it is widened until what it leaves out is small.

    Rounding, in units of 10^(1 - digits): `_growth` is off by at most 3 (r+2), a power of it by `times` as many,
    e^(-1/scale) by 2 + 1/scale, and a weight by the sum of these over the steps from the first; 8 instead of 3 leaves
    room for the second order, the products and the additions.
    """
    context = context_of(digits)
    one, two, small, near = Decimal(1), Decimal(2), power_of_ten(_LOST_DIGITS - digits), power_of_ten(-20)
    over, under = context.add(one, near), context.subtract(one, near)
    step = context.exp(context.divide(Decimal(-scale.denominator), Decimal(scale.numerator)))
    mode, width = _guessed_window(step, groups, digits - _LOST_DIGITS)
    while True:
        first = max(0, mode - width)
        streams = [(times, _growth(n, first, context)) for n, times in groups.items()]
        weights, negligible = [one], small
        below = None if first else Decimal(0)
        while True:
            ratio = step
            for times, growth in streams:
                ratio = context.multiply(ratio, context.power(next(growth), times))
            if below is None:
                if ratio < over:
                    break
                below = context.divide(two, context.subtract(ratio, one))
            weights.append(context.multiply(weights[-1], ratio))
            if ratio > one:
                negligible = context.multiply(small, weights[-1])
            elif weights[-1] < negligible and ratio < under:
                above = context.divide(context.multiply(two, weights[-1]), context.subtract(one, ratio))
                if above <= negligible:
                    break
        if below is not None and below <= negligible:
            break
        width *= 2
    units = (len(weights) + 10) * (sum(groups.values()) * (first + len(weights) + 10) + 2 + int(1 / scale))
    error = context.multiply(Decimal(8 * units), power_of_ten(1 - digits))
    return Cumulative.of(first, weights, digits, below=below, above=above, error=error)


def _guessed_window(step: Decimal, groups: Counter[int], digits: int) -> tuple[int, int]:
    """About where the weights of the radius are largest, and how far below they are 10^digits times smaller.

    No more than a guess. In the equation of `_growth` g(r) and g(r-1) are taken as equal.
    """
    context = context_of(30)

    def ratio(radius: int) -> Decimal:
        product = context.plus(step)
        for n, times in groups.items():
            root = context.sqrt(Decimal((2 * n + 1) ** 2 + 4 * radius * (radius + 1)))
            growth = context.divide(context.add(Decimal(2 * n + 1), root), Decimal(2 * radius + 2))
            product = context.multiply(product, context.power(growth, times))
        return product

    reach = 1
    while ratio(reach) >= 1:
        reach *= 2
    low, mode = -1, reach
    while mode - low > 1:
        middle = (low + mode) // 2
        low, mode = (low, middle) if ratio(middle) < 1 else (middle, mode)
    width, enough, fall = 64, power_of_ten(digits), Decimal(0)
    while width < mode and fall < enough:
        width += width // 8
        fall = Decimal(1)
        for place in range(1, 8):  # q falls, so at the upper end of each of eight parts it is least
            fall = context.multiply(fall, context.power(ratio(max(0, mode - place * width // 8)), width // 8))
    return mode, width


def _growth(n: int, first: int, context: decimal.Context) -> Iterator[Decimal]:
    """g(r) = B(n, r+1) / B(n, r) for r = first, first + 1, ...

    The first from the sums B(n, r) = sum_i 2^i C(n,i) C(r,i); the others from (r+1) g(r) = 2n+1 + r / g(r-1), by the
    generating function (1+x)^n / (1-x)^(n+1) of B(n, .). Each rounding is half a unit: a sum has three for each of its
    at most r terms, so that g(first) is off by at most 3 (first+2) units; and each step adds three more.
    """
    divide, add, odd = context.divide, context.add, Decimal(2 * n + 1)
    last = divide(_ball(n, first + 1, context), _ball(n, first, context))
    r = first
    while True:
        yield last
        r += 1
        last = divide(add(odd, divide(r, last)), r + 1)


def _ball(n: int, radius: int, context: decimal.Context) -> Decimal:
    """B(n, radius): how many lattice points the L1 ball has."""
    total = Decimal(0)
    for term in _support_terms(n, radius, context):
        total = context.add(total, term)
    return total


def _support_terms(size: int, radius: int, context: decimal.Context) -> Iterator[Decimal]:
    """2^i C(size, i) C(radius, i) for i = 0..min(size, radius); each step rounds twice."""
    term = Decimal(1)
    yield term
    for i in range(min(size, radius)):
        term = context.multiply(term, context.divide(2 * (size - i) * (radius - i), (i + 1) ** 2))
        yield term


@lru_cache(maxsize=2048)
def _support_weights(size: int, radius: int, digits: int) -> Cumulative:
    """How many points of the L1 ball have i coordinates that are not zero."""
    weights = list(_support_terms(size, radius, context_of(digits)))
    error = context_of(digits).multiply(Decimal(8 * (len(weights) + 10)), power_of_ten(1 - digits))
    return Cumulative.of(0, weights, digits, below=Decimal(0), above=Decimal(0), error=error)
