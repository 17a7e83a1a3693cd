"""Query groups: sets of counts that one record moves by one. Zone: PUBLIC.

A group picks, per axis of the frame, the cells of a level or the contrasts of a level (the differences of the two
halves of every cell one level up; fan-out 2 only); axes not named are summed out. Its rows are disjoint with entries
0, +1, -1 and every record falls into exactly one of them: the paper's grouping property (definition 3.1) with C_r = 1.
The partitions of a sketch are groups of the same kind, without the product structure.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.workload import Axis, Table


class GroupPart(NamedTuple):
    """One axis of a group: its cells at a level, or the contrasts of that level."""

    axis: int
    level: int
    contrast: bool = False


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
    return prod([frame.sizes[part.axis][part.level - part.contrast] for part in group])


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
    return isinstance(group, SketchGroup) or any(part.contrast for part in group)
