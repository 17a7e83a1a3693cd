"""Noise for a Gram matrix: the difference of two Wishart matrices, rounded to whole numbers. Zone: SENSITIVE.

N = W1 - W2 with independent W = G G'/2, for matrices G of n rows and n+1 columns of independent standard normal
numbers. All entries of N are uncorrelated, with variance (n+1)/2 off the diagonal and n+1 on it.

Formal guarantee. Let A be a symmetric n x n matrix computed from the records, and let a neighboring change move it by
P - Q, for positive semidefinite P and Q. Then publishing A + scale N costs epsilon = (tr P + tr Q) / scale. (A record
with vector u adds u u', of trace |u|^2; replacing it also takes away another one's.) Proof. W has the Wishart density
of n+1 degrees of freedom, proportional to det(W)^0 e^(-tr W) on the cone of positive semidefinite matrices. So W1 - W2
has the density

    f(N) = c e^(tr N) times the integral of e^(-2 tr W) over all W with W >= 0 and W >= N.

For P >= 0 the set {W >= N + P} lies in {W >= N}, so f(N + P) <= e^(tr P) f(N). f is even, as N and -N have one law; so
f(N - Q) = f(Q - N) <= e^(tr Q) f(-N) = e^(tr Q) f(N). Together f(N + P - Q) <= e^(tr P + tr Q) f(N), and dividing by
the scale gives the claim. Rows are entries of A times a known constant, which makes them whole numbers q. Then
q + Round(z) = Round(q + z), and leaving out entries, multiplying and rounding are post-processing. The draws of the
rounded noise are exact, so this guarantee is theirs.

How it is drawn. Normal deviates have digits that are drawn as needed (`lazy_normal`). Cut to 48 bits behind the point
and split in two parts of 24, their sums of products are whole numbers of 64 bits (`_products`), with a bound on what
was cut off; so are these times a constant (`rounded_gaussian`). Where the bounds do not round alike, more digits are
taken, in whole numbers of any size. No float takes part.

See THEORY section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import isqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import GuaranteeError
from privcube.model.noise.limits import SQUARED_FACTORS
from privcube.sensitive.noise.bits import Source, system_words
from privcube.sensitive.noise.lazy_normal import MOST_CELLS, NormalDeviates, nearest_whole
from privcube.sensitive.noise.rounded_gaussian import upper_half

Integers = NDArray[np.int64]

_MOST_DIMENSIONS: Final = 1024
_AT_ONCE: Final = 2**21  # normal deviates worked out together, for the sake of memory
_PART: Final = 24  # bits; a deviate has two parts behind the point
_LEAST_BITS: Final = 2 * _PART  # behind the point of a sum of products


def gram_noise(
    dimension: int,
    left: Integers,
    right: Integers,
    squares: Sequence[Fraction],
    which: Integers,
    source: Source = system_words,
) -> Integers:
    """The nearest whole numbers to f N[left, right], for each entry wanted, with f^2 = squares[which].

    >>> upper = np.triu_indices(3)
    >>> len(gram_noise(3, *upper, [Fraction(100)], np.zeros(6, dtype=np.int64)))
    6
    """
    return np.asarray(gram_slices(dimension, left, right, squares, which, 1, source)[0])


def gram_slices(
    dimension: int,
    left: Integers,
    right: Integers,
    squares: Sequence[Fraction],
    which: Integers,
    count: int,
    source: Source = system_words,
) -> Integers:
    """Independent draws, one for each slice: a row for each."""
    check_gram(dimension, squares)
    for name, places, end in (("left", left, dimension), ("right", right, dimension), ("which", which, len(squares))):
        if len(places) != len(left) or np.any((places < 0) | (places >= end)):
            raise GuaranteeError(f"entries of a Gram matrix, {name}", expected=f"numbers from 0 to {end - 1} for each")
    columns = 2 * (dimension + 1)
    step = max(1, _AT_ONCE // (dimension * columns))
    found = [np.zeros((0, len(left)), dtype=np.int64)]
    for first in range(0, count, step):
        draws = min(step, count - first)
        matrices = _Matrices(NormalDeviates.draw(draws * dimension * columns, source), draws, dimension)
        found.append(matrices.rounded(left, right, squares, which))
    return np.concatenate(found)


def check_gram(dimension: int, squares: Sequence[Fraction]) -> None:
    """Refuse what the sampler is not built for."""
    if not 1 <= dimension <= _MOST_DIMENSIONS:
        raise GuaranteeError("dimension of a Gram matrix", expected=f"1 to {_MOST_DIMENSIONS:,}", given=dimension)
    for square in squares:
        SQUARED_FACTORS.check(square)


@dataclass(frozen=True)
class _Matrices:
    """Some draws of 2 N, each known from normal deviates: those of G1, then those of G2, row by row."""

    deviates: NormalDeviates
    draws: int
    dimension: int

    @property
    def _columns(self) -> int:
        return 2 * (self.dimension + 1)

    def rounded(self, left: Integers, right: Integers, squares: Sequence[Fraction], which: Integers) -> Integers:
        """The nearest whole numbers to f N for each draw and entry.

        2 N 2^bits is from x - e to x + e (`_products`). With b = floor(f/2 2^s) < 2^64, |f N| 2^(bits+s) is at least
        (|x| - e) b, and less than (|x| + e)(b + 1) = (|x| - e) b + 2 e b + |x| + e, where |x| + e < 2^64. So in units
        of 2^64 it is at least H = floor((|x| - e) b / 2^64) and less than H + 2 + 2 e. If |x| < e, it is from 0 to the
        same with H = 0. If both round to one number above 0, then |x| > e, and the sign is that of x.
        """
        bits, product, error = self._products()
        x, e = product[:, left, right], error[:, left, right]
        size = np.abs(x)
        scaled = [_scaled(square, bits) for square in squares]
        point = np.array([each[0] for each in scaled], dtype=np.uint64)[which]
        factor = np.array([each[1] for each in scaled], dtype=np.uint64)[which]
        lowest = upper_half(np.maximum(size - e, 0).astype(np.uint64), np.broadcast_to(factor, size.shape))
        half, cut = np.uint64(1) << point - np.uint64(1), (2 * e + 2).astype(np.uint64)
        least, most = lowest + half >> point, lowest + cut + half >> point
        found = np.where(x < 0, -least.astype(np.int64), least.astype(np.int64))
        for draw, at in np.argwhere((least != most) | (e < 0)).tolist():
            entry = draw, int(left[at]), int(right[at])
            found[draw, at] = nearest_whole(partial(self._bounds, entry, squares[int(which[at])]))
        return np.asarray(found, dtype=np.int64)

    def _products(self) -> tuple[int, Integers, Integers]:
        """bits, x and e with |2 N 2^bits - x| <= e < 2^40; e is -1 where nothing is known.

        A deviate Z is cut to Z' = (a 2^24 + b) 2^-48 towards 0, with |a| < 900 2^18 and |b| < 2^24. The sum of products
        of two rows of at most 2050 columns is A 2^-48 + (B + C) 2^-72 + D 2^-96, for sums of products A of a and a, B
        and C of a and b, D of b and b. |B| and |C| are below 2050 900 2^42 < 2^63, and |D| is below 2050 2^48. A may
        exceed 64 bits. But the result, in units of 2^-bits with bits >= 48, is below 2^62 in size, since |2 N| is at
        most the largest sum of Z^2 in a row (Cauchy and Schwarz), and bits are chosen so that 2^(62 - bits) is more. So
        it is right to work modulo 2^64, as numpy does with arrays of whole numbers.

        Cutting B, C and D to units of 2^-bits loses less than 3. And |Z_i Z_k - Z'_i Z'_k| <= 2^-48 (|Z_i| + |Z_k|): in
        all 2^-48 times the sum of sizes in both rows.
        """
        shape = self.draws, self.dimension, self._columns
        known = (self.deviates.cell < MOST_CELLS).reshape(shape)
        cell = np.where(known, self.deviates.cell.reshape(shape), 0)
        most = int(((cell + 1) ** 2).sum(axis=2).max(initial=1) >> 12) + 1  # above the sum of Z^2 in any row
        bits = 62 - most.bit_length()
        if bits < _LEAST_BITS:  # never in practice: deviates would all have to be far too large
            nothing = np.zeros((self.draws, self.dimension, self.dimension), dtype=np.int64)
            return _LEAST_BITS, nothing, nothing - 1
        fixed = cell << 2 * _PART - 6 | (self.deviates.word.reshape(shape) >> np.uint64(70 - 2 * _PART)).astype(
            np.int64
        )
        sign = np.where(self.deviates.minus.reshape(shape), -1, 1)
        high, low = (fixed >> _PART) * sign, (fixed & (1 << _PART) - 1) * sign
        second = np.where(np.arange(self._columns) < self.dimension + 1, 1, -1)  # W2 counts with a minus
        of_high, mixed = _gram(high, high * second), _gram(high, low * second)
        product = (of_high << bits - 2 * _PART) + (mixed >> 3 * _PART - bits)
        product += (mixed.transpose(0, 2, 1) >> 3 * _PART - bits) + (_gram(low, low * second) >> 4 * _PART - bits)
        sums = (cell + 1).sum(axis=2) << bits - 2 * _PART  # at least the sum of |Z|, in units of 2^-6
        error = (sums[:, :, None] + sums[:, None, :] >> 6) + 4
        some = np.asarray(known.all(axis=2))
        return bits, product, np.where(some[:, :, None] & some[:, None, :], error, -1)

    def _bounds(self, entry: tuple[int, int, int], square: Fraction, bits: int) -> tuple[int, int]:
        """Bounds on f N at an entry of a draw, in units of 2^-bits."""
        draw, *rows = entry
        fine = bits + isqrt(int(square)).bit_length() + self._columns.bit_length() + 8
        low = high = 0
        first, second = ((draw * self.dimension + row) * self._columns for row in rows)
        for column in range(self._columns):
            one, other = (self.deviates.signed(start + column, fine) for start in (first, second))
            ends = [a * b for a in one for b in other]
            least, most = (min(ends), max(ends)) if column <= self.dimension else (-max(ends), -min(ends))
            low, high = low + least, high + most
        return _times_root(low, square, 2 * fine - bits), _times_root(high, square, 2 * fine - bits) + 1


def _gram(left: Integers, right: Integers) -> Integers:
    """left right', for every draw."""
    return np.asarray(np.einsum("dik,djk->dij", left, right))


def _scaled(square: Fraction, bits: int) -> tuple[int, int]:
    """The bits behind the point of a product, and floor(f/2 2^s) < 2^64, for an s that leaves at least 2^62 of it.

    But there are at most 61 such bits, so that a half can be added without overflow.
    """
    whole = square.numerator.bit_length() - square.denominator.bit_length() + 1  # 2^(whole-2) < square < 2^whole
    s = min(125 - bits, (130 - whole) // 2)
    return bits + s - 64, isqrt(int(square * Fraction(4) ** (s - 1)))


def _times_root(number: int, square: Fraction, shift: int) -> int:
    """floor(number sqrt(square) / 2 / 2^shift), or one less if the number is negative."""
    root = isqrt(int(square * Fraction(number**2, 4))) >> shift
    return root if number >= 0 else -root - 1
