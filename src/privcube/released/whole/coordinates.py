"""Orthonormal coordinates of an attribute, adapted to the levels that tables ask for. Zone: RELEASED.

The first coordinate is the total. Every partition in use adds coordinates: functions that are constant on its groups
and sum to zero over each group of the next coarser partition. The children of a group are split in halves again and
again, which makes the coordinates sparse, and nearly uncorrelated where ranges are asked for. A coordinate c of counts
is the sum of its function over the records, so tables that agree have the same coordinates.

See THEORY section 5.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from privcube.accuracy.ranges import bounds
from privcube.algebra.lattice import Floats, Integers
from privcube.model.attribute import Attribute
from privcube.model.workload import Axis

_DENSE: Final = 256  # cells; coordinates of more are sparse arrays
_AT_ONCE: Final = 256  # rows of running sums


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The coordinates of one attribute; depth 0 is the total, depth l the partition `partitions[l - 1]`."""

    attribute: Attribute
    levels: tuple[str | None, ...]  # those in use, from coarse to fine; None: single cells
    partitions: tuple[Integers, ...]  # for each of them, the group of every cell
    rows: Any  # coordinate x cell: an array, sparse if it is large
    depths: Integers  # of the coordinates, in increasing order

    @property
    def cells(self) -> int:
        """How many cells the attribute has."""
        return self.attribute.cells

    def depth(self, level: str | None) -> int:
        """The depth of a level in use."""
        return self.levels.index(level) + 1

    def entry(self, depth: int) -> str | Axis:
        """The entry of a table that asks for the groups of a depth."""
        level = self.levels[depth - 1]
        return self.attribute.name if level is None else Axis(self.attribute.name, level)

    def span(self, depth: int) -> slice:
        """The coordinates of exactly this depth."""
        first, last = np.searchsorted(self.depths, [depth, depth + 1])
        return slice(int(first), int(last))

    def on_groups(self, depth: int) -> Any:
        """The coordinates up to a depth, as functions on the groups of that depth; sparse if rows are."""
        _, first = np.unique(self.partitions[depth - 1], return_index=True)
        return self.rows[: self.span(depth).stop][:, first]

    def energies(self, entry: str | Axis) -> Floats:
        """Per coordinate up to the entry's depth, the sum of squares that a unit of it adds to the entry's numbers."""
        axis = Axis.of(entry)
        depth = self.depth(axis.level)
        rows = self.rows[: self.span(depth).stop]
        if axis.queries == "cells":
            groups = self.partitions[depth - 1]
            sizes = np.bincount(groups).astype(np.float64)
            functions = self.on_groups(depth)  # constant on every group, so its sum there is its value times the size
            return np.asarray((functions * functions) @ sizes**2)
        scale, found = self.attribute.ordered_cells, []
        for start in range(0, rows.shape[0], _AT_ONCE):
            own = rows[start : start + _AT_ONCE, :scale]
            own = own if isinstance(own, np.ndarray) else own.toarray()
            running = np.concatenate([np.zeros((len(own), 1)), np.cumsum(own, axis=1)], axis=1)
            if axis.queries == "prefixes":
                found.append((running[:, 1:] ** 2).sum(axis=1))
            else:
                found.append((scale + 1) * (running**2).sum(axis=1) - running.sum(axis=1) ** 2)
        return np.concatenate(found)

    @cached_property
    def depth_energies(self) -> Floats:
        """[D, l]: the squares that unit coordinates of depth l together add to the groups of depth D; 0 if l > D.

        A total outside the attribute counts as one number, so that of depth 0 is divided by the number of cells.
        """
        most = len(self.levels)
        table = np.zeros((most + 1, most + 1))
        table[0, 0] = 1.0
        for depth in range(1, most + 1):
            own = self.energies(self.entry(depth))
            table[depth, 0] = own[0] / self.cells
            for finer in range(1, depth + 1):
                table[depth, finer] = own[self.span(finer)].sum()
        return table


def coordinates_of(attribute: Attribute, axes: Iterable[Axis]) -> Coordinates:
    """The coordinates of an attribute for the levels that some axes of it ask for.

    >>> own = coordinates_of(Attribute("a", size=3), [Axis("a")])
    >>> (own.rows @ own.rows.T).round(12).tolist(), own.depths.tolist()
    ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [0, 1, 1])
    """
    used = {axis.level for axis in axes}
    levels = [level for level in (*reversed(attribute.level_names), None) if level in used]
    partitions = [np.asarray(attribute.partition(level).group_of, dtype=np.int64) for level in levels]
    cells = attribute.cells
    functions: list[tuple[Integers, Floats]] = [(np.arange(cells), np.full(cells, cells**-0.5))]
    depths = [0]
    coarser = np.zeros(cells, dtype=np.int64)
    for depth, groups in enumerate(partitions, start=1):
        for members in _split(np.arange(cells), coarser):
            found = list(_halves(_split(members, groups[members])))
            functions += found
            depths += [depth] * len(found)
        coarser = groups
    return Coordinates(
        attribute, tuple(levels), tuple(partitions), _matrix(functions, cells), np.array(depths, dtype=np.int64)
    )


def _split(members: Integers, groups: Integers) -> list[Integers]:
    """Members by their groups, in the order of these."""
    order = np.argsort(groups, kind="stable")
    return np.split(members[order], np.flatnonzero(np.diff(groups[order])) + 1)


def _halves(children: Sequence[Integers]) -> Iterator[tuple[Integers, Floats]]:
    """Functions on the cells of some children: the first half against the second, and the same within each half."""
    if len(children) < 2:
        return
    middle = (len(children) + 1) // 2
    left, right = np.concatenate(children[:middle]), np.concatenate(children[middle:])
    values = np.concatenate([np.full(len(left), 1.0 / len(left)), np.full(len(right), -1.0 / len(right))])
    yield np.concatenate([left, right]), values / np.sqrt(np.sum(values**2))
    yield from _halves(children[:middle])
    yield from _halves(children[middle:])


def _matrix(functions: Sequence[tuple[Integers, Floats]], cells: int) -> Any:
    """Functions as the rows of an array."""
    if cells <= _DENSE:
        rows = np.zeros((len(functions), cells))
        for row, (places, values) in zip(rows, functions, strict=True):
            row[places] = values
        return rows
    import scipy.sparse  # here, as reading a release needs none of it

    numbers = np.repeat(np.arange(len(functions)), [len(places) for places, _ in functions])
    places, values = (np.concatenate(own) for own in zip(*functions, strict=True))
    return scipy.sparse.csr_array((values, (numbers, places)), shape=(len(functions), cells))


def cells_from_queries(counts: Floats, at: int, axis: Axis, attribute: Attribute) -> Floats:
    """The cells that ranges or prefixes along an axis of a table add up; those beyond the scale are taken as empty."""
    if axis.queries == "prefixes":
        counts = np.diff(counts, axis=at, prepend=0)
    else:
        first, last = bounds("ranges", attribute.ordered_cells)
        counts = np.take(counts, np.flatnonzero(last - first == 1), axis=at)
    beyond = [(0, 0)] * counts.ndim
    beyond[at] = (0, attribute.cells - attribute.ordered_cells)
    return np.pad(counts, beyond)
