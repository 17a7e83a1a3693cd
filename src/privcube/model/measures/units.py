"""In which unit a group is counted: whole records, or whole parts of one if it has measures. Zone: PUBLIC.

A record adds exactly `parts` to a table: 1 without measures, else the product of the parts of its measures
(`privcube.model.measures.grid`). The groups of a bundle have one noise, so they have one unit, the least common
multiple of theirs. Only where noise is drawn in real numbers and rounded each group has its own, times a number that
makes rounding too fine to matter. Answers are whole numbers of 1/parts, their noise is drawn on the same numbers with
a scale that is `parts` times that in records, and what is recovered is divided by `parts`. In records, nothing depends
on the unit but how finely the noise is rounded (THEORY section 14).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm, prod
from typing import Final

from privcube.errors import Plain, PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Block, BlockGroup, Group, MatrixGroup, SketchGroup, product_groups
from privcube.model.noise.bundles import Law
from privcube.model.schema import Schema

_FINE: Final = 64  # parts of a record, at least, where noise is rounded: adds 1 / (12 64^2) to a variance
LARGEST_PARTS: Final = 2**34  # of a record: 2^18 of them have 2^52, which floats add up exactly, 2^27 have 2^61


def group_attributes(frame: Frame, group: Group | Block) -> tuple[str, ...]:
    """The attributes that a group is answered from, in schema order."""
    names = frame.schema.names
    if isinstance(group, SketchGroup):
        return names
    if isinstance(group, BlockGroup):
        used = {name for block in group.blocks for name in group_attributes(frame, block)}
        return tuple(name for name in names if name in used)
    if isinstance(group, Block):
        return tuple(name for name in names if name in group.matrix.attributes or name in group.contrasted)
    if isinstance(group, MatrixGroup):
        return group.attributes
    (parts,) = product_groups([group])
    owner = frame.axis_owners
    return tuple(dict.fromkeys(owner[part.axis] for part in parts))


def parts_of(schema: Schema, names: Iterable[str]) -> int:
    """Into how many parts a table of some attributes divides a record.

    >>> from privcube.model.measures.measure import Measure
    >>> parts_of(Schema([Measure("age", low=0, high=100, step=1), Measure("hours", low=0, high=99, step=1)]), ["age"])
    100
    """
    grids = (schema[name].grid for name in names)
    return prod([grid.parts for grid in grids if grid is not None])


def parts_of_groups(
    frame: Frame, groups: Sequence[Group], bundles: Sequence[Sequence[int]], laws: Sequence[Law]
) -> tuple[int, ...]:
    """For each group, the parts of a record in which it is counted and noised."""
    if not any(attribute.is_measure for attribute in frame.schema):
        return (1,) * len(groups)
    own = [parts_of(frame.schema, group_attributes(frame, group)) for group in groups]
    found = [1] * len(groups)
    for bundle, law in zip(bundles, laws, strict=True):
        together = lcm(*(own[group] for group in bundle))
        for group in bundle:
            found[group] = own[group] * -(-_FINE // own[group]) if law == "rounded_max_norm" else together
        if max(found[group] for group in bundle) > LARGEST_PARTS:
            raise PlanError(
                "measures",
                expected=f"at most {LARGEST_PARTS:,} parts of a record in groups that are noised together; choose "
                "coarser steps, or a strategy that keeps measures apart",
                given=Plain(f"{together:,}"),
            )
    return tuple(found)
