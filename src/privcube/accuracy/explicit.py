"""Estimates and error bars of plans whose rows are an explicit matrix: any table of their attributes. Zone: PUBLIC.

The cells of the attributes together are estimated by N z (`privcube.accuracy.matrix_structure`), and every query on
them is a sum of these. With r the weights of a query on the noisy answers, its variance is sum r^2 u, u the variance of
the whole-number noise that was drawn; the fourth cumulant of Laplace noise of scale s adds up to 12 sum r^4 s^4.
"""

from __future__ import annotations

import numpy as np

from privcube.accuracy.matrix_structure import ExplicitStructure, added_up, query, query_variances
from privcube.accuracy.moments import exact_noise_variances
from privcube.algebra.lattice import Floats
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.workload import Axis, Table


class ExplicitBars:
    """What the measurements of one plan say about tables, and how far that may be off."""

    def __init__(self, plan: Plan) -> None:
        self._structure = ExplicitStructure.of(plan.workload, plan.frame, plan.groups)
        self._recovery = self._structure.recovery(plan.noise_variances())
        group_of = self._structure.group_of
        self._drawn = exact_noise_variances(plan)[group_of]
        pure, groups = isinstance(plan.guarantee, PureDP), range(len(plan.groups))
        self._laplace = np.array([float(plan.noise_scale(group)) if pure else 0.0 for group in groups])[group_of]

    def determined(self, table: Table) -> bool:
        """Whether the measurements say something about every cell of a table."""
        names = {Axis.of(entry).attribute for entry in table}
        return names <= set(self._structure.schema.names) and self._structure.determines(table)

    def estimate(self, table: Table, answers: Floats) -> Floats:
        """A table from the noisy answers."""
        return added_up(self._structure.schema, table, self._recovery @ answers)

    def variances(self, table: Table) -> Floats:
        """The variance of every number of a table."""
        return query_variances(self._structure.schema, table, self._recovery * np.sqrt(self._drawn))

    def cell_kurtosis(self, table: Table) -> float:
        """The larger excess kurtosis of the first and the last number of a table: 0 if normal, 3 if Laplace."""
        ends = [query(self._structure.schema, table, place) @ self._recovery for place in (0, -1)]
        return max(map(self._kurtosis, ends))

    def query_variance(self, table: Table, weights: Floats) -> float:
        """The variance of a sum of weights times the cells of a table."""
        return float(np.sum(self._asked(table, weights) ** 2 * self._drawn))

    def kurtosis(self, table: Table, weights: Floats) -> float:
        """The excess kurtosis of the error of such a sum."""
        return self._kurtosis(self._asked(table, weights))

    def _asked(self, table: Table, weights: Floats) -> Floats:
        """The weights of such a sum on the noisy answers."""
        rows = added_up(self._structure.schema, table, self._recovery)
        return np.asarray(np.tensordot(weights, rows, axes=weights.ndim))

    def _kurtosis(self, asked: Floats) -> float:
        variance = float(np.sum(asked**2 * self._drawn))
        return 12 * float(np.sum((asked * self._laplace) ** 4)) / variance**2 if variance**2 > 0 else 0.0
