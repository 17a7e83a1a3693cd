"""The variance of any linear query on the released tables, in closed form (THEORY section 2). Zone: RELEASED.

A query with weights w on the cells of a table has variance sum_b |Pi_b w|^2 / (s p_b), s the table's padded cells, over
the residuals b below the table. It can be asked of any table that the measurements determine, not only of those in the
workload. Plans predict with the variance of continuous noise; here it is that of the whole-number noise that was drawn.
"""

from __future__ import annotations

import numpy as np

from privcube.algebra.lattice import Floats, ResidualIndex
from privcube.algebra.residuals import residual_energies
from privcube.errors import PlanError
from privcube.model.groups import cells_groups, product_groups
from privcube.model.plan import Plan
from privcube.model.workload import Table, axis_cells, table_name
from privcube.planning.layout import Layout
from privcube.planning.moments import exact_noise_variances
from privcube.planning.structure import group_family


class Uncertainty:
    """Variances under a plan with optimal recovery; the precisions of its residuals are worked out once per table."""

    def __init__(self, plan: Plan) -> None:
        if plan.sources is not None:
            raise PlanError("variance of a query", expected="a plan with optimal recovery", given="direct recovery")
        self._plan = plan
        self._family = group_family(plan.frame, product_groups(plan.groups))
        self._weighted_by = plan.noise_variances()
        self._drawn = exact_noise_variances(plan)
        self._layout = Layout(plan.frame)

    def query_variance(self, table: Table, weights: Floats) -> float:
        """The variance of the sum of weights times the cells of a table."""
        schema = self._plan.workload.schema
        shape = tuple(axis_cells(schema, entry) for entry in table)
        given = np.asarray(weights, dtype=np.float64)
        if given.shape != shape or not np.all(np.isfinite(given)):
            raise PlanError(f"weights on {table_name(table)}", expected=f"finite, of shape {shape}", given=given.shape)
        frame = self._plan.frame
        (group,) = cells_groups(frame, [table])
        chains = [frame.fan_outs[part.axis][: part.level] for part in group]
        sizes = [frame.sizes[part.axis][part.level] for part in group]
        energies = residual_energies(self._layout.padded(table, given).reshape(sizes), chains)
        own = group_family(frame, [group])
        index = ResidualIndex([len(chain) for chain in frame.fan_outs], own)
        says = index.incidence(self._family)
        precisions = says.transposed_times(1.0 / self._weighted_by)
        # With recovery weights (f/v)/p and noise of variance u, a residual has variance sum f u / v^2 over p^2.
        spread = says.transposed_times(self._drawn / self._weighted_by**2)
        variance = 0.0
        for batch in index.batches(own):
            energy, residual = energies[batch.levels], batch.residuals[0]
            if precisions[residual] <= 0 and energy > 0:
                raise PlanError(table_name(table), expected="a table that the measurements determine")
            variance += float(energy * spread[residual] / precisions[residual] ** 2) if energy > 0 else 0.0
        return variance / float(np.prod(sizes, dtype=np.float64))

    def cell_variance(self, table: Table) -> float:
        """The variance of one cell of a table; all cells have the same."""
        weights = np.zeros([axis_cells(self._plan.workload.schema, entry) for entry in table])
        weights[(0,) * weights.ndim] = 1.0
        return self.query_variance(table, weights)
