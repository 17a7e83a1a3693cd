"""H: trees of counts over ordered attributes, a group per level (section 3.1, "Hierarchical structures"). Zone: PUBLIC.

The cells of an attribute queried by ranges or prefixes become the leaves of a b-ary tree; other attributes are measured
by cells. Step 2 sums a range from the fewest nodes of the tree (Cormode et al. 2012, Hay et al. 2010).
"""

from __future__ import annotations

import itertools
from typing import Final

from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Axis, Table, Workload
from privcube.strategies.proposal import Proposal

NAME: Final = "hierarchy"
SYMBOL: Final = "H"


def propose(workload: Workload, guarantee: Guarantee, branching: int = 2) -> Proposal:
    """S = all levels of the trees for the wanted ranges."""
    frame = frame_of(workload, branching)
    wanted = [_levels(frame, table) for table in workload]
    numbers = {group: number for number, group in enumerate(dict.fromkeys(itertools.chain(*wanted)))}
    return Proposal(frame, tuple(numbers), tuple(tuple(numbers[group] for group in groups) for groups in wanted))


def frame_of(workload: Workload, branching: int = 2) -> Frame:
    """A frame with a tree for every attribute queried by ranges or prefixes."""
    return Frame(workload.schema, "tree", branching, ranged(workload))


def ranged(workload: Workload) -> frozenset[str]:
    """The attributes that some table queries by ranges or prefixes."""
    axes = (entry for table in workload for entry in table if isinstance(entry, Axis))
    return frozenset(axis.attribute for axis in axes if axis.is_ranged)


def _levels(frame: Frame, table: Table) -> list[QueryGroup]:
    """The groups of a table: every level of its ranged attributes, and the cells of the others."""
    choices: list[list[tuple[GroupPart, ...]]] = []
    for entry in table:
        axis = Axis.of(entry)
        ((number, finest),) = frame.footprint(frame.schema[axis.attribute], axis.level)
        lowest = 0 if axis.is_ranged else finest
        choices.append([(GroupPart(number, level),) if level else () for level in range(lowest, finest + 1)])
    return [tuple(itertools.chain(*choice)) for choice in itertools.product(*choices)]
