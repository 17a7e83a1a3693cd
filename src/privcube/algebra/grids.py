"""Functions on a grid that are sums of tables over few of its axes, in time linear in the grid. Zone: PUBLIC.

A table over some axes is a sum of differences: its entry at (i, j) is t00 + (ti0 - t00) + (t0j - t00) + (tij - ti0 -
t0j + t00). So the differences of all tables are added up on one grid, each at its own indices and at 0 on all other
axes, and one pass along every axis, which adds what is at 0 to the rest, makes them the sum of the tables
(`Grid.spread`). The transpose of it sums a weighting of the grid over what each table sees (`Grid.gathered`). Both
are exact on whole numbers, as long as the sums of the tables fit into 64 bits: sums modulo 2^64 are right modulo 2^64.

See THEORY section 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.lattice import Floats, Integers


@dataclass(frozen=True)
class Grid:
    """A grid of the given shape, as a flat array in row-major order.

    >>> grid = Grid((2, 3))
    >>> flat = np.zeros(6, dtype=np.int64)
    >>> flat[grid.spots((1,))] += differenced(np.array([5, 6, 7]))
    >>> flat[grid.spots((0,))] += differenced(np.array([0, 10]))
    >>> grid.spread(flat).tolist()
    [5, 6, 7, 15, 16, 17]
    >>> grid.gathered(np.array([0.0, 0.25, 0.25, 0.5, 0.0, 0.0]))[grid.spots((1,))].tolist()
    [1.0, 0.25, 0.25]
    """

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many points the grid has."""
        return prod(self.shape)

    def spots(self, axes: Sequence[int]) -> Integers:
        """The points of a table over these axes, in row-major order of the table; other axes are at 0."""
        found = np.zeros(1, dtype=np.int64)
        for axis in axes:
            stride = prod(self.shape[axis + 1 :])
            found = (found[:, None] + stride * np.arange(self.shape[axis])).reshape(-1)
        return found

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Differences as the sums of tables that they are the differences of, in place."""
        for axis, size in enumerate(self.shape):
            along = values.reshape(prod(self.shape[:axis]), size, -1)
            along[:, 1:] += along[:, :1]
        return values

    def gathered(self, weights: Floats) -> Floats:
        """The transpose of `spread`: what a difference at each point adds to the weighted sum over the grid."""
        values = weights.copy()
        for axis, size in enumerate(self.shape):
            along = values.reshape(prod(self.shape[:axis]), size, -1)
            along[:, 0] += along[:, 1:].sum(axis=1)
        return values


def differenced(table: NDArray[Any]) -> NDArray[Any]:
    """The differences of a table from index 0 on every axis, in row-major order."""
    found = np.array(table, order="C")  # a copy, whose reshaped parts are views
    for axis, size in enumerate(table.shape):
        along = found.reshape(prod(table.shape[:axis]), size, -1)
        along[:, 1:] -= along[:, :1]
    return found.reshape(-1)
