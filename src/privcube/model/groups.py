"""Query groups: sets of counts whose privacy cost follows from their structure. Zone: PUBLIC.

For some axes of the frame, a group picks a level and what to measure there; all other axes are summed out:
- cells: the counts of the level;
- contrast: the difference between the two halves of every cell one level up (fan-out 2 only);
- helmert: for the f children of every cell one level up, the rows (1, ..., 1, -j, 0, ..., 0) with j ones, j = 1..f-1.
Groups of cells and contrasts have disjoint rows with entries 0, +1, -1, and every record falls into exactly one of
them: the paper's grouping property (definition 3.1) with C_r = 1. The partitions of a sketch are such groups without
the product structure. Helmert rows overlap and are for Gaussian noise only: row j of an axis has squared norm j (j+1),
and with noise of variance sigma^2 j (j+1) (products over axes) the rows are equivalent to orthonormal rows with
variance sigma^2. Any record then moves an axis by 1 - 1/f in squared length (THEORY section 4). A matrix group is any
matrix of whole numbers over the cells of a few attributes; its columns show how far a record moves it. A block group
has several such matrices, each times the Helmert rows of some other attributes (`privcube.model.blocks`).

See THEORY sections 2, 12 and 12.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privcube.errors import Plain, PlanError
from privcube.model.frame import Frame
from privcube.model.privacy.guarantee import Neighbors
from privcube.model.workload import Axis, Table

PartKind = Literal["cells", "contrast", "helmert"]

LARGEST_ENTRY: Final = 2**24  # of a matrix, so that the sums below are exact in 64 bits
_MOST_ROWS: Final = 4_096  # of a matrix, so that the sums below are exact in 64 bits
_MOST_CELLS: Final = 1_024  # columns of a matrix: every pair of them is compared


class GroupPart(NamedTuple):
    """One axis of a group: a level, and what to measure there."""

    axis: int
    level: int
    kind: PartKind = "cells"


class SketchGroup(NamedTuple):
    """One partition of a sketch: every base cell falls into one bucket, with a sign (`privcube.algebra.hashing`)."""

    partition: int
    buckets: int


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
        if any(type(entry) is not int or abs(entry) > LARGEST_ENTRY for row in self.rows for entry in row):
            raise PlanError("matrix", expected=f"whole numbers from -{LARGEST_ENTRY:,} to {LARGEST_ENTRY:,}")
        if not any(map(any, self.rows)):
            raise PlanError("matrix", expected="some entry other than 0")

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


QueryGroup = tuple[GroupPart, ...]
Group = QueryGroup | SketchGroup | MatrixGroup | BlockGroup


def group_rows(frame: Frame, group: Group) -> int:
    """How many counts a group has, including padded cells.

    >>> from privcube.model.schema import Schema
    >>> group_rows(Frame(Schema.from_sizes({"a": 4, "b": 3}), "natural"), (GroupPart(0, 1), GroupPart(1, 1)))
    12
    """
    if isinstance(group, SketchGroup):
        return group.buckets
    if isinstance(group, MatrixGroup):
        return len(group.rows)
    if isinstance(group, BlockGroup):
        return sum(block_rows(frame, block) for block in group.blocks)
    return prod([part_rows(frame.fan_outs[part.axis][: part.level], part.kind) for part in group])


def block_rows(frame: Frame, block: Block) -> int:
    """How many rows a block has."""
    return len(block.matrix.rows) * prod([frame.schema[name].cells - 1 for name in block.contrasted])


def part_rows(chain: Sequence[int], kind: PartKind) -> int:
    """How many rows a part has along its axis, given the fan-outs down to its level."""
    if kind == "cells":
        return prod(chain)
    return prod(chain[:-1]) * (chain[-1] - 1)


def row_weights(frame: Frame, group: Group) -> tuple[int, ...]:
    """Weights of the rows, in row-major order: squared norms, products of j (j+1), for Helmert parts; all 1 if none."""
    if isinstance(group, BlockGroup):
        return tuple([weight for block in group.blocks for weight in _block_weights(frame, block)])
    if not isinstance(group, tuple) or isinstance(group, SketchGroup):
        return (1,) * group_rows(frame, group)
    return _weights_of(tuple((frame.fan_outs[part.axis][: part.level], part.kind) for part in group))


def _block_weights(frame: Frame, block: Block) -> tuple[int, ...]:
    kind: PartKind = "helmert"
    own = _weights_of(tuple(((frame.schema[name].cells,), kind) for name in block.contrasted))
    return own * len(block.matrix.rows)


@lru_cache(maxsize=256)
def _weights_of(shape: tuple[tuple[tuple[int, ...], PartKind], ...]) -> tuple[int, ...]:
    weights = [1]
    for chain, kind in shape:
        own = [1] * part_rows(chain, kind)
        if kind == "helmert":
            own = [j * (j + 1) for _ in range(prod(chain[:-1])) for j in range(1, chain[-1])]
        weights = [left * right for left in weights for right in own]
    return tuple(weights)


def cells_groups(frame: Frame, tables: Iterable[Table]) -> list[QueryGroup]:
    """For each table, the group of all cells that it is built from; for ranges, all cells of the attribute."""
    known: dict[str | Axis, list[GroupPart]] = {}

    def parts(entry: str | Axis) -> list[GroupPart]:
        if entry not in known:
            axis = Axis.of(entry)
            spots = frame.footprint(frame.schema[axis.attribute], axis.level)
            known[entry] = [GroupPart(number, level) for number, level in spots]
        return known[entry]

    return [tuple([part for entry in table for part in parts(entry)]) for table in tables]


def product_groups(groups: Iterable[Group]) -> list[QueryGroup]:
    """The groups, each of which must be a product over axes."""
    products = []
    for group in groups:
        if isinstance(group, SketchGroup | MatrixGroup | BlockGroup):
            raise PlanError("groups", expected="products over axes", given=Plain("rows without product structure"))
        products.append(group)
    return products


def is_structured(groups: Iterable[Group]) -> bool:
    """Whether every group is a product over axes, so that the closed forms apply."""
    return not any(isinstance(group, SketchGroup | MatrixGroup | BlockGroup) for group in groups)


def has_helmert(group: Group) -> bool:
    """Whether a group has Helmert rows, which overlap and need Gaussian noise."""
    if isinstance(group, BlockGroup):
        return True
    return not isinstance(group, SketchGroup | MatrixGroup) and any(part.kind == "helmert" for part in group)
