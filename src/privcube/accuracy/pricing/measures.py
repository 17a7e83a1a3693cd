"""Into how many parts the groups of a bundle divide a record, found a second time. Zone: PUBLIC.

See THEORY section 14.
"""

from __future__ import annotations

from collections.abc import Sequence

from privcube.errors import PlanError
from privcube.model.groups import Block, BlockGroup, Group, MatrixGroup, SketchGroup
from privcube.model.plan import Plan


def checked_parts(plan: Plan, bundle: Sequence[int]) -> int:
    """The parts of a bundle; refused unless its answers are whole numbers of them and its noise is drawn in them."""
    parts = plan.parts[bundle[0]]
    for number in bundle:
        own = 1
        for name in _names(plan, plan.groups[number]):
            grid = plan.workload.schema[name].grid
            own *= 1 if grid is None else grid.parts
        if plan.parts[number] != parts or parts < 1 or parts % own:
            raise PlanError("plan", expected="one number of parts for a bundle, in which its answers are whole")
        if plan.drawn_variance(number) != plan.noise_variance(number) * parts**2:
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
