"""Q: measure every wanted table, one query group each (section 3.1, "Collections of marginals"). Zone: PUBLIC."""

from __future__ import annotations

from typing import Final

from privcube.model.frame import Frame
from privcube.model.workload import Workload
from privcube.strategies.proposal import Proposal, cells_group, summed_from

NAME: Final = "marginals"
SYMBOL: Final = "Q"


def propose(workload: Workload) -> Proposal:
    """S = Q and R = I."""
    frame = Frame.natural(workload)
    groups = [cells_group(frame, table) for table in workload]
    return summed_from(workload, frame, groups, range(len(groups)))
