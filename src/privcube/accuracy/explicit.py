"""Plans with groups that are not products over axes: dense least squares over a small domain. Zone: PUBLIC.

The joint cells of the attributes are estimated by N z (`privcube.accuracy.matrix_structure`), and every query is a sum
of them. If a query has weights r on the noisy answers, its variance is sum r^2 u, with u the variances of the
whole-number noise drawn; with Laplace noise of scale s its fourth cumulant is 12 sum r^4 s^4.

See THEORY section 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from privcube.accuracy.matrix_structure import ExplicitStructure, added_up, query, query_variances
from privcube.accuracy.moments import exact_noise_variances
from privcube.algebra.lattice import Floats
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.workload import Axis, Table
from privcube.progress import RECOVERING, Progress, silent


class ExplicitForm:
    """The predictor (`privcube.accuracy.predictor`) of a plan whose rows are explicit matrices."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._structure = ExplicitStructure.of(plan.workload, plan.frame, plan.groups)

    def determines(self, table: Table) -> bool:
        """Whether the measurements determine every cell of a table."""
        names = {Axis.of(entry).attribute for entry in table}
        return names <= set(self._structure.schema.names) and self._structure.determines(table)

    def mean_variances(self) -> Floats:
        """For every table of the workload, the mean variance of its numbers."""
        return self._structure.drawn_variances(self._plan.noise_variances(), exact_noise_variances(self._plan))

    def variances(self, table: Table) -> Floats:
        """The variance of every number of a table."""
        return query_variances(self._structure.schema, table, self._recovery * np.sqrt(self._drawn))

    def kurtosis(self, table: Table) -> float:
        """The larger excess kurtosis of the first and the last number of a table."""
        ends = [query(self._structure.schema, table, place) @ self._recovery for place in (0, -1)]
        return max(self._moments(asked)[1] for asked in ends)

    def query_moments(self, table: Table, weights: Floats) -> tuple[float, float]:
        """Variance and excess kurtosis of a sum of weights times the numbers of a table."""
        rows = added_up(self._structure.schema, table, self._recovery)
        return self._moments(np.asarray(np.tensordot(weights, rows, axes=weights.ndim)))

    def source(self, table: Table) -> Table:
        """The table itself, since any table is summed from the estimated cells."""
        return table

    def derived(self, table: Table, source: Floats) -> Floats:
        """The source itself."""
        return source

    def recover(self, sources: Sequence[Table], answers: Floats, progress: Progress = silent) -> dict[Table, Floats]:
        """Tables from the noisy answers."""
        progress(RECOVERING, 0, None)
        cells = self._recovery @ answers
        return {table: added_up(self._structure.schema, table, cells) for table in sources}

    @cached_property
    def _recovery(self) -> Floats:
        return self._structure.recovery(self._plan.noise_variances())

    @cached_property
    def _drawn(self) -> Floats:
        """The variance of the noise drawn on every row."""
        return np.asarray(exact_noise_variances(self._plan)[self._structure.group_of])

    @cached_property
    def _laplace(self) -> Floats:
        """The scale of Laplace noise on every row, 0 where the noise is Gaussian."""
        pure, groups = isinstance(self._plan.guarantee, PureDP), range(len(self._plan.groups))
        scales = np.array([float(self._plan.noise_scale(group)) if pure else 0.0 for group in groups])
        return np.asarray(scales[self._structure.group_of])

    def _moments(self, asked: Floats) -> tuple[float, float]:
        """Variance and excess kurtosis of a sum with these weights on the noisy answers."""
        variance = float(np.sum(asked**2 * self._drawn))
        fourth = 12 * float(np.sum((asked * self._laplace) ** 4))
        return variance, fourth / variance**2 if variance**2 > 0 else 0.0
