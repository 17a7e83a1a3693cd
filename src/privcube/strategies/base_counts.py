"""I: measure the base table, the joint cells of all attributes (section 3.1, "Base counts"). Zone: PUBLIC."""

from __future__ import annotations

from typing import Final

from privcube.errors import Plain, PlanError, counted
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, group_rows
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload
from privcube.strategies.proposal import Proposal

NAME: Final = "base_counts"
SYMBOL: Final = "I"

MOST_CELLS: Final = 10**8  # of the domain: 800 MB of counts


def propose(workload: Workload, guarantee: Guarantee) -> Proposal:
    """S = I and R = Q: every table is summed from the base counts."""
    frame = Frame.natural(workload)
    group = tuple(GroupPart(axis, len(chain)) for axis, chain in enumerate(frame.fan_outs))
    rows = group_rows(frame, group)
    if rows > MOST_CELLS:
        raise PlanError(
            "base_counts",
            expected=f"a domain of at most {MOST_CELLS:,} cells",
            given=Plain(f"{counted(rows)} cells, {counted(rows * 8 // 2**30)} GiB of counts"),
        )
    return Proposal(frame, (group,), ((0,),) * len(workload))
