"""F: measure the Fourier coefficients of the wanted tables (sections 3.1 and 4.1). Zone: PUBLIC.

Attributes are encoded in bits; each set of bits beta has one coefficient, sum_x (-1)^<beta, x> x, as a group of one
row. It is the paper's f^beta times 2^(d/2): the same information in whole numbers, with entries +1 and -1. The
coefficients needed are F = union over the tables alpha of {beta : beta is dominated by alpha}.
"""

from __future__ import annotations

from typing import Final

from privcube.model.frame import Frame
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload
from privcube.strategies.proposal import Proposal, one_group_per_residual

NAME: Final = "fourier"
SYMBOL: Final = "F"


def propose(workload: Workload, guarantee: Guarantee) -> Proposal:
    """S = the Fourier matrix restricted to the coefficients of the workload."""
    return one_group_per_residual(workload, frame_of(workload), "contrast")


def frame_of(workload: Workload) -> Frame:
    """A frame with one axis per bit."""
    return Frame.natural(workload, "binary")
