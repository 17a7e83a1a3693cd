"""W: Haar wavelets, in one dimension and products (section 3.1, "Hierarchical structures"). Zone: PUBLIC.

The cells of every attribute are the leaves of a binary tree. Group l of a tree holds the contrasts of level l, the
differences between the two halves of every node above it: the orthonormal wavelet times the square root of the node's
length, with entries 0, +1 and -1. In several dimensions groups are products of levels.
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
    """A frame with a binary tree for every attribute."""
    return Frame(workload.schema, "tree", 2, frozenset(workload.schema.names))
