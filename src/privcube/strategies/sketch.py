"""Sketches: sparse random projections of the base table, one group per partition (section 3.1). Zone: PUBLIC.

Each partition sends every base cell to one of N/2 buckets with a sign. Three partitions usually determine all N cells;
more are added until they do, so that every table is unbiased. Recovery uses explicit matrices from step 2 on, so the
domain must be small.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from privcube.accuracy.matrix_structure import MOST_CELLS, ExplicitStructure
from privcube.errors import Plain, PlanError, counted
from privcube.model.frame import Frame
from privcube.model.groups import SketchGroup
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload
from privcube.strategies.proposal import Proposal

NAME: Final = "sketch"
SYMBOL: Final = "sketch"

_FEWEST: Final = 3  # partitions; fewer rarely determine all cells
_MOST: Final = 12  # partitions: a safeguard, as each one more divides the budget further


def propose(workload: Workload, guarantee: Guarantee) -> Proposal:
    """S = the fewest partitions, at least three, that determine the workload."""
    frame = Frame(workload.schema, "natural")
    if workload.schema.domain_size > MOST_CELLS:
        given = Plain(f"{counted(workload.schema.domain_size)} cells")
        raise PlanError("sketch", expected=f"a domain of at most {MOST_CELLS:,} cells", given=given)
    buckets = max(1, (workload.schema.domain_size + 1) // 2)
    for count in range(_FEWEST, _MOST + 1):
        groups = tuple(SketchGroup(partition, buckets) for partition in range(count))
        structure = ExplicitStructure.of(workload, frame, groups)
        try:
            structure.table_variances(np.ones(count))
        except PlanError:
            continue
        return Proposal(frame, groups, None)
    raise PlanError("sketch", expected=f"a workload that {_MOST} partitions determine")
