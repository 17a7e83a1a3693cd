"""W: Haar wavelets, in one dimension and products (section 3.1, "Hierarchical structures"). Zone: PUBLIC.

Every attribute is the leaves of a binary tree. Group l of a tree holds the contrasts of level l, the differences of the
two halves of every node above it: entries 0, +1, -1 where the orthonormal wavelet has the same divided by the square
root of the node's length. In several dimensions groups are products of levels.
"""

from __future__ import annotations

from typing import Final

from privcube.model.frame import Frame
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload
from privcube.strategies.proposal import Proposal, one_group_per_residual

NAME: Final = "wavelet"
SYMBOL: Final = "W"


def propose(workload: Workload, guarantee: Guarantee) -> Proposal:
    """S = the Haar coefficients that the workload needs."""
    return one_group_per_residual(workload, frame_of(workload), "contrast")


def frame_of(workload: Workload) -> Frame:
    """Every attribute as the leaves of a binary tree."""
    return Frame(workload.schema, "tree", 2, frozenset(workload.schema.names))
