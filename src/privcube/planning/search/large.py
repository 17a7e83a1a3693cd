"""Bundlings for workloads too large to search: thousands of tables over many attributes. Zone: PUBLIC.

Where many tables overlap, their common parts are known accurately, and nearly all of the error of a table is in the
residual of all its attributes, a part prod (1 - 1/n) of the variance of a cell. If a table of weight w is answered from
a group of r rows with variance v each, that amounts to w r prod (1 - 1/n) v over all its cells. So bundlings are
compared by c_g, the sum of this over the tables that g answers, at the best shares e for them (cube roots,
`privcube.algebra.budgets`), and a bundling is dropped if its noise would be too wide to be drawn. The best few of the
rest are evaluated exactly by `privcube.planning.search.search`.

- *Single tables*, always evaluated.
- *Stars*: tables that share their largest attribute, or all but one attribute. With n rows of a table in a slice, a
  bundle has (n+1)(n+2) / n^2 times less variance than its tables alone, so fewer rows are better.
- *Halves*: if attributes are split into two halves, two of any three are in the same half, and such pairs are half of
  all pairs. So there are half as many stars as above, twice as large, and their noise is half as wide.
- *Closed blocks*: attributes are numbered, and the k attributes of a table are joined by the one whose number is the
  exclusive or of theirs. The k + 1 numbers have exclusive or 0, so each k of them lead to the same block, which holds
  k + 1 tables at once (for k = 3 and 2^n attributes the Boolean Steiner quadruple system, for k = 2 and 2^n - 1 the
  lines of PG(n-1, 2)).
- *Fourier coefficients*, bundled by their number of attributes, if all attributes are binary.

See THEORY section 3.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import inf, prod
from operator import xor

import numpy as np

from privcube.accuracy.structure import WorkloadIndex
from privcube.algebra.lattice import Floats
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup, cells_groups, group_rows
from privcube.model.noise.bundles import MOST_ON_SECTION
from privcube.model.privacy.guarantee import PureDP
from privcube.model.slices import largest_scale
from privcube.model.workload import Workload

Bundles = list[list[QueryGroup]]


@dataclass(frozen=True)
class _Bundling:
    """Bundles of groups, with two numbers per group of each bundle."""

    bundles: Bundles
    needs: list[Floats]  # c_g: the error per unit of the group's variance
    rows: list[Floats]  # of the group, in a slice


def bundlings(workload: Workload, guarantee: PureDP, frame: Frame, index: WorkloadIndex, count: int) -> list[Bundles]:
    """The tables separately, followed by the given number of most promising bundlings."""
    weights: defaultdict[QueryGroup, float] = defaultdict(float)
    for table, weight in zip(cells_groups(frame, workload), workload.weights, strict=True):
        weights[table] += weight
    promises = []
    for candidate in _candidates(workload, frame, index, weights):
        promise = _promise(candidate, guarantee)
        if promise is not None:
            promises.append((promise, candidate.bundles))
    promises.sort(key=lambda each: each[0])
    return [[[table] for table in weights], *(bundles for _, bundles in promises[:count])]


def _promise(candidate: _Bundling, guarantee: PureDP) -> float | None:
    """The approximate error of a bundling at its best budgets; None if its noise is too wide to be drawn exactly."""
    sums, widest = [], []
    for needs, rows in zip(candidate.needs, candidate.rows, strict=True):
        if len(needs) == 1:
            sums.append(float(needs[0]))
            widest.append(inf)
        else:
            total = float(rows.sum())
            sums.append(float(np.sum(needs * (total + 1) * (total + 2) / ((rows + 1) * (rows + 2)))))
            widest.append(inf if total <= MOST_ON_SECTION else largest_scale(int(total)))
    roots = np.cbrt(np.array(sums))
    scales = float(guarantee.rows_changed / guarantee.epsilon) * roots.sum() / roots
    return None if np.any(scales > np.array(widest)) else float(roots.sum()) ** 3


def _candidates(
    workload: Workload, frame: Frame, index: WorkloadIndex, weights: dict[QueryGroup, float]
) -> Iterator[_Bundling]:
    place = {axis: at for at, axis in enumerate(sorted(range(len(frame.sizes)), key=lambda a: -frame.sizes[a][-1]))}
    rows = {part: group_rows(frame, (part,)) for part in {part for table in weights for part in table}}
    needs = {table: weight * _own(rows, table) for table, weight in weights.items()}
    axes = {table: sorted([part.axis for part in table], key=place.__getitem__) for table in weights}
    yield _stars(needs, rows, lambda table: tuple(axes[table][:1]))
    yield _stars(needs, rows, lambda table: tuple(axes[table][:-1]))
    yield _stars(needs, rows, lambda table: _in_a_half(axes[table], place))
    if (blocks := _closed_blocks(rows, weights)) is not None:
        alone = [np.ones(1)] * len(blocks)
        yield _Bundling([[block] for block in blocks], [np.array([need]) for need in blocks.values()], alone)
    if all(chain == (2,) for chain in frame.fan_outs):
        yield _fourier(workload, frame, index)


def _own(rows: dict[GroupPart, int], table: QueryGroup) -> int:
    """The rows of a table times the part of its variance in the residual of all its attributes."""
    return prod([rows[part] - 1 for part in table])


def _stars(
    needs: dict[QueryGroup, float], rows: dict[GroupPart, int], center: Callable[[QueryGroup], tuple[int, ...]]
) -> _Bundling:
    """Bundles of tables with the same center; `center` gives the axes of a table's center."""
    stars: defaultdict[tuple[int, ...], list[QueryGroup]] = defaultdict(list)
    for table in needs:
        stars[center(table)].append(table)
    outside = [
        np.array([prod([rows[part] for part in table if part.axis not in axes]) for table in star], dtype=np.float64)
        for axes, star in stars.items()
    ]
    return _Bundling(
        list(stars.values()), [np.array([needs[table] for table in star]) for star in stars.values()], outside
    )


def _in_a_half(axes: Sequence[int], place: dict[int, int]) -> tuple[int, ...]:
    """Of three attributes, two in the same half (even or odd places); of any other number, all but the last."""
    if len(axes) != 3:
        return tuple(axes[:-1])
    odd = [place[axis] & 1 for axis in axes]
    if odd[0] == odd[1] == odd[2]:
        left_out = sum(place[axis] for axis in axes) % 3  # spreads the choice about evenly
    else:
        left_out = odd.index(1) if sum(odd) == 1 else odd.index(0)
    return (*axes[:left_out], *axes[left_out + 1 :])


def _closed_blocks(rows: dict[GroupPart, int], weights: dict[QueryGroup, float]) -> dict[QueryGroup, float] | None:
    """Blocks of one more attribute than the largest tables, and tables without such a block, with their needs.

    None if an attribute is used at several levels, as the parts of a block would be ambiguous.
    """
    part_of = {part.axis: part for part in rows}
    if len(part_of) < len(rows):
        return None
    size = max(map(len, weights))
    number_of = {axis: at + 1 - size % 2 for at, axis in enumerate(sorted(part_of))}  # 0 is unused if k is even
    axis_of = {number: axis for axis, number in number_of.items()}
    block_of: dict[tuple[int, ...], QueryGroup] = {}
    blocks: defaultdict[QueryGroup, float] = defaultdict(float)
    for table, weight in sorted(weights.items(), key=lambda each: -len(each[0])):
        axes = tuple(sorted([part.axis for part in table]))
        if axes not in block_of:
            last = axis_of.get(reduce(xor, [number_of[axis] for axis in axes], 0)) if len(axes) == size else None
            closed = axes if last is None else sorted([*axes, last])
            block = tuple([part_of[axis] for axis in closed])
            for way in range(len(closed) + 1):
                for subset in combinations(closed, way):
                    block_of.setdefault(subset, block)
        block = block_of[axes]
        blocks[block] += weight * _own(rows, table) * prod([rows[part] for part in block if part not in table])
    return dict(blocks)


def _fourier(workload: Workload, frame: Frame, index: WorkloadIndex) -> _Bundling:
    """The Fourier coefficients, bundled by their number of attributes; their needs are exact."""
    cells = np.array(workload.sizes, dtype=np.float64)
    importance = index.asks.transposed_times(np.array(workload.weights) * cells)
    bundles: defaultdict[int, list[QueryGroup]] = defaultdict(list)
    needs: defaultdict[int, list[float]] = defaultdict(list)
    for residual, need in zip(index.residuals.residuals(), importance.tolist(), strict=True):
        bundles[len(residual)].append(tuple([GroupPart(axis, level, "contrast") for axis, level in residual]))
        needs[len(residual)].append(need)
    numbers = [np.array(each) for each in needs.values()]
    return _Bundling(list(bundles.values()), numbers, [np.ones(len(each)) for each in numbers])
