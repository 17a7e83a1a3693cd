"""Query groups: sets of counts whose privacy cost follows from their structure. Zone: PUBLIC.

For some axes of the frame, a group picks a level and what to measure there; all other axes are summed out:
- cells: the counts of the level;
- contrast: the difference between the two halves of every cell one level up (fan-out 2 only);
- helmert: for the f children of every cell one level up, the rows (1, ..., 1, -j, 0, ..., 0) with j ones, j = 1..f-1;
- squares: for every cell one level up, the entrywise products of two of its Helmert rows, or of one with itself.
Groups of cells and contrasts have disjoint rows with entries 0, +1, -1, and every record falls into exactly one of
them: the paper's grouping property (definition 3.1) with C_r = 1. The partitions of a sketch are such groups without
the product structure. Helmert rows overlap and are for Gaussian noise, or for Gram bundles, which alone have squares
(`privcube.model.noise.bundles`). Row j of an axis has squared norm j (j+1), and with noise of variance sigma^2 j (j+1)
(products over axes) the rows are equivalent to orthonormal rows with variance sigma^2. Any record then moves an axis by
1 - 1/f in squared length (THEORY section 4). A matrix group is any matrix of whole numbers over the cells of a few
attributes; its columns show how far a record moves it. A block group has several such matrices, each times the Helmert
rows of some other attributes (`privcube.model.matrices.block_price`).

See THEORY sections 2, 12 and 12.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Literal, NamedTuple

from privcube.errors import Plain, PlanError
from privcube.model.frame import Frame
from privcube.model.matrices.groups import Block as Block
from privcube.model.matrices.groups import BlockGroup as BlockGroup
from privcube.model.matrices.groups import MatrixGroup as MatrixGroup
from privcube.model.workload import Axis, Table

PartKind = Literal["cells", "contrast", "helmert", "squares"]


class GroupPart(NamedTuple):
    """One axis of a group: a level, and what to measure there."""

    axis: int
    level: int
    kind: PartKind = "cells"


class SketchGroup(NamedTuple):
    """One partition of a sketch: every base cell falls into one bucket, with a sign (`privcube.algebra.hashing`)."""

    partition: int
    buckets: int


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
    own = chain[-1] * (chain[-1] - 1) // 2 if kind == "squares" else chain[-1] - 1
    return prod(chain[:-1]) * own


def row_weights(frame: Frame, group: Group) -> tuple[int, ...]:
    """Weights of the rows, in row-major order: squared norms, products of j (j+1), for Helmert parts; all 1 if none.

    The product of Helmert rows j and k has weight j (j+1) k (k+1), and twice that if j = k (`square_weights`).
    """
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
        elif kind == "squares":
            own = square_weights(chain[-1]) * prod(chain[:-1])
        weights = [left * right for left in weights for right in own]
    return tuple(weights)


def square_weights(fan_out: int) -> list[int]:
    """The weights of the products of Helmert rows j <= k below one cell, in lexicographic order.

    >>> square_weights(3)
    [8, 12, 72]
    """
    norms = [j * (j + 1) for j in range(1, fan_out)]
    return [left * right * (1 + (j == k)) for j, left in enumerate(norms) for k, right in enumerate(norms) if j <= k]


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
    """Whether a group has Helmert rows or products of them, which overlap and need Gaussian noise or a Gram bundle."""
    if isinstance(group, BlockGroup):
        return True
    return not isinstance(group, SketchGroup | MatrixGroup) and any(
        part.kind in ("helmert", "squares") for part in group
    )


def has_squares(group: Group) -> bool:
    """Whether a group has products of Helmert rows, which only Gram bundles have."""
    return not isinstance(group, SketchGroup | MatrixGroup | BlockGroup) and any(
        part.kind == "squares" for part in group
    )
