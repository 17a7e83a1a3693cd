"""Plans for the largest error: against the total's plan, a dense grid, and the reference figures."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from reference_figures import reference_rows
from reference_figures import workload as reference_workload

import privcube as pc
from privcube import errors

SCHEMA = pc.Schema.from_sizes({"a": 2, "b": 3, "c": 5})
WORKLOAD = pc.Workload.tables(SCHEMA, [("a",), ("b",), ("a", "b"), ("b", "c")])
GUARANTEES = [pc.PureDP(1), pc.PureDP("0.5", neighbors="replace_one"), pc.ZCDP("0.5"), pc.ApproxDP(1, "1e-6")]
MAXVAR = [row for row in reference_rows() if row["method"].startswith("ResidualPlanner maxvar")]
MAXVAR = [row for row in MAXVAR if row["metric"] == "max_cell_variance"]


@cache
def least_largest(guarantee) -> pc.Plan:
    return pc.plan(WORKLOAD, guarantee, objective="largest")


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_the_largest_variance_is_no_larger_than_under_the_total(guarantee) -> None:
    total = pc.plan(WORKLOAD, guarantee)
    largest = least_largest(guarantee)
    assert max(largest.table_variances) < max(total.table_variances)
    assert total.total_variance <= largest.total_variance * (1 + 1e-9)
    assert largest.options.objective == "largest"
    assert pc.Plan.from_json(largest.to_json()) == largest
    assert largest.workload == WORKLOAD


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_wanted_standard_errors_are_missed_by_the_same_factor(guarantee) -> None:
    """At the optimum the tables that matter have equal ratios; others are better than wanted."""
    wanted = {("a",): 1.0, ("a", "b"): 3.0, ("b", "c"): 2.0}
    made = pc.plan(WORKLOAD, guarantee, wanted=wanted)
    ratios = np.array([made.table_variance(table) / error**2 for table, error in wanted.items()])
    other = least_largest(guarantee)
    other_ratios = [other.table_variance(table) / error**2 for table, error in wanted.items()]
    assert ratios.max() < max(other_ratios)
    assert np.sum(ratios > 0.97 * ratios.max()) >= 2


@pytest.mark.parametrize("row", MAXVAR, ids=lambda row: f"{row['domain'][:5]}-{row['workload']}")
def test_the_largest_variance_under_gaussian_noise_is_the_known_optimum(row) -> None:
    made = pc.plan(reference_workload(row["domain"], row["workload"]), pc.ZCDP("0.5"), objective="largest")
    assert max(made.table_variances) == pytest.approx(float(row["value"]), rel=1e-6)


def test_two_tables_against_a_grid_of_budgets() -> None:
    """Pure, one group each: no split of the budget on a fine grid has a smaller largest variance."""
    schema = pc.Schema.from_sizes({"x": 40, "y": 30})
    workload = pc.Workload.tables(schema, [("x",), ("y",)])
    made = pc.plan(workload, pc.PureDP(1), objective="largest")
    best = np.inf
    for share in np.linspace(0.01, 0.99, 99):
        x, y = 2 / share**2, 2 / (1 - share) ** 2
        total = 1 / (1 / (40 * x) + 1 / (30 * y))  # both tables sum to it
        variances = [v * (1 - 1 / n) + total / n**2 for v, n in ((x, 40), (y, 30))]
        best = min(best, max(variances))
    assert max(made.table_variances) <= best * (1 + 1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wanted": {("c",): 1.0}}, "tables of the workload"),
        ({"wanted": {("a",): 0.0}}, "above 0"),
        ({"wanted": {("a",): float("inf")}}, "above 0"),
        ({"wanted": {}}, "at least one table"),
        ({"objective": "largest", "strategy": "marginals"}, "auto or search"),
        ({"objective": "largest", "recovery": "direct"}, "optimal recovery"),
        ({"objective": "smallest"}, "a known name"),
    ],
)
def test_refusals(options, message: str) -> None:
    with pytest.raises(errors.PlanError, match=message):
        pc.plan(WORKLOAD, pc.PureDP(1), **options)
