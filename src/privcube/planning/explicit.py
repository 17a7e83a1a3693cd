"""Predicted accuracy of groups without product structure, by dense least squares on small domains. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.errors import PlanError, counted
from privcube.linear.matrices import strategy_matrix, workload_matrix
from privcube.linear.recovery import optimal_recovery, predicted_variances
from privcube.model.frame import Frame
from privcube.model.groups import Group, group_rows
from privcube.model.workload import Workload, table_cells

MOST_CELLS: Final = 1_024


@dataclass(frozen=True)
class ExplicitStructure:
    """The same questions as `Structure` answers, asked of explicit matrices Q and S."""

    groups: tuple[Group, ...]
    queries: Any  # Q
    rows: Any  # S
    group_of: Integers  # per row of S
    table_of: Integers  # per row of Q
    cells: Floats  # per table
    weights: Floats  # per table

    @classmethod
    def of(cls, workload: Workload, frame: Frame, groups: Sequence[Group]) -> ExplicitStructure:
        """Write out the matrices."""
        domain = workload.schema.domain_size
        if domain > MOST_CELLS:
            raise PlanError(
                "sketch", expected=f"a domain of at most {MOST_CELLS:,} cells", given=f"{counted(domain)} cells"
            )
        cells = [table_cells(workload.schema, table) for table in workload]
        return cls(
            groups=tuple(groups),
            queries=workload_matrix(workload, frame),
            rows=strategy_matrix(frame, groups),
            group_of=np.repeat(np.arange(len(groups)), [group_rows(frame, group) for group in groups]),
            table_of=np.repeat(np.arange(len(cells)), cells),
            cells=np.array(cells, dtype=np.float64),
            weights=np.array(workload.weights),
        )

    def table_variances(self, variances: Floats) -> Floats:
        """The mean variance of a cell of every table after optimal recovery."""
        return self.drawn_variances(variances, variances)

    def drawn_variances(self, weighted_by: Floats, drawn: Floats) -> Floats:
        """The same if recovery is optimal for some variances and the noise that is drawn has others."""
        recovery = optimal_recovery(self.queries, self.rows, weighted_by[self.group_of])
        per_query = predicted_variances(recovery, drawn[self.group_of])
        return np.asarray(np.bincount(self.table_of, per_query) / self.cells)

    def group_coefficients(self, variances: Floats) -> Floats:
        """The paper's sum of b_i over each group (without its factor 2) for the optimal R of these variances."""
        recovery = optimal_recovery(self.queries, self.rows, variances[self.group_of])
        per_row = (recovery**2).T @ self.weights[self.table_of]
        return np.asarray(np.bincount(self.group_of, per_row, minlength=len(self.groups)), dtype=np.float64)
