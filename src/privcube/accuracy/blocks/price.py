"""How far a change moves a block group, worked out a second time from its rows alone. Zone: PUBLIC.

Nothing here uses `privcube.model.matrices.block_price`, which sets the noise. A Helmert row with j ones and one -j is
written out entry by entry, over the weight of the noise on it; its products over the first and last cell of an
attribute are summed as fractions. (They are the same for all cells and for any two, as tests see.) Every attribute
contributes a factor to the product of two columns of a block, so the extremes over records come from the extremes of
each factor. Matrices are read column by column as whole numbers. All pairs of columns are worked out; of large matrices
some, and for all others the price that set the noise is taken.

See THEORY sections 12.1 and 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import isqrt, lcm, prod
from typing import Final, NamedTuple

import numpy as np

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Block, BlockGroup, row_weights

_MOST_ENTRIES: Final = 2**24  # of all pairs of columns that are compared: rows times the square of the columns


class _Factor(NamedTuple):
    """The products of an attribute's Helmert columns: the largest of one with itself, and the extremes of any two."""

    own: Fraction
    least: Fraction
    largest: Fraction


def block_move(frame: Frame, group: BlockGroup, pairs: bool, known: Fraction) -> Fraction:
    """The farthest that a record, or one exchanged for another, moves a group, squared, over the weights of its noise.

    `known` is the price of a pair that set the noise.
    """
    _check_weights(frame, group)
    columns = [_columns(block) for block in group.blocks]
    factors = [_factor(frame, block) for block in group.blocks]
    lengths = [Fraction(0)] * len(columns[0])
    for own, factor in zip(columns, factors, strict=True):
        lengths = [so_far + factor.own * sum(e * e for e in each) for so_far, each in zip(lengths, own, strict=True)]
    if not pairs:
        return max(lengths)
    chosen = compared_columns([[e for own in columns for e in own[at]] for at in range(len(lengths))], _MOST_ENTRIES)
    found = max(lengths) if len(chosen) == len(lengths) else max(known, max(lengths))
    below = lcm(*(end.denominator for factor in factors for end in factor))
    inner = np.zeros((len(chosen), len(chosen)), dtype=object)  # whole numbers of any size, over the common denominator
    for own, factor in zip(columns, factors, strict=True):
        picked = np.array([own[at] for at in chosen], dtype=np.int64)
        products = np.einsum("ik,jk->ij", picked, picked).astype(object)
        inner += np.minimum(int(factor.least * below) * products, int(factor.largest * below) * products)
    ends = np.array([int(lengths[at] * below) for at in chosen], dtype=object)
    return max(found, Fraction(int((ends[:, None] + ends - 2 * inner).max()), below))


def compared_columns(columns: Sequence[Sequence[int]], entries: int) -> list[int]:
    """The columns whose pairs are worked out: all, if that takes so many entries, or the ends by length and some more.

    >>> compared_columns([[3], [1], [2]], 100)
    [0, 1, 2]
    >>> compared_columns([[at] for at in range(12)], 40)
    [0, 1, 6, 10, 11]
    """
    count = len(columns)
    most = isqrt(entries // len(columns[0]))
    if count <= most:
        return list(range(count))
    order = sorted(range(count), key=lambda at: sum(entry * entry for entry in columns[at]))
    third = max(most // 3, 1)
    return sorted({*order[:third], *order[-third:], *order[:: count // third]})


def check_blocks(frame: Frame, group: BlockGroup) -> None:
    """Refuse matrices and contrasted attributes that do not fit the schema."""
    schema = frame.schema
    names = [name for name in schema.names if name in group.attributes]
    cells = prod(schema[name].cells for name in names)
    for block in group.blocks:
        if tuple(names) != block.matrix.attributes or cells != len(block.matrix.rows[0]):
            raise PlanError("group", expected="matrices over the cells of their attributes, in schema order")
        if block.contrasted != tuple(name for name in schema.names if name in block.contrasted):
            raise PlanError("group", expected="contrasted attributes in schema order", given=block.contrasted)
    if frame.kind != "natural" or frame.leveled:
        raise PlanError("group", expected="blocks in a natural frame without levels")


def _columns(block: Block) -> list[list[int]]:
    return [[int(entry) for entry in column] for column in np.array(block.matrix.rows, dtype=object).T]


def _check_weights(frame: Frame, group: BlockGroup) -> None:
    """Refuse noise weights other than the squared lengths of the Helmert rows, for every row of every matrix."""
    expected: list[int] = []
    for block in group.blocks:
        own = [1]
        for name in block.contrasted:
            norms = [j + j * j for j in range(1, frame.schema[name].cells)]
            own = [left * right for left in own for right in norms]
        expected += own * len(block.matrix.rows)
    if list(row_weights(frame, group)) != expected:
        raise PlanError("group", expected="noise weights that are the squared lengths of Helmert rows")


def _factor(frame: Frame, block: Block) -> _Factor:
    """The factors of all contrasted attributes together."""
    own, ends = Fraction(1), [Fraction(1)]
    for name in block.contrasted:
        factor = _of_attribute(frame.schema[name].cells)
        own *= factor.own
        ends = [end * by for end in ends for by in (factor.least, factor.largest)]
        ends = [min(ends), max(ends)]
    return _Factor(own, min(ends), max(ends))


@lru_cache(maxsize=256)
def _of_attribute(cells: int) -> _Factor:
    own, across = _product(cells, 0, 0), _product(cells, 0, cells - 1)
    return _Factor(own, min(own, across), max(own, across))


def _product(cells: int, one: int, other: int) -> Fraction:
    """Of the columns of two cells, over the weights of the rows."""
    return sum((Fraction(_entry(j, one) * _entry(j, other), j * j + j) for j in range(1, cells)), Fraction(0))


def _entry(j: int, cell: int) -> int:
    """Helmert row j is j ones, then -j, then zeros."""
    return 1 if cell < j else -j if cell == j else 0
