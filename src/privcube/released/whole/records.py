"""Records: rows of codes, each with how often it occurs; their tables in exact whole numbers. Zone: RELEASED."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privcube.algebra.lattice import Integers
from privcube.released.whole.grid import Codes, Grid


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
