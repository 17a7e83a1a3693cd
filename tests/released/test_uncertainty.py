"""The variance of any linear query: closed form against the dense covariance and against simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from privcube import ZCDP, Axis, Plan, PureDP, Schema, Workload, errors, linear, plan
from privcube.model.groups import GroupPart, group_rows, row_weights
from privcube.planning.accuracy import drawn_table_variances
from privcube.planning.moments import discrete_gaussian_variance, exact_noise_variances
from privcube.released.recovery import recover
from privcube.released.uncertainty import Uncertainty

SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 4})


@pytest.mark.parametrize("strategy", ["base_counts", "marginals", "fourier", "clusters", "wavelet"])
@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5", neighbors="replace_one")])
def test_against_the_dense_covariance(strategy: str, guarantee) -> None:
    made = plan(Workload.all_kway(SCHEMA, 2), guarantee, strategy)
    known = Uncertainty(made)
    rows = linear.strategy_matrix(made.frame, made.groups).toarray()
    noise = np.repeat(made.noise_variances(), [group_rows(made.frame, group) for group in made.groups])
    drawn = np.repeat(exact_noise_variances(made), [group_rows(made.frame, group) for group in made.groups])
    for table in [("a", "b"), ("b", "c"), ("c",), ()]:
        cells = Workload.tables(SCHEMA, [table])
        queries = linear.workload_matrix(cells, made.frame).toarray()
        weights = np.cos(np.arange(len(queries)) + 1.0)
        recovery = linear.optimal_recovery(weights @ queries, rows, noise)
        expected = linear.predicted_variances(recovery, drawn)[0]
        shape = [SCHEMA[name].cells for name in table]
        assert known.query_variance(table, weights.reshape(shape)) == pytest.approx(expected, rel=1e-9)
    assert known.cell_variance(("a", "b")) == pytest.approx(made.table_variance(("a", "b")), rel=0.1)
    assert known.cell_variance(("a", "b")) <= made.table_variance(("a", "b"))


def narrow() -> Plan:
    return plan(Workload.all_kway(SCHEMA, 2), ZCDP(20), "residual")


def narrow_mixed() -> Plan:
    """Helmert rows and cells in one group: no strategy makes this."""
    helmert, cells = GroupPart(2, 1, "helmert"), GroupPart(1, 1)
    groups = ((cells, helmert), (GroupPart(0, 1), cells))
    part = narrow().denominator // 3
    return replace(narrow(), groups=groups, shares=(2 * part, part))


@pytest.mark.parametrize("make", [narrow, narrow_mixed])
@pytest.mark.parametrize("table", [("b", "c"), ("c",), ("a", "b")])
def test_narrow_helmert_rows_are_taken_one_by_one(make: Callable[[], Plan], table: tuple[str, ...]) -> None:
    """Against the dense covariance, row by row; cells differ, and the variance of a cell is their mean."""
    made = make()
    known = Uncertainty(made)
    rows = linear.strategy_matrix(made.frame, made.groups).toarray()
    noise = [
        float(made.noise_variance(number)) * weight
        for number, group in enumerate(made.groups)
        for weight in row_weights(made.frame, group)
    ]
    drawn = [discrete_gaussian_variance(variance) for variance in noise]
    queries = linear.workload_matrix(Workload.tables(SCHEMA, [table]), made.frame).toarray()
    cells = linear.predicted_variances(linear.optimal_recovery(queries, rows, noise), drawn)
    shape = [SCHEMA[name].cells for name in table]
    units = np.eye(len(queries)).reshape(len(queries), *shape)
    np.testing.assert_allclose([known.query_variance(table, unit) for unit in units], cells, rtol=1e-9)
    assert known.cell_variance(table) == pytest.approx(cells.mean(), rel=1e-9)
    assert ("c" in table or make is narrow) == (np.ptp(cells) > 1e-3 * cells.mean())
    weights = np.cos(np.arange(len(queries)) + 1.0)
    recovery = linear.optimal_recovery(weights @ queries, rows, noise)
    expected = linear.predicted_variances(recovery, drawn)[0]
    assert known.query_variance(table, weights.reshape(shape)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("guarantee", [PureDP(4), ZCDP(4)])
def test_cells_have_the_variance_that_the_plan_is_told(guarantee) -> None:
    made = plan(Workload.all_kway(SCHEMA, 2), guarantee, "marginals")
    known = Uncertainty(made)
    for table, variance in zip(made.workload, drawn_table_variances(made), strict=True):
        assert known.cell_variance(table) == pytest.approx(variance, rel=1e-9)
        corner = np.zeros([SCHEMA[name].cells for name in table])
        corner[-1, -1] = 1.0
        assert known.query_variance(table, corner) == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("strategy", ["marginals", "fourier", "hierarchy", "wavelet", "clusters", "sketch"])
@pytest.mark.parametrize("recovery", ["direct", "optimal"])
def test_predicted_variances_match_simulation(strategy: str, recovery: str) -> None:
    """Laplace noise of the plan's scales, 20,000 times, within 5 %; noise 10 % short would be noticed."""
    schema = Schema.from_sizes({"a": 2, "x": 4})
    workload = Workload.all_kway(schema, 1) | Workload.all_kway(schema, 2)
    if strategy in ("hierarchy", "wavelet"):
        workload = Workload.tables(schema, [("a", Axis("x", queries="ranges")), ("a",)])
    made = plan(workload, PureDP("0.5"), strategy, recovery=recovery)
    rows = [group_rows(made.frame, group) for group in made.groups]
    units = [recover(made, unit) for unit in np.eye(sum(rows))]  # recovery is linear: read its matrix off
    scales = np.repeat((made.noise_variances() / 2) ** 0.5, rows)
    noise = np.random.default_rng(11).laplace(scale=scales, size=(20_000, len(scales)))
    for table in workload:
        matrix = np.stack([unit[table].ravel() for unit in units])
        measured = float(np.mean((noise @ matrix) ** 2))
        assert measured == pytest.approx(made.table_variance(table), rel=0.05)
        assert measured != pytest.approx(made.table_variance(table) * 0.81, rel=0.05)


def test_what_is_refused() -> None:
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    known = Uncertainty(made)
    with pytest.raises(errors.PlanError, match="determine"):
        known.cell_variance(("a", "b"))
    with pytest.raises(errors.PlanError, match="shape"):
        known.query_variance(("a",), np.ones(3))
    with pytest.raises(errors.PlanError, match="finite"):
        known.query_variance(("a",), np.array([1.0, np.inf]))
    with pytest.raises(errors.PlanError, match="optimal"):
        Uncertainty(plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals", recovery="direct"))
