"""Noise on the consistent section of a bundle: all groups of cells have one sum, in whole numbers. Zone: SENSITIVE.

Formal guarantee. The answers of a bundle are a number t, the total, and groups of whole numbers: of cells, "bound",
whose rows sum to t, and of contrasts, "free". If a neighboring change moves t by at most D, every group by at most D
in L1, and the bound groups so that each of them still sums to t, then adding this noise costs epsilon = D/scale.
Proof. Let L be the linear space in which every bound group sums to t, and N(z) = max(|t|, max over groups of |z_g|_1),
a norm on it. Continuous noise Z of density proportional to exp(-N(z)/scale) on L, added to answers x in L, has density
exp(-N(y - x)/scale) at y, up to a constant. A change moves x within L by d with N(d) <= D, so by the triangle
inequality the densities at any y differ by a factor of at most exp(D/scale) (a K-norm mechanism, Hardt and Talwar
2010). Answers are whole numbers, so x + Round(Z) = Round(x + Z), row by row, and rounding is post-processing: it costs
nothing. The draws of Round(Z) are exact, so this guarantee is theirs.

How it is drawn. Z = scale r y with y uniform on the body {N <= 1} of L, of dimension m, and r the sum of m + 1
exponential numbers. By symmetry let t >= 0. Consider a bound group of n rows given t. If its positive rows are k many,
they are a uniform point of a simplex of size t + q and the others one of size q, for some q <= (1-t)/2: gaps between
k-1 uniform points on [0, t+q], and between n-k-1 on [0, q]. So the density of (t, q, points) is 1. Let j of the k-1
points lie in [0, t]. The others, those of [0, q] and q itself are n-1-j points on [0, (1-t)/2] of which q is the last:
stretched by two and moved by t, they lie on [t, 1]. That is, n-1 points fall on [0, 1] at random, and j of them lie
below t. The stretch gives a factor 2^-(n-1-j), and the number of choices which rows are negative, and which of the
points above t but for the last belong to the positive rows, is the sum over k of C(n, n-k) C(n-2-j, k-1-j) =
C(2n-2-j, n-1-j): a uniform subset of n-1-j of n + n-2-j things. So the whole draw is:

    J, how many of all points of bound groups lie below t, and how many of each group (`crossings`), with weights
        prod_g 2^-(n_g-1-j_g) C(2 n_g-2-j_g, n_g-1) for each way to say which ones do;
    uniform orders and subsets: between which points each row lies (`arrangement`); points of a free group of n rows,
        n of them, fall anywhere, its rows are the gaps before them, and their signs are free;
    the points in rising order, times r: the sums of the first 1, 2, ..., m of independent exponential numbers
        (`lazy_exponential`).

A row is scale/2 times a sum of some of these numbers, twice those before t: 2 E_a + ... + 2 E_t + E_(t+1) + ... + E_b.
It is worked out in whole numbers of 64 bits with a bound on what was cut off; where the bounds do not round alike, from
more digits (`sums`). No float takes part.

See THEORY section 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import GuaranteeError
from privcube.sensitive.noise.bits import Source, system_words
from privcube.sensitive.noise.section.arrangement import Layout
from privcube.sensitive.noise.section.crossings import points_below
from privcube.sensitive.noise.section.lazy_exponential import ExponentialDeviates
from privcube.sensitive.noise.section.sums import Sums, check_wide_scale

_MOST_ROWS: Final = 8192
_AT_ONCE: Final = 2**17  # rows worked out together, for the sake of memory


def section_noise(
    scale: Fraction, bound: Sequence[int], free: Sequence[int], source: Source = system_words
) -> list[NDArray[np.int64]]:
    """One draw for groups of these sizes: an array with t alone, one for every bound group, one for every free group.

    >>> [len(rows) for rows in section_noise(Fraction(2), [3, 5], [1, 4])]
    [1, 3, 5, 1, 4]
    """
    return [rows[0] for rows in section_slices(scale, bound, free, 1, source)]


def section_slices(
    scale: Fraction, bound: Sequence[int], free: Sequence[int], count: int, source: Source = system_words
) -> list[NDArray[np.int64]]:
    """Independent draws, one for each slice: arrays like those of `section_noise` with a row for each draw."""
    check_section(scale, bound, free)
    layout = Layout(tuple(bound), tuple(free))
    rows = sum(bound) + sum(free)
    step = max(1, _AT_ONCE // (rows + 1))
    drawn = [_drawn(scale, layout, min(step, count - first), source) for first in range(0, count, step)]
    whole = np.concatenate([np.zeros((0, rows + 1), dtype=np.int64), *drawn])
    return np.split(whole, np.cumsum([1, *bound, *free])[:-1], axis=1)


def check_section(scale: Fraction, bound: Sequence[int], free: Sequence[int]) -> None:
    """Refuse what the sampler is not built for."""
    check_wide_scale(scale)
    if not [*bound, *free] or min([2, *bound]) < 2 or min([1, *free]) < 1:
        raise GuaranteeError(
            "bundle on its section",
            expected="groups of cells of at least two rows and groups of contrasts of at least one",
            given=[list(bound)[:5], list(free)[:5]],
        )
    if sum(bound) + sum(free) > _MOST_ROWS:
        raise GuaranteeError(
            "bundle on its section", expected=f"at most {_MOST_ROWS:,} rows", given=sum(bound) + sum(free)
        )


def _drawn(scale: Fraction, layout: Layout, draws: int, source: Source) -> NDArray[np.int64]:
    """t and all rows, in a row for each draw."""
    below = points_below(layout.bound, draws, source)
    found = layout.arranged(below, source)
    exponentials = ExponentialDeviates.draw(draws * layout.points, source)
    flip = np.unpackbits(source(-(-draws // 64)).view(np.uint8))[:draws, None] == 1
    t, cells = found.total[:, None], sum(layout.bound)
    start = np.concatenate([np.zeros_like(t), found.start], axis=1)
    end = np.concatenate([t, found.end], axis=1)
    # up to here numbers count twice: for free rows all do
    twice = np.concatenate([np.repeat(t, 1 + cells, axis=1), np.full((draws, sum(layout.free)), layout.points)], axis=1)
    sums = Sums(exponentials, layout.points, draws)
    size = sums.rounded(scale, start, end, twice)
    minus = np.concatenate([flip, found.minus[:, :cells] ^ flip, found.minus[:, cells:]], axis=1)
    return np.where(minus, -size, size)
