"""Tables over blocks of attributes: their counts, their coordinates, and functions of a record. Zone: RELEASED.

A block is a table over a few attributes. Its coordinates are a product of the attributes' transforms, applied axis by
axis. Every residual belongs to one block; `Problem` strings the coordinates of all blocks together into one vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.released.whole.cover import cover
from privcube.released.whole.goals import Goals, Residual
from privcube.released.whole.records import Codes, Grid

_TOTAL: Final = 100.0  # times its own weight: records that fit positive noise would else make the total grow
_HARDLY: Final = 1e-9  # of the largest pull: of coordinates that no number of a table depends on
_MATRIX: Final = 64  # rows of a product of several attributes' transforms: empirically a good size


class Block:
    """A table over some attributes, and the coordinates of the residuals that belong to it."""

    def __init__(self, goals: Goals, attributes: tuple[int, ...], residuals: Sequence[Residual]) -> None:
        own = [goals.attributes[place] for place in attributes]
        self.grid = Grid.of(goals.sizes, [goals.columns[place] for place in attributes])
        self.cells = self.grid.cells
        self._matrices = _matrices([one.rows for one in own])
        self._squares = [matrix * matrix for matrix in self._matrices]  # of each entry, for sparse arrays as well
        self._backward = [matrix.T for matrix in self._matrices]
        lengths = [one.rows.shape[0] for one in own]
        places = np.arange(prod(lengths)).reshape(lengths)
        self._all = places.size
        wanted, scales = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for residual in residuals:
            depth_of = dict(residual)
            where = [one.span(depth_of.get(place, 0)) for place, one in zip(attributes, own, strict=True)]
            wanted.append(places[tuple(where)].ravel())
            outside = prod(
                [float(one.cells) for place, one in zip(attributes, own, strict=True) if place not in depth_of]
            )
            scales.append(np.full(wanted[-1].size, outside**0.5))
        self.wanted, self.scale = np.concatenate(wanted), np.concatenate(scales)

    def __len__(self) -> int:
        return len(self.wanted)

    def coordinates(self, counts: Floats) -> Floats:
        """The coordinates of counts in the cells of the block."""
        return np.asarray(_applied(self._matrices, counts)[self.wanted] * self.scale)

    def information(self, counts: Floats) -> Floats:
        """For every coordinate, the sum over the records of its squared function."""
        return np.asarray(_applied(self._squares, counts)[self.wanted] * self.scale**2)

    def function(self, weights: Floats) -> Floats:
        """The function on cells whose sum over the records is the sum of weights times coordinates."""
        full = np.zeros(self._all)
        full[self.wanted] = weights * self.scale
        return _applied(self._backward, full)


def _matrices(rows: Sequence[Any]) -> list[Any]:
    """The attributes' transforms; small ones multiplied, large ones sparse, as they are."""
    groups: list[list[Any]] = []
    for own in rows:
        if groups and prod([one.shape[0] for one in groups[-1]]) * own.shape[0] <= _MATRIX:
            groups[-1].append(own)
        else:
            groups.append([own])
    matrices: list[Any] = []
    for group in groups:
        matrix = group[0]
        for own in group[1:]:
            matrix = np.kron(matrix, own)
        is_large = isinstance(matrix, np.ndarray) and len(matrix) > 2 * _MATRIX
        matrices.append(_sparse(matrix) if is_large else matrix)
    return matrices


def _sparse(matrix: Floats) -> Any:
    import scipy.sparse  # here, as reading a release needs none of it

    return scipy.sparse.csr_array(matrix)


def counted(keys: Integers, weights: Floats, cells: int) -> Floats:
    """The sum of the weights in each cell."""
    return np.bincount(keys, weights, cells).astype(np.float64, copy=False)


def _applied(matrices: Sequence[Any], values: Floats) -> Floats:
    """Apply a transform to each group of axes: the first one, which then goes to the end."""
    for matrix in matrices:
        values = (matrix @ values.reshape(matrix.shape[1], -1)).T
    return np.ascontiguousarray(values).reshape(-1)


class Problem:
    """The goals laid out by blocks: vectors over all coordinates, and what records add to them."""

    def __init__(self, goals: Goals) -> None:
        self.goals = goals
        self.sizes = goals.sizes
        places = cover([own.cells for own in goals.attributes], goals.tables, goals.columns) or [()]
        owned: list[list[Residual]] = [[] for _ in places]
        sets = [frozenset(own) for own in places]
        holding: list[list[int]] = [
            [number for number, own in enumerate(sets) if at in own] for at in range(len(goals.attributes))
        ]
        for residual in goals.residuals:
            names = frozenset(place for place, _ in residual)
            candidates = min((holding[place] for place in names), key=len, default=range(len(places)))
            owned[next(number for number in candidates if names <= sets[number])].append(residual)
        self.blocks = [Block(goals, own, residuals) for own, residuals in zip(places, owned, strict=True)]
        self.residuals = order = [residual for residuals in owned for residual in residuals]
        found = [goals.residuals[residual] for residual in order]
        lengths = [goal.estimate.size for goal in found]
        self.estimate = np.concatenate([goal.estimate for goal in found])
        self.metric = np.concatenate([goal.metric for goal in found])
        self.pull = np.where(np.repeat([not residual for residual in order], lengths), _TOTAL, 1.0) * self.metric
        self.pull = np.maximum(self.pull, _HARDLY * self.pull.max())  # of what ranges tell nothing about, too
        self.variance = np.repeat([goal.variance for goal in found], lengths)
        self.order = np.repeat([len(residual) for residual in order], lengths)
        spread = [prod([float(goals.attributes[at].cells) for at, _ in residual]) for residual in order]
        self.dimension = np.repeat(spread, lengths)
        ends = np.cumsum([0, *map(len, self.blocks)]).tolist()
        self.parts = [slice(start, end) for start, end in pairwise(ends)]
        self.touching = [
            [
                (number, block.grid.attributes.index(at))
                for number, block in enumerate(self.blocks)
                if at in block.grid.attributes
            ]
            for at in range(len(self.sizes))
        ]

    @cached_property
    def noise(self) -> float:
        """The expected squared error of the estimates, in the metric."""
        return float(np.sum(self.metric * self.variance))

    def goals_at(self, estimate: Floats) -> Goals:
        """The same goals with other estimates."""
        found, start = {}, 0
        for residual in self.residuals:
            own = self.goals.residuals[residual]
            found[residual] = replace(own, estimate=estimate[start : start + own.estimate.size])
            start += own.estimate.size
        return replace(self.goals, residuals=found)

    def keys(self, codes: Codes) -> list[Integers]:
        """For every block, the cell of every record."""
        return [block.grid.keys(codes) for block in self.blocks]

    def coordinates(self, keys: Sequence[Integers], weights: Floats) -> Floats:
        """The coordinates of weighted records."""
        return np.concatenate(
            [
                block.coordinates(counted(own, weights, block.cells))
                for block, own in zip(self.blocks, keys, strict=True)
            ]
        )

    def information(self, keys: Sequence[Integers], weights: Floats) -> Floats:
        """For every coordinate, the weighted sum over records of its squared function."""
        return np.concatenate(
            [
                block.information(counted(own, weights, block.cells))
                for block, own in zip(self.blocks, keys, strict=True)
            ]
        )

    def functions(self, weights: Floats) -> list[Floats]:
        """For every block, a function on its cells; their sum on a record is that of weights times its coordinates."""
        return [block.function(weights[part]) for block, part in zip(self.blocks, self.parts, strict=True)]

    def on_records(self, keys: Sequence[Integers], weights: Floats) -> Floats:
        """The sum of weights times coordinates, for every record alone."""
        total = np.zeros(len(keys[0]))
        for own, values in zip(keys, self.functions(weights), strict=True):
            total += values.take(own)
        return total
