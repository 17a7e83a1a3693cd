"""How many points of each bound group lie below the common sum t, drawn exactly. Zone: SENSITIVE.

Notation of `privcube.sensitive.noise.section`. Given that J points of all groups lie below t, the joint weight of
their numbers j_g is prod_g a_g(j_g), with whole numbers a_g(j) = 2^j C(n-1, j) C(2n-2-j, n-1): a product of
polynomials. Let P = prod_g sum_j a_g(j) x^j have coefficients c_J and degree M = sum (n_g - 1). As t^J (1-t)^(M-J) has
the integral J! (M-J)! / (M+1)!, J has weight B_J = c_J / C(M, J).

J is drawn from a table of its tails (`tables`). B_J / B_0 is the mean, over uniform subsets of J of the M points, of a
product of ratios a_g(j) C(n-1, 0) / (C(n-1, j) a_g(0)), which fall in j; a larger subset by one more point has smaller
ratios, so B_J falls. Coefficients up to a reach L are therefore enough: what is left out is at most (M - L) B_L.

Then J is split. For a half of the groups with product P' and the others with P'', the first half has i of the J points
with weight c'_i c''_(J-i), out of c_J in all; and so on within each half. All of these are whole numbers, and a uniform
number decides with as many bits as it takes.

See THEORY section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import comb, gcd, isqrt, lcm
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.sensitive.noise.bits import Source
from privcube.sensitive.noise.tables import TailTable

_BITS: Final = 84
_BLOCK: Final = 64  # words drawn at a time

Sizes = tuple[int, ...]


def points_below(sizes: Sequence[int], count: int, source: Source) -> NDArray[np.int64]:
    """The numbers of points below t: a row for each draw, a column for each group of these sizes."""
    order = sorted(range(len(sizes)), key=lambda at: sizes[at])
    rising = tuple(sizes[at] for at in order)
    found = np.zeros((count, len(sizes)), dtype=np.int64)
    if not sizes:
        return found
    split = _Split(source)
    for row, total in enumerate(_table(rising).draw(count, source).tolist()):
        found[row, order] = split.among(rising, total)
    return found


class _Split:
    """Divides numbers of points among groups, with random words drawn in blocks."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._words: list[int] = []

    def among(self, sizes: Sizes, total: int) -> list[int]:
        """How many of the points each group has."""
        if total == 0 or len(sizes) == 1:
            return [total] + [0] * (len(sizes) - 1) if total else [0] * len(sizes)
        half = len(sizes) // 2
        reach = _reach_for(total)
        left, right = product(sizes[:half], reach), product(sizes[half:], reach)
        first = self._share(left, right, total, product(sizes, reach)[total])
        return self.among(sizes[:half], first) + self.among(sizes[half:], total - first)

    def _share(self, left: Sequence[int], right: Sequence[int], total: int, whole: int) -> int:
        """i with weight left[i] right[total - i]; these weights add up to the whole."""
        word, bits = self._word(), 64
        while True:
            low, high = word * whole, (word + 1) * whole  # the uniform number times the whole, in units of 2^-bits
            share = max(0, total - len(right) + 1)
            above = left[share] * right[total - share] << bits
            while above <= low:
                share += 1
                above += left[share] * right[total - share] << bits
            if high <= above:
                return share
            word, bits = word << 64 | self._word(), bits + 64

    def _word(self) -> int:
        if not self._words:
            self._words = self._source(_BLOCK).tolist()
        return self._words.pop()


def _reach_for(total: int) -> int:
    """A power of two that reaches the total, so that few products are worked out."""
    return max(64, 1 << (total - 1).bit_length())


@lru_cache(maxsize=256)
def _table(sizes: Sizes) -> TailTable:
    """J by its tails."""
    return TailTable.of(_tails(sizes, _BITS), _BITS, partial(_tail, sizes), sum(sizes) - len(sizes))


def _tail(sizes: Sizes, k: int, bits: int) -> tuple[int, int]:
    """low <= P(J >= k) 2^bits <= high."""
    known = _tails(sizes, bits)
    return known[k - 1] if k <= len(known) else (0, 1)


@lru_cache(maxsize=256)
def _tails(sizes: Sizes, bits: int) -> list[tuple[int, int]]:
    """Bounds on P(J >= k) 2^bits for k = 1, 2, ..., as far as they may be above 1.

    If all coefficients are there, the weights are whole numbers and the bounds are those of a fraction. Otherwise
    weights B_J / B_0 are too low by less than two units of 2^-fine each, and the largest is 1; so a sum of them is too
    low by at most twice their number, in these units, and by what is left out.
    """
    points = sum(sizes) - len(sizes)
    fine, reach = bits + points.bit_length() + 8, 64 + isqrt(3 * bits * points)
    while reach < points:
        weights = _weights(sizes, reach, fine)
        left_out = (points - reach) * (weights[-1] + 2)
        if left_out >> fine - bits == 0:
            slack = 2 * len(weights) + left_out
            break
        reach *= 2
    else:
        common = lcm(*range(2, points + 2))  # a multiple of all C(points, J)
        weights = [c * (common // comb(points, at)) for at, c in enumerate(product(sizes, points))]
        slack = 0
    least, above, tails = sum(weights), 0, []
    for weight in reversed(weights[1:]):
        above += weight
        tails.append(((above << bits) // (least + slack), -(-(above + slack << bits) // least)))
    return tails[::-1]


def _weights(sizes: Sizes, reach: int, fine: int) -> list[int]:
    """Whole numbers that are at most B_J / B_0 2^fine, and less than 2 below it, for J = 0..reach.

    Polynomials are divided by their first coefficient and rounded down to units of 2^-more. For a part of the groups
    with m points let the coefficient of x^J be too low by at most e C(m, J) units. Exact coefficients are at most
    C(m, J), as B_J <= B_0. So by Vandermonde's identity the coefficients of a product of two parts are too low by at
    most (e' + e'') C(m, J) units, and rounding adds one. A single group has e = 1, so all G groups have e < 2 G, and
    B_J / B_0, the coefficient over C(M, J), is too low by less than 2 G 2^-more <= 2^-fine (there is a bit to spare).
    """
    points, more = sum(sizes) - len(sizes), fine + (4 * len(sizes)).bit_length()
    known: dict[Sizes, list[int]] = {}

    def rounded(part: Sizes) -> list[int]:
        if part not in known:
            half = len(part) // 2
            own = _polynomial(part[0])
            known[part] = (
                [c >> more for c in _times(rounded(part[:half]), rounded(part[half:]), reach)]
                if half
                else [(c << more) // own[0] for c in own[: reach + 1]]
            )
        return known[part]

    return [c // (comb(points, at) << more - fine) for at, c in enumerate(rounded(sizes))]


@lru_cache(maxsize=1024)
def product(sizes: Sizes, reach: int) -> tuple[int, ...]:
    """The coefficients of the product of the polynomials of groups, up to x^reach, up to a common factor."""
    if len(sizes) == 1:
        return _polynomial(sizes[0])[: reach + 1]
    half = len(sizes) // 2
    return _times(product(sizes[:half], reach), product(sizes[half:], reach), reach)


@lru_cache(maxsize=256)
def _polynomial(n: int) -> tuple[int, ...]:
    """2^j C(n-1, j) C(2n-2-j, n-1) for j = 0..n-1, divided by their greatest common factor."""
    terms = [comb(2 * n - 2, n - 1)]
    for j in range(n - 1):
        terms.append(terms[-1] * 2 * (n - 1 - j) ** 2 // ((j + 1) * (2 * n - 2 - j)))
    common = gcd(*terms)
    return tuple(each // common for each in terms)


def _times(left: Sequence[int], right: Sequence[int], reach: int) -> tuple[int, ...]:
    """The product of two polynomials without minus signs, as one product of whole numbers with room for each term."""
    largest = max(left) * max(right) * min(len(left), len(right))
    width = largest.bit_length() // 8 + 1
    packed = [int.from_bytes(b"".join(c.to_bytes(width, "little") for c in each), "little") for each in (left, right)]
    terms = len(left) + len(right) - 1
    found = (packed[0] * packed[1]).to_bytes(terms * width, "little")
    kept = min(terms, reach + 1)
    return tuple(int.from_bytes(found[at * width : (at + 1) * width], "little") for at in range(kept))
