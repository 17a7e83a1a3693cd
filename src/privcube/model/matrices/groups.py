"""Groups of whole-number matrices, alone or times Helmert rows. Zone: PUBLIC.

See THEORY sections 12 and 12.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcube.errors import PlanError
from privcube.model.privacy.guarantee import Neighbors

LARGEST_ENTRY: Final = 2**24  # of a matrix, so that the sums below are exact in 64 bits
_MOST_ROWS: Final = 4_096  # of a matrix, so that the sums below are exact in 64 bits
_MOST_CELLS: Final = 1_024  # columns of a matrix: every pair of them is compared


@dataclass(frozen=True)
class MatrixGroup:
    """Rows of whole numbers over the joint cells of some attributes, in row-major order of the schema.

    `largest_l1` and `largest_l2` say how far a change of one row of the data moves the answers. Adding or removing a
    row moves them by a column of the matrix, replacing it by the difference of two columns, and changing n rows of a
    person by at most n such steps. If a person has several rows, some may be replaced and others removed; norms are
    convex, so this moves the answers no further than doing one of the two to all rows, and the bound for replacing
    covers single columns, too. The sums are exact in 64 bits: with entries up to 2^24 in 4,096 rows, no sum of squares
    or products exceeds 2^60.

    >>> group = MatrixGroup(("age",), ((2, 0, 0), (1, 1, 0), (0, 0, 3)))
    >>> [(group.largest_l1(neighbors), group.largest_l2(neighbors)) for neighbors in ("add_remove", "replace_one")]
    [(3, 9), (6, 14)]
    """

    attributes: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.rows}
        if not 1 <= len(self.rows) <= _MOST_ROWS or len(widths) != 1 or not 1 <= min(widths) <= _MOST_CELLS:
            raise PlanError(
                "matrix", expected=f"1 to {_MOST_ROWS:,} rows of one length, from 1 to {_MOST_CELLS:,}", given=widths
            )
        whole = all(set(map(type, row)) <= {int} for row in self.rows)
        if not whole or not self._is_within:
            raise PlanError("matrix", expected=f"whole numbers from -{LARGEST_ENTRY:,} to {LARGEST_ENTRY:,}")
        if not self.matrix.any():
            raise PlanError("matrix", expected="some entry other than 0")

    @property
    def _is_within(self) -> bool:
        """Whether no entry is too large; some may not fit into an array."""
        try:
            return int(self.matrix.min()) >= -LARGEST_ENTRY and int(self.matrix.max()) <= LARGEST_ENTRY
        except OverflowError:
            return False

    @cached_property
    def matrix(self) -> NDArray[np.int64]:
        """The rows as an array that cannot be written to, so that what is measured is what was priced."""
        whole = np.array(self.rows, dtype=np.int64)
        return np.frombuffer(whole.tobytes(), dtype=np.int64).reshape(whole.shape)

    def largest_l1(self, neighbors: Neighbors) -> int:
        """How far a change of one row of the data can move the answers, in L1."""
        return self._column_l1 if neighbors == "add_remove" else max(self._column_l1, self._pair_l1)

    def largest_l2(self, neighbors: Neighbors) -> int:
        """How far a change of one row of the data can move the answers, in L2 squared."""
        return self._column_l2 if neighbors == "add_remove" else max(self._column_l2, self._pair_l2)

    @cached_property
    def _column_l1(self) -> int:
        return int(np.abs(self.matrix).sum(axis=0).max())

    @cached_property
    def _column_l2(self) -> int:
        return int((self.matrix**2).sum(axis=0).max())

    @cached_property
    def _pair_l1(self) -> int:
        columns = np.ascontiguousarray(self.matrix.T, dtype=np.int32)  # differences are at most 2^25
        apart = (np.abs(columns[at:] - column).sum(axis=1, dtype=np.int64) for at, column in enumerate(columns))
        return max(int(sums.max()) for sums in apart)

    @cached_property
    def products(self) -> NDArray[np.int64]:
        """The products of every two columns."""
        # By Cauchy-Schwarz, none exceeds the largest squared norm, so floats are exact below 2^53.
        matrix = self.matrix.astype(np.float64) if self._column_l2 < 2**53 else self.matrix
        return np.asarray((matrix.T @ matrix).astype(np.int64))

    @cached_property
    def _pair_l2(self) -> int:
        own = np.diag(self.products)
        return int((own[:, None] + own - 2 * self.products).max())


class Block(NamedTuple):
    """The rows of a matrix, each times all products of Helmert rows over the cells of the contrasted attributes."""

    contrasted: tuple[str, ...]
    matrix: MatrixGroup


@dataclass(frozen=True)
class BlockGroup:
    """Blocks over the same matrix attributes that are noised and priced together, for Gaussian noise only.

    All other attributes of a block are summed out. No two blocks have the same contrasted attributes. The rows of a
    block go through the rows of its matrix and, for each, through the Helmert rows in row-major order.
    """

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if not self.blocks or len({block.contrasted for block in self.blocks}) < len(self.blocks):
            raise PlanError("blocks", expected="at least one block, each with other contrasted attributes")
        if len({(block.matrix.attributes, len(block.matrix.rows[0])) for block in self.blocks}) > 1:
            raise PlanError("blocks", expected="matrices over the same attributes")
        if any(name in self.attributes for block in self.blocks for name in block.contrasted):
            raise PlanError("blocks", expected="contrasted attributes other than those of the matrices")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes of the matrices."""
        return self.blocks[0].matrix.attributes
