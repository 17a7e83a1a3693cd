"""The variance of any linear query: closed form against the dense covariance and against simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from privcube import ZCDP, Axis, Plan, PureDP, Schema, Workload, errors, linear, plan
from privcube.accuracy.closed_form import drawn_variances
from privcube.accuracy.error_bars import ErrorBars
from privcube.accuracy.moments import discrete_gaussian_variance, exact_noise_variances
from privcube.accuracy.predictor import drawn_table_variances, recover
from privcube.accuracy.published import published_rows
from privcube.model.groups import GroupPart, group_rows, row_weights

SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 4})


def padded(made: Plan, table: tuple[str, ...], weights: np.ndarray) -> np.ndarray:
    """Weights on the published cells of a table as weights on its padded cells."""
    found = weights.reshape([SCHEMA[name].cells for name in table])
    for at, name in enumerate(table):
        rows = published_rows(made.frame, name)
        if rows is not None:
            found = np.moveaxis(np.tensordot(rows, found, axes=(0, at)), 0, at)
    return found


@pytest.mark.parametrize("strategy", ["base_counts", "marginals", "fourier", "clusters", "wavelet"])
@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5", neighbors="replace_one")])
def test_against_the_dense_covariance(strategy: str, guarantee) -> None:
    made = plan(Workload.all_kway(SCHEMA, 2), guarantee, strategy)
    tables = [("a", "b"), ("b", "c"), ("c",), ()]
    known = ErrorBars(made, tables)
    rows = linear.strategy_matrix(made.frame, made.groups).toarray()
    noise = np.repeat(made.noise_variances(), [group_rows(made.frame, group) for group in made.groups])
    drawn = np.repeat(exact_noise_variances(made), [group_rows(made.frame, group) for group in made.groups])
    drawn = np.maximum(drawn, 1e-200)  # a total that is public has practically no noise
    for table in tables:
        cells = Workload.tables(SCHEMA, [table])
        queries = linear.workload_matrix(cells, made.frame).toarray()
        weights = np.cos(np.arange(len(queries)) + 1.0)
        recovery = linear.optimal_recovery(weights @ queries, rows, noise)
        expected = linear.predicted_variances(recovery, drawn)[0]
        assert known.query_variance(table, padded(made, table, weights)) == pytest.approx(expected, rel=1e-9)
        assert known.variances(table) == pytest.approx(_one_by_one(made, known, table), rel=1e-9)


def _one_by_one(made: Plan, known: ErrorBars, table: tuple[str, ...]) -> np.ndarray:
    """The variances of the published numbers of a table, each as a query of its own."""
    found = [published_rows(made.frame, name) for name in table]
    rows = [np.eye(SCHEMA[name].cells) if own is None else own for name, own in zip(table, found, strict=True)]
    variances = np.zeros([len(own) for own in rows])
    for place in np.ndindex(*variances.shape):
        weights = np.ones(())
        for own, at in zip(rows, place, strict=True):
            weights = np.multiply.outer(weights, own[at])
        variances[place] = known.query_variance(table, weights)
    return variances


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
def test_narrow_helmert_rows_are_never_understated(make: Callable[[], Plan], table: tuple[str, ...]) -> None:
    """Against the dense covariance, row by row: error bars take what no row exceeds, and the plan states the mean."""
    made = make()
    known = ErrorBars(made, [table])
    rows = linear.strategy_matrix(made.frame, made.groups).toarray()
    noise = [
        float(made.noise_variance(number)) * weight
        for number, group in enumerate(made.groups)
        for weight in row_weights(made.frame, group)
    ]
    drawn = [discrete_gaussian_variance(variance) for variance in noise]
    queries = linear.workload_matrix(Workload.tables(SCHEMA, [table]), made.frame).toarray()
    recovery = linear.optimal_recovery(queries, rows, noise)
    exact, widest = (linear.predicted_variances(recovery, variances) for variances in (drawn, noise))
    assert ("c" in table or make is narrow) == (np.ptp(exact) > 1e-3 * exact.mean())
    stated = known.variances(table).ravel()
    assert np.all(stated >= exact * (1 - 1e-9))
    assert np.all(stated <= widest * (1 + 1e-9))
    weights = np.cos(np.arange(len(queries)) + 1.0)
    recovery = linear.optimal_recovery(weights @ queries, rows, noise)
    exact, widest = (linear.predicted_variances(recovery, variances)[0] for variances in (drawn, noise))
    assert exact * (1 - 1e-9) <= known.query_variance(table, padded(made, table, weights)) <= widest * (1 + 1e-9)


@pytest.mark.parametrize("make", [narrow, narrow_mixed])
@pytest.mark.parametrize("table", [("b", "c"), ("c",), ("a", "b")])
def test_the_mean_over_narrow_helmert_rows_is_exact(make: Callable[[], Plan], table: tuple[str, ...]) -> None:
    made, alone = make(), Workload.tables(SCHEMA, [table])
    rows = linear.strategy_matrix(made.frame, made.groups).toarray()
    noise = [
        float(made.noise_variance(number)) * weight
        for number, group in enumerate(made.groups)
        for weight in row_weights(made.frame, group)
    ]
    recovery = linear.optimal_recovery(linear.workload_matrix(alone, made.frame).toarray(), rows, noise)
    cells = linear.predicted_variances(recovery, [discrete_gaussian_variance(variance) for variance in noise])
    assert drawn_variances(made, alone)[0] == pytest.approx(cells.mean(), rel=1e-9)


@pytest.mark.parametrize("table", [("b", "c"), ("c",), ("a", "b")])
def test_wide_helmert_rows_have_their_exact_variance(table: tuple[str, ...]) -> None:
    made = plan(Workload.all_kway(SCHEMA, 2), ZCDP("0.01"), "residual")
    expected = drawn_variances(made, Workload.tables(SCHEMA, [table]))[0]
    assert ErrorBars(made, [table]).variances(table) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("guarantee", [PureDP(4), ZCDP(4)])
def test_cells_have_the_variance_that_the_plan_is_told(guarantee) -> None:
    made = plan(Workload.all_kway(SCHEMA, 2), guarantee, "marginals")
    known = ErrorBars(made, list(made.workload))
    for table, variance in zip(made.workload, drawn_table_variances(made), strict=True):
        assert known.variances(table) == pytest.approx(variance, rel=1e-9)
        assert variance <= made.table_variance(table)
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
    known = ErrorBars(made, [("a",), ("a", "b")])
    assert (known.determines(("a",)), known.determines(("a", "b"))) == (True, False)
    with pytest.raises(errors.PlanError, match="determine"):
        known.variances(("a", "b"))
    with pytest.raises(errors.PlanError, match="determine"):
        known.query_variance(("a", "b"), np.eye(2, 3))
    with pytest.raises(errors.PlanError, match="prepared"):
        known.variances(("c",))
    with pytest.raises(errors.PlanError, match="2 finite numbers, one per padded cell"):
        known.query_variance(("a",), np.ones(3))
    with pytest.raises(errors.PlanError, match="finite"):
        known.query_variance(("a",), np.array([1.0, np.inf]))
    with pytest.raises(errors.PlanError, match="optimal"):
        ErrorBars(plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals", recovery="direct"), [("a",)])
