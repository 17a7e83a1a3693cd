"""Records as rows of codes, the cells of tables that they are in, and their tables in exact whole numbers.

Zone: RELEASED.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcube.algebra.lattice import Floats, Integers

Codes = NDArray[Any]  # record x attribute: the cell of every record, in few bits


@dataclass(frozen=True)
class Grid:
    """Attributes, by their places, and how many cells each of them has.

    >>> Grid((0, 2), (2, 3)).keys(np.array([[1, 9, 2], [0, 9, 1]])).tolist()
    [5, 1]
    """

    attributes: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], attributes: Sequence[int]) -> Grid:
        """The grid of some attributes, given the sizes of all."""
        return cls(tuple(attributes), tuple(sizes[at] for at in attributes))

    @cached_property
    def cells(self) -> int:
        """How many cells there are."""
        return prod(self.shape)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """By how much the number of a cell grows with each attribute."""
        return tuple(prod(self.shape[at + 1 :]) for at in range(len(self.shape)))

    def keys(self, codes: Codes) -> Integers:
        """The cell that every record is in."""
        keys = np.zeros(len(codes), dtype=np.int64)
        for place, stride in zip(self.attributes, self.strides, strict=True):
            keys += codes[:, place].astype(np.int64) * stride
        return keys

    def along(self, values: Floats, axis: int) -> tuple[Floats, Integers]:
        """A function on cells as rows of its values along an axis, and the row of every cell."""
        before, size = prod(self.shape[:axis]), self.shape[axis]
        after = self.strides[axis]
        rows = np.ascontiguousarray(np.moveaxis(values.reshape(before, size, after), 1, 2)).reshape(-1, size)
        row_of = np.broadcast_to(np.arange(before * after).reshape(before, 1, after), (before, size, after))
        return rows, row_of.reshape(-1)


@dataclass(frozen=True, eq=False)
class Records:
    """Distinct rows in order, each with a multiplicity above 0.

    >>> own = Records.of(np.array([[1, 0], [0, 1], [1, 0]]), np.array([1, 2, 3]))
    >>> own.codes.tolist(), own.times.tolist(), own.total
    ([[0, 1], [1, 0]], [2, 4], 6)
    """

    codes: Codes
    times: Integers

    @classmethod
    def of(cls, codes: Codes, times: Integers) -> Records:
        """Equal rows put together, and rows that occur 0 times left out."""
        codes, times = codes[times > 0], times[times > 0]
        if not len(codes):
            return cls(codes, times)
        order = np.lexsort(codes.T[::-1]) if codes.shape[1] else np.arange(len(codes))
        codes, times = codes[order], times[order]
        first = np.flatnonzero(np.concatenate([[True], np.any(codes[1:] != codes[:-1], axis=1)]))
        return cls(codes[first], np.add.reduceat(times, first))

    @property
    def total(self) -> int:
        """How many records there are."""
        return int(self.times.sum())

    def counts(self, sizes: Sequence[int], attributes: Sequence[int]) -> Integers:
        """The table of some attributes."""
        grid = Grid.of(sizes, attributes)
        table = np.zeros(grid.cells, dtype=np.int64)
        np.add.at(table, grid.keys(self.codes), self.times)
        return table.reshape(grid.shape)
