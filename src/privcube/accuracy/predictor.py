"""One protocol to recover tables from the measurements of a plan and to predict their errors. Zone: PUBLIC.

A plan fixes a linear map from noisy answers to tables, and with it every error. Four classes implement that map:
- `ClosedForm`: groups that are products over axes, recovered by least squares residual by residual (THEORY section 2);
- `ExplicitForm`: any groups over a small domain, by dense least squares (THEORY section 12);
- `BlockForm`: one group of blocks, by dense least squares for each of them (THEORY section 12.1);
- `DirectForm`: the recovery of step 2, where each table is summed from its own groups and need not agree with others.
Only `predictor` chooses among them. Before data is read it predicts errors; afterward it recovers tables.

See THEORY section 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from privcube.accuracy.blocks.form import BlockForm
from privcube.accuracy.closed_form import ClosedForm
from privcube.accuracy.direct import DirectForm
from privcube.accuracy.errors.covariances import Covariances
from privcube.accuracy.explicit import ExplicitForm
from privcube.accuracy.intervals import ErrorLaw, TableErrors
from privcube.algebra.lattice import Floats
from privcube.errors import PlanError
from privcube.model.groups import BlockGroup, is_structured
from privcube.model.plan import Plan
from privcube.model.workload import Table
from privcube.progress import Progress, silent


class Predictor(Protocol):
    """Recovers tables from the measurements of one plan and predicts their errors under the noise drawn."""

    def determines(self, table: Table) -> bool:
        """Whether the measurements determine a table."""

    def mean_variances(self) -> Floats:
        """For every table of the workload, the mean variance of its numbers."""

    def variances(self, table: Table) -> Floats:
        """The variance of every number of a table."""

    def margin_errors(self, table: Table, margin: Table) -> tuple[Floats, Floats]:
        """The variances of the margin of a table, and the covariance of every number of the table with it.

        A margin is the sum over some entries of a table, none of which has ranges: the table without them.
        """

    def errors(self, table: Table) -> TableErrors:
        """The variances of a table's numbers, and what their intervals follow from."""

    def query_law(self, table: Table, weights: Floats) -> ErrorLaw:
        """The law of the error of a sum of weights times the numbers of a table."""

    def source(self, table: Table) -> Table:
        """The table to recover in place of this one, whose ranges and unmeasured levels are sums of it."""

    def derived(self, table: Table, source: Floats) -> Floats:
        """A table from the numbers of its source."""

    def recover(self, sources: Sequence[Table], answers: Floats, progress: Progress = silent) -> dict[Table, Floats]:
        """Source tables from the noisy answers to the groups of the plan, concatenated in plan order."""


def predictor(plan: Plan, tables: Sequence[Table] | None = None) -> Predictor:
    """The predictor of a plan, prepared for the given tables (by default, the workload's)."""
    if plan.sources is not None:
        return DirectForm(plan)
    if is_structured(plan.groups):
        return ClosedForm(plan, list(plan.workload) if tables is None else tables)
    if any(isinstance(group, BlockGroup) for group in plan.groups):
        return BlockForm(plan)
    return ExplicitForm(plan)


def covariances(found: Predictor, table: Table) -> Covariances | None:
    """The covariance of any two numbers of a table; None where it has no short form, as in explicit recovery."""
    return found.covariances(table) if isinstance(found, ClosedForm) else None


def drawn_table_variances(plan: Plan) -> Floats:
    """The exact mean cell variance of every table of a plan under the whole-number noise that is drawn.

    Plans are made, compared and documented with the variances of continuous noise, as in the literature.

    >>> from privcube import PureDP, Schema, Workload, plan
    >>> made = plan(Workload.full_cube(Schema.from_sizes({"a": 3})), PureDP(4), "marginals")
    >>> made.table_variances, drawn_table_variances(made).round(3).tolist()
    ((0.440..., 0.287...), [0.324, 0.189])
    """
    return predictor(plan).mean_variances()


def recover(plan: Plan, answers: Floats, progress: Progress = silent) -> dict[Table, Floats]:
    """All tables of a plan's workload from the noisy answers, in plan order, each group in row-major order."""
    if len(answers) != plan.rows:
        raise PlanError("answers", expected=f"{plan.rows:,} numbers, one per row of the plan", given=len(answers))
    found = predictor(plan)
    source_of = {table: found.source(table) for table in plan.workload}
    recovered = found.recover(list(dict.fromkeys(source_of.values())), answers, progress)
    return {table: found.derived(table, recovered[source]) for table, source in source_of.items()}
