"""Max-norm noise of any width: drawn in real numbers, every group rounded in its own unit. Zone: SENSITIVE.

Formal guarantee. Group g counts records in parts of its own (`privcube.model.measures.units`): its answers are whole
numbers x_g. Let N(z) = max over groups of |z_g|_1 / s_g with scales s_g. If a neighboring change moves every group by
at most D s_g in L1, adding this noise costs epsilon = D. Proof. Z of density proportional to exp(-N(z)), added to x,
has density exp(-N(y - x)) at y, up to a constant. A change moves x by d with N(d) <= D, so by the triangle inequality
the densities at any y differ by a factor of at most exp(D) (a K-norm mechanism, Hardt and Talwar 2010). As answers are
whole numbers, x + Round(Z) = Round(x + Z) row by row, and rounding is post-processing. The draws of Round(Z) are exact,
so this guarantee is theirs.

How it is drawn. It is the draw of `privcube.sensitive.noise.section` for free groups alone. Z_g = s_g r y_g with y
uniform on the body where every group has an L1 norm of at most 1, of dimension m, and r the sum of m + 1 exponential
numbers. A uniform point of the L1 ball of n rows has the gaps before n uniform points on [0, 1] as absolute values, and
free signs. All m points in rising order, times r, are the sums of the first 1, 2, ..., m of m + 1 independent
exponential numbers, whose last one is not needed; which group they belong to is a uniform order. So a row is s_g times
the sum of some of these numbers, rounded exactly (`sums`).

The whole-number law of `privcube.sensitive.noise.max_norm` has one unit for all groups, and its draws take time in
proportion to the scale. This one costs the same and may have any scale; rounding adds 1/12 to a variance.

See THEORY sections 3 and 14.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import GuaranteeError
from privcube.sensitive.noise.bits import Source, system_words
from privcube.sensitive.noise.section.arrangement import free_rows, uniform_places
from privcube.sensitive.noise.section.lazy_exponential import ExponentialDeviates
from privcube.sensitive.noise.section.sums import Sums, check_wide_scale

_MOST_ROWS: Final = 8192
_AT_ONCE: Final = 2**17  # rows worked out together, for the sake of memory


def rounded_max_norm_slices(
    scales: Sequence[Fraction], sizes: Sequence[int], count: int, source: Source = system_words
) -> list[NDArray[np.int64]]:
    """Independent draws for groups of these scales and sizes: for every group an array with a row for each draw.

    >>> [rows.shape for rows in rounded_max_norm_slices([Fraction(2), Fraction(200)], [1, 3], 5)]
    [(5, 1), (5, 3)]
    """
    check_rounded_bundle(scales, sizes)
    rows = sum(sizes)
    step = max(1, _AT_ONCE // rows)
    drawn = [_drawn(scales, sizes, min(step, count - first), source) for first in range(0, count, step)]
    whole = np.concatenate([np.zeros((0, rows), dtype=np.int64), *drawn])
    return np.split(whole, np.cumsum(sizes)[:-1], axis=1)


def check_rounded_bundle(scales: Sequence[Fraction], sizes: Sequence[int]) -> None:
    """Refuse what the sampler is not built for."""
    for scale in scales:
        check_wide_scale(scale)
    if not sizes or min(sizes) < 1 or len(scales) != len(sizes) or sum(sizes) > _MOST_ROWS:
        expected = f"groups of at least one row, at most {_MOST_ROWS:,} in all, each with its scale"
        raise GuaranteeError("bundle", expected=expected, given=list(sizes)[:5])


def _drawn(scales: Sequence[Fraction], sizes: Sequence[int], draws: int, source: Source) -> NDArray[np.int64]:
    """All rows, in a row for each draw."""
    points = sum(sizes)
    start, end, minus = free_rows(sizes, uniform_places(draws, points, source), source)
    sums = Sums(ExponentialDeviates.draw(draws * points, source), points, draws)
    found = []
    for scale, last, size in zip(scales, np.cumsum(sizes).tolist(), sizes, strict=True):
        own = slice(last - size, last)
        found.append(sums.rounded(scale, start[:, own], end[:, own], np.full((draws, size), points)))
    drawn = np.concatenate(found, axis=1)
    return np.where(minus, -drawn, drawn)
