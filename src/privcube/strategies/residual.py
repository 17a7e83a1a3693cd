"""R: measure each residual once by Helmert rows, the Gaussian optimum for tables (THEORY section 4). Zone: PUBLIC.

With budgets proportional to sqrt(k_b c_b) this has the least total variance of all linear strategies on tables under
Gaussian noise (Xiao, He, Zhang and Kifer 2023). The rows are whole numbers, so the noise can be as well.
"""

from __future__ import annotations

from typing import Final

from privcube.model.frame import Frame
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload
from privcube.strategies.proposal import Proposal, one_group_per_residual

NAME: Final = "residual"
SYMBOL: Final = "R"


def propose(workload: Workload, guarantee: Guarantee, frame: Frame | None = None) -> Proposal:
    """S = orthogonal rows for every residual that some table needs."""
    return one_group_per_residual(workload, Frame.natural(workload) if frame is None else frame, "helmert")
