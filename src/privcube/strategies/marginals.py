"""Q: measure every wanted table, one query group each (section 3.1, "Collections of marginals"). Zone: PUBLIC."""

from __future__ import annotations

from typing import Final

from privcube.model.frame import Frame
from privcube.model.groups import cells_groups
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload
from privcube.strategies.proposal import Proposal

NAME: Final = "marginals"
SYMBOL: Final = "Q"


def propose(workload: Workload, guarantee: Guarantee) -> Proposal:
    """S = Q and R = I; ranges are summed from measured cells."""
    frame = Frame.natural(workload)
    wanted = cells_groups(frame, workload)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(wanted))}
    return Proposal(frame, tuple(numbers), tuple((numbers[group],) for group in wanted))
