"""Starting points for the search for groups and bundles: plans that are good for some workloads. Zone: PUBLIC.

Each is a list of bundles:
- base counts of the attributes in use;
- the wanted tables, or the largest of them, separately, in one bundle, or in stars of tables that share an attribute;
- one group per residual, contrasts where an axis allows, bundled by the number of attributes (Fourier coefficients), or
  all in one bundle with the cells of the attribute that most tables have;
- coverings, fewer tables that contain all wanted ones: greedy ones of several sizes, and the hyperplanes of a finite
  projective space. Any t points of PG(t, q) lie in a hyperplane, so if attributes are assigned to points in turn, the
  hyperplanes cover all t-way tables. PG(2, q) without a line is the affine plane; q = 1 stands for the thin space of
  t + 1 points, in which a hyperplane omits one point.

See THEORY section 3.2.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import log, prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.lattice import Integers
from privcube.model.groups import QueryGroup, cells_groups
from privcube.model.workload import Workload
from privcube.planning.search.closed_form import Bundle, Choice, Choices
from privcube.progress import Check, never

MOST_ROWS: Final = 2**20  # of one group, so that a release stays small
MOST_GROUPS: Final = 3_000  # groups of residuals, or tables compared in pairs; more take too long for a start
MOST_ENTRIES: Final = 2_000_000  # bundles times residuals of a start: 16 MB per plan
_MOST_COVERED: Final = 1_500  # tables; greedy coverings of more take too long
_TRIES: Final = 2  # random growths per table of a covering, of which the best is kept
_GROWTH: Final = 100e-6  # price in seconds of a growth,
_GROWTH_OF_ENTRY: Final = 3e-9  # and of tables times axes in it
_ORDERS: Final = (1, 2, 3, 4, 5)  # of projective spaces: 1 and the four smallest prime powers
_FOUR: Final = np.array([[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]])  # products in the field of four
_NO_LEVEL: Final = 2**15 - 1  # above all levels


def starts(
    choices: Choices,
    workload: Workload,
    coverings: int,
    seconds: float,
    also: Iterable[Iterable[Iterable[QueryGroup]]] = (),
    check: Check = never,
) -> list[list[Bundle]]:
    """Plans to start from; `also` are further plans to include.

    There are so many greedy coverings, or as many as can be made in these seconds.
    """
    wanted = list(dict.fromkeys(choices.choice(group) for group in cells_groups(choices.frame, workload)))
    largest = _largest(wanted)
    base = tuple(np.array(wanted).max(axis=0).tolist())
    found = [[list(dict.fromkeys(map(choices.choice, bundle))) for bundle in bundles] for bundles in also]
    for tables in (wanted, largest):
        found += [[[table] for table in tables], [list(tables)], stars(choices, tables)]
    if choices.residuals <= MOST_GROUPS:
        residuals = residual_groups(choices)
        found += [residuals, _in_slices(residuals, wanted)]
    for cover in itertools.chain(_designs(choices, largest), _coverings(choices, largest, coverings, seconds)):
        check()
        found += [[[table] for table in cover], [cover], stars(choices, cover)]
    limit = max(MOST_ROWS, *(choices.facts(table).rows for table in wanted))
    return [[[base]]] + [
        start
        for start in found
        if len(start) * choices.residuals <= MOST_ENTRIES
        and all(choices.facts(choice).rows <= limit for bundle in start for choice in bundle)
    ]


def _largest(tables: Sequence[Choice]) -> list[Choice]:
    """The tables not contained in another; comparing options works because those of cells are ordered by level."""
    levels = np.array(tables)
    if len(tables) > MOST_GROUPS:
        return list(tables)
    inside = [(np.all(row <= levels, axis=1) & np.any(row < levels, axis=1)).any() for row in levels]
    return [table for table, part in zip(tables, inside, strict=True) if not part]


def stars(choices: Choices, tables: Sequence[Choice]) -> list[Bundle]:
    """Bundles of tables that share an attribute, starting with the largest attribute."""
    left = list(tables)
    bundles = []
    for axis in sorted(range(len(choices.options)), key=lambda at: -choices.frame.sizes[at][-1]):
        bundle = [table for table in left if table[axis]]
        if len(bundle) > 1:
            bundles.append(bundle)
            left = [table for table in left if not table[axis]]
    return bundles + [[table] for table in left]


def residual_groups(choices: Choices, which: Iterable[int] | None = None) -> list[Bundle]:
    """A group for every residual, or some of them, bundled by the number of axes."""
    option = [
        {part.level: at for at, part in enumerate(found.part for found in options) if part is not None}
        for options in choices.options
    ]  # the last option of a level: its contrasts, if it has any
    bundles: defaultdict[int, Bundle] = defaultdict(list)
    for levels in (choices.levels if which is None else choices.levels[list(which)]).tolist():
        choice = tuple([option[axis][level] if level else 0 for axis, level in enumerate(levels)])
        bundles[sum(map(bool, levels))].append(choice)
    return list(bundles.values())


def _in_slices(residuals: Sequence[Bundle], tables: Sequence[Choice]) -> list[Bundle]:
    """One bundle of the residuals' groups, each combined with the cells of the axis that most tables have."""
    levels = np.array(tables)
    axis = int(np.argmax((levels > 0).sum(axis=0)))
    cells = int(levels[:, axis].max())
    groups = [group for bundle in residuals for group in bundle]
    return [[(*group[:axis], cells, *group[axis + 1 :]) for group in groups if not group[axis]]]


# Coverings


def _coverings(choices: Choices, tables: Sequence[Choice], count: int, seconds: float) -> Iterator[list[Choice]]:
    """Greedy coverings by tables of limited size, for several limits from the size of the largest wanted table up."""
    if len(tables) > _MOST_COVERED:
        return
    generator = random.Random(1)
    least = max(choices.facts(table).rows for table in tables)
    most = min(MOST_ROWS, prod(sizes[-1] for sizes in choices.frame.sizes), 4096 * least)
    for number in range(count):
        limit = least * (most / least) ** (number % 8 / 8)
        cover = _cover(choices, np.array(tables), limit * (1 + 1e-9), generator)
        yield cover
        seconds -= len(cover) * _TRIES * (_GROWTH + _GROWTH_OF_ENTRY * np.size(tables))
        if seconds < 0:
            return


def _cover(choices: Choices, tables: Integers, limit: float, generator: random.Random) -> list[Choice]:
    """Tables of at most `limit` cells that contain all the given ones, each chosen to contain many new ones."""
    left, cover = tables, []
    while len(left):
        tried = [_grown(choices, left, limit, generator) for _ in range(_TRIES)]
        best = max(tried, key=lambda choice: int(np.all(left <= choice, axis=1).sum()))
        cover.append(tuple(best.tolist()))
        left = left[~np.all(left <= best, axis=1)]
    return cover


def _grown(choices: Choices, left: Integers, limit: float, generator: random.Random) -> Integers:
    """A random table that is left, with axes added as long as it stays within the limit."""
    choice = left[generator.randrange(len(left))].copy()
    rows, by_axis = choices.facts(tuple(choice.tolist())).rows, left.T.astype(np.int16, order="C")
    while True:
        missing = by_axis > choice[:, None]
        short_of = missing.sum(axis=0, dtype=np.int16)
        short_by = np.stack([short_of == 1, short_of == 2], axis=1).astype(np.float32)
        gains = (missing.astype(np.float32) @ short_by).astype(np.float64) @ [1.0, 0.1]
        levels = np.where(missing, by_axis, _NO_LEVEL).min(axis=1).tolist()
        best, most = None, 0.0
        for axis, gain in enumerate(gains.tolist()):
            if gain:
                options = choices.options[axis]
                grown = rows // options[choice[axis]].rows * options[levels[axis]].rows
                if grown <= limit:
                    value = gain / (log(grown / rows) or 1.0) * (1 + 0.2 * generator.random())
                    if value > most:
                        best, most, next_rows = axis, value, grown
        if best is None:
            return np.asarray(choice)
        choice[best], rows = levels[best], next_rows


def _designs(choices: Choices, tables: Sequence[Choice]) -> Iterator[list[Choice]]:
    """Coverings by hyperplanes of projective spaces, with the finest level that any table uses on each axis."""
    finest = np.array(tables).max(axis=0)
    used = np.flatnonzero(finest).tolist()
    most = max(sum(map(bool, table)) for table in tables)
    rows = [choices.options[axis][finest[axis]].rows for axis in used]
    order = [axis for _, axis in sorted(zip(rows, used, strict=True), reverse=True)]
    for q in _ORDERS:
        if most < 1 or (q > 1 and q ** (most + 1) > 4096):
            continue
        points, planes = _projective_space(most, q)
        blocks = set()
        for plane in planes:
            block = [0] * len(finest)
            for number, axis in enumerate(order):
                if number % points in plane:
                    block[axis] = int(finest[axis])
            if any(block):
                blocks.add(tuple(block))
        if len(blocks) > 1:
            yield _largest(sorted(blocks))


@lru_cache(maxsize=64)
def _projective_space(dimension: int, q: int) -> tuple[int, tuple[frozenset[int], ...]]:
    """The number of points of PG(dimension, q), and its hyperplanes; the points of the first hyperplane come last.

    >>> [(points, len(planes), len(planes[0])) for points, planes in map(_projective_space, [2] * 3, [1, 2, 4])]
    [(3, 3, 2), (7, 7, 3), (21, 21, 5)]
    """
    if q == 1:
        all_points = frozenset(range(dimension + 1))
        return len(all_points), tuple(all_points - {left_out} for left_out in sorted(all_points))
    vectors = itertools.product(range(q), repeat=dimension + 1)
    normal = np.array([vector for vector in vectors if next((x for x in vector if x), 0) == 1])
    on_first = _meet(normal[:1], normal, q)[0]
    order = normal[np.argsort(on_first, kind="stable")]
    planes = [frozenset(np.flatnonzero(points).tolist()) for points in _meet(normal, order, q)]
    return len(order), tuple(planes)


def _meet(planes: Integers, points: Integers, q: int) -> NDArray[np.bool_]:
    """Plane x point: whether they meet."""
    if q != 4:
        return np.asarray(planes @ points.T % q == 0)
    products = _FOUR[planes[:, None, :], points[None, :, :]]
    return np.asarray(np.bitwise_xor.reduce(products, axis=2) == 0)
