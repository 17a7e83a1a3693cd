"""Query groups: sets of counts that one record moves by one. Zone: PUBLIC.

A group picks, per axis of the frame, the cells of a level or the contrasts of a level (the differences of the two
halves of every cell one level up; fan-out 2 only); axes not named are summed out. Its rows are disjoint with entries
0, +1, -1 and every record falls into exactly one of them: the paper's grouping property (definition 3.1) with C_r = 1.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from privcube.model.frame import Frame
from privcube.model.workload import Axis, Table


class GroupPart(NamedTuple):
    """One axis of a group: its cells at a level, or the contrasts of that level."""

    axis: int
    level: int
    contrast: bool = False


QueryGroup = tuple[GroupPart, ...]


def group_rows(frame: Frame, group: QueryGroup) -> int:
    """How many counts a group has; padded cells are counted too.

    >>> from privcube.model.schema import Schema
    >>> group_rows(Frame(Schema.from_sizes({"a": 4, "b": 3}), "natural"), (GroupPart(0, 1), GroupPart(1, 1)))
    12
    """
    return prod([frame.sizes[part.axis][part.level - part.contrast] for part in group])


def cells_group(frame: Frame, table: Table) -> QueryGroup:
    """The group of all cells that a table is made of; for ranges, those of the whole attribute."""
    parts: list[GroupPart] = []
    for entry in table:
        axis = entry if isinstance(entry, Axis) else Axis(entry)
        parts += [GroupPart(*part) for part in frame.footprint(frame.schema[axis.attribute], axis.level)]
    return tuple(parts)


def has_contrast(group: QueryGroup) -> bool:
    """Whether some axis is measured by contrasts."""
    return any(part.contrast for part in group)
