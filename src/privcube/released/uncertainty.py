"""The variance of any linear query on the released tables, in closed form (THEORY section 2). Zone: RELEASED.

A query with weights w on the cells of a table has variance sum_b |Pi_b w|^2 / (s p_b), s the table's padded cells, over
the residuals b below the table. It can be asked of any table that the measurements determine, not only of those in the
workload. Plans predict with the variance of continuous noise; here it is that of the whole-number noise that was drawn
(`privcube.planning.accuracy`). Helmert rows under narrow noise are taken one by one: |Pi_b w|^2 is the sum of the
squares of w's coordinates on the very same rows, orthonormal, so each square gets the variance of its row.
"""

from __future__ import annotations

import numpy as np

from privcube.algebra.lattice import Floats, ResidualIndex
from privcube.algebra.residuals import level_slice, orthonormal_coordinates
from privcube.errors import PlanError
from privcube.model.groups import QueryGroup, cells_groups, product_groups
from privcube.model.plan import Plan
from privcube.model.workload import Table, Workload, axis_cells, table_name
from privcube.planning.accuracy import drawn_variances_after_optimal_recovery
from privcube.planning.layout import Layout
from privcube.planning.moments import discrete_gaussian_variance, exact_noise_variances, narrow_groups
from privcube.planning.structure import group_family


class Uncertainty:
    """Variances under a plan with optimal recovery; the precisions of its residuals are worked out once per table."""

    def __init__(self, plan: Plan) -> None:
        if plan.sources is not None:
            raise PlanError("variance of a query", expected="a plan with optimal recovery", given="direct recovery")
        self._plan = plan
        self._groups = product_groups(plan.groups)
        self._family = group_family(plan.frame, self._groups)
        self._weighted_by = plan.noise_variances()
        self._drawn = exact_noise_variances(plan)
        self._narrow = narrow_groups(plan)
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
        squares = orthonormal_coordinates(self._layout.padded(table, given).reshape(sizes), chains) ** 2
        own = group_family(frame, [group])
        index = ResidualIndex([len(chain) for chain in frame.fan_outs], own)
        says = index.incidence(self._family)
        precisions = says.transposed_times(1.0 / self._weighted_by)
        # With recovery weights (f/v)/p and noise of variance u, a residual has variance sum f u / v^2 over p^2.
        spread = says.transposed_times(self._drawn / self._weighted_by**2)
        variance = 0.0
        for batch in index.batches(own):
            residual = batch.residuals[0]
            places = [level_slice(chain, level) for chain, level in zip(chains, batch.levels, strict=True)]
            energy = float(squares[tuple(places)].sum())
            if precisions[residual] <= 0 and energy > 0:
                raise PlanError(table_name(table), expected="a table that the measurements determine")
            variance += float(energy * spread[residual] / precisions[residual] ** 2) if energy > 0 else 0.0
        for number in self._narrow:
            variance += self._row_by_row(number, group, squares, index, precisions)
        return variance / float(np.prod(sizes, dtype=np.float64))

    def _row_by_row(
        self, number: int, table: QueryGroup, squares: Floats, index: ResidualIndex, precisions: Floats
    ) -> float:
        """What to add because the rows of a Helmert group differ from their mean."""
        frame, mean, weighted_by = self._plan.frame, self._drawn[number], float(self._weighted_by[number])
        parts = {part.axis: part for part in self._groups[number]}
        added = 0.0
        for batch in index.batches(group_family(frame, [self._groups[number]])):
            if batch.residuals[0] < 0:  # not below the table
                continue
            level_of = dict(zip(parts, batch.levels, strict=True))
            places, weights = [], np.ones(())
            for axis, finest, _ in table:
                place = level_slice(frame.fan_outs[axis][:finest], level_of.get(axis, 0))
                own = np.ones(place.stop - place.start)
                if axis in parts and parts[axis].kind == "helmert":
                    j = np.arange(1, frame.fan_outs[axis][level_of[axis] - 1])
                    own = np.tile(j * (j + 1.0), len(own) // len(j))
                places.append(place)
                weights = np.multiply.outer(weights, own)
            different, row = np.unique(weights, return_inverse=True)
            worth = np.array([discrete_gaussian_variance(weighted_by * weight) / weight for weight in different])
            surplus = float(np.sum(squares[tuple(places)] * (worth[row].reshape(weights.shape) - mean)))
            added += surplus * float(batch.factors[0]) / (weighted_by * float(precisions[batch.residuals[0]])) ** 2
        return added

    def cell_variance(self, table: Table) -> float:
        """The variance of a cell of a table; the mean of its cells where they differ, under narrow Helmert rows.

        It is that of `privcube.planning.accuracy`, for any table that the measurements determine.
        """
        alone = Workload.tables(self._plan.workload.schema, [table])
        return float(drawn_variances_after_optimal_recovery(self._plan, alone)[0])
