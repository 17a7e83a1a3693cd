"""Plans with groups that are not products over axes: dense least squares over a small domain. Zone: PUBLIC.

The joint cells of the attributes are estimated by N z (`privcube.accuracy.matrix_structure`), and every query is a sum
of them. If a query has weights r on the noisy answers, its error is sum r z over independent draws z.

See THEORY section 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from privcube.accuracy.intervals import ErrorLaw, TableErrors
from privcube.accuracy.matrix_structure import ExplicitStructure, added_up, query, query_covariances, query_variances
from privcube.accuracy.moments import exact_noise_variances
from privcube.algebra.lattice import Floats
from privcube.model.plan import Plan
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

    def margin_errors(self, table: Table, margin: Table) -> tuple[Floats, Floats]:
        """The variances of a margin, and the covariance of every number of the table with it."""
        rows = self._recovery * np.sqrt(self._drawn)
        return self.variances(margin), query_covariances(self._structure.schema, table, margin, rows)

    def unit_rows(self, table: Table) -> Floats:
        """The weights of every number of a table on the answers, times the standard deviation of their noise."""
        return added_up(self._structure.schema, table, self._recovery * np.sqrt(self._drawn))

    def errors(self, table: Table) -> TableErrors:
        """The errors of the numbers of a table."""
        variances = self.variances(table)

        def law_of(number: int) -> ErrorLaw:
            place = [int(at) for at in np.unravel_index(number, variances.shape)]
            return self._law(query(self._structure.schema, table, place) @ self._recovery)

        return TableErrors.of(variances, law_of, alike=False)

    def query_law(self, table: Table, weights: Floats) -> ErrorLaw:
        """The law of the error of a sum of weights times the numbers of a table."""
        rows = added_up(self._structure.schema, table, self._recovery)
        return self._law(np.asarray(np.tensordot(weights, rows, axes=weights.ndim)))

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

    def _law(self, asked: Floats) -> ErrorLaw:
        """The law of a sum with these weights on the noisy answers."""
        parameters = self._plan.drawn_variances()[self._structure.group_of]
        parts = np.array(self._plan.parts, dtype=np.float64)[self._structure.group_of]
        return ErrorLaw.of(self._plan.guarantee.noise, asked / parts, np.ones(len(asked)), parameters)
