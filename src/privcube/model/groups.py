"""Query groups: sets of counts whose price is known from their structure. Zone: PUBLIC.

A group picks, per axis of the frame, a level and what to measure there; axes not named are summed out:
- cells: the counts of the level;
- contrast: the differences of the two halves of every cell one level up (fan-out 2 only);
- helmert: for the f children of every cell one level up, the rows (1, ..., 1, -j, 0, ..., 0) with j ones, j = 1..f-1.
Groups of cells and contrasts have disjoint rows with entries 0, +1, -1, and every record falls into exactly one of
them: the paper's grouping property (definition 3.1) with C_r = 1. The partitions of a sketch are groups of this sort
without the product structure. Helmert rows overlap and are for Gaussian noise only: row j of an axis has squared norm j
(j+1), and with noise of variance sigma^2 j (j+1) (products over axes) they are worth orthonormal rows with sigma^2. A
record then moves an axis by 1 - 1/f in squared length, whichever it is (THEORY section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Literal, NamedTuple

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.workload import Axis, Table

PartKind = Literal["cells", "contrast", "helmert"]


class GroupPart(NamedTuple):
    """One axis of a group: a level, and what is measured there."""

    axis: int
    level: int
    kind: PartKind = "cells"


class SketchGroup(NamedTuple):
    """One partition of a sketch: every base cell falls into one bucket, with a sign (`privcube.algebra.hashing`)."""

    partition: int
    buckets: int


QueryGroup = tuple[GroupPart, ...]
Group = QueryGroup | SketchGroup


def group_rows(frame: Frame, group: Group) -> int:
    """How many counts a group has; padded cells are counted too.

    >>> from privcube.model.schema import Schema
    >>> group_rows(Frame(Schema.from_sizes({"a": 4, "b": 3}), "natural"), (GroupPart(0, 1), GroupPart(1, 1)))
    12
    """
    if isinstance(group, SketchGroup):
        return group.buckets
    return prod([part_rows(frame.fan_outs[part.axis][: part.level], part.kind) for part in group])


def part_rows(chain: Sequence[int], kind: PartKind) -> int:
    """How many rows a part has along its axis, given the fan-outs down to its level."""
    if kind == "cells":
        return prod(chain)
    return prod(chain[:-1]) * (chain[-1] - 1)


def row_weights(frame: Frame, group: Group) -> tuple[int, ...]:
    """The squared norm of every row of Helmert parts, j (j+1) multiplied over axes, in row-major order; else all 1."""
    if isinstance(group, SketchGroup):
        return (1,) * group.buckets
    return _weights_of(tuple((frame.fan_outs[part.axis][: part.level], part.kind) for part in group))


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
    """For each table the group of all cells that it is made of; for ranges, those of the whole attribute."""
    known: dict[str | Axis, list[GroupPart]] = {}

    def parts(entry: str | Axis) -> list[GroupPart]:
        if entry not in known:
            axis = entry if isinstance(entry, Axis) else Axis(entry)
            spots = frame.footprint(frame.schema[axis.attribute], axis.level)
            known[entry] = [GroupPart(number, level) for number, level in spots]
        return known[entry]

    return [tuple([part for entry in table for part in parts(entry)]) for table in tables]


def product_groups(groups: Iterable[Group]) -> list[QueryGroup]:
    """The groups as products over axes; refused if one is not."""
    products = []
    for group in groups:
        if isinstance(group, SketchGroup):
            raise PlanError("groups", expected="products over axes", given="the partition of a sketch")
        products.append(group)
    return products


def is_structured(groups: Iterable[Group]) -> bool:
    """Whether every group is a product over axes, so that the closed forms apply."""
    return not any(isinstance(group, SketchGroup) for group in groups)


def has_signs(group: Group) -> bool:
    """Whether some entries are -1, so that two records may move one row in opposite directions."""
    return isinstance(group, SketchGroup) or any(part.kind == "contrast" for part in group)


def has_helmert(group: Group) -> bool:
    """Whether some rows overlap, so that only Gaussian noise fits."""
    return not isinstance(group, SketchGroup) and any(part.kind == "helmert" for part in group)
