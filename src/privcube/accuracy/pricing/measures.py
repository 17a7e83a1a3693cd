"""Into how many parts the groups of a bundle divide a record, found a second time. Zone: PUBLIC.

See THEORY section 14.
"""

from __future__ import annotations

from collections.abc import Sequence

from privcube.errors import PlanError
from privcube.model.groups import Block, BlockGroup, Group, MatrixGroup, SketchGroup
from privcube.model.plan import Plan


def checked_parts(plan: Plan, bundle: Sequence[int]) -> int:
    """The parts of a bundle's first group; refused unless answers are whole numbers of them and noise is drawn in them.

    The groups of a bundle have the same parts, unless their noise is rounded for each of them by itself. Then their
    scales must be the same in records.
    """
    parts, alike = plan.parts[bundle[0]], plan.law_of(bundle[0]) != "rounded_max_norm"
    for number in bundle:
        own = 1
        for name in _names(plan, plan.groups[number]):
            grid = plan.workload.schema[name].grid
            own *= 1 if grid is None else grid.parts
        counted = plan.parts[number]
        if (alike and counted != parts) or counted < 1 or counted % own:
            raise PlanError("plan", expected="one number of parts for a bundle, in which its answers are whole")
        if not alike and plan.drawn_scale(number) * parts != plan.drawn_scale(bundle[0]) * counted:
            raise PlanError("plan", expected="one scale in records for a bundle")
        if plan.drawn_variance(number) != plan.noise_variance(number) * counted**2:
            raise PlanError("plan", expected="noise that is drawn in the parts in which records are counted")
    return parts


def _names(plan: Plan, group: Group | Block) -> set[str]:
    """The attributes of a group, one axis or matrix after another."""
    schema, frame = plan.workload.schema, plan.frame
    if isinstance(group, SketchGroup):
        return set(schema.names)
    if isinstance(group, BlockGroup):
        return {name for block in group.blocks for name in _names(plan, block)}
    if isinstance(group, Block):
        return {*group.matrix.attributes, *group.contrasted}
    if isinstance(group, MatrixGroup):
        return set(group.attributes)
    axes = {part.axis for part in group}
    return {own.name for own in schema if axes & {axis for axis, _ in frame.footprint(own)}}
