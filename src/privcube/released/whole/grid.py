"""The cells of a table over some attributes, numbered in order. Zone: RELEASED."""

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
