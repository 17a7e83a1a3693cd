"""The variance of the noise that is drawn: against whole simulated releases, and for plans that no strategy makes.

The dense twin, for every strategy, is in tests/every_strategy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from many_draws import drawn_noise
from orthonormal import orthonormal_coordinates

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, Plan, PureDP, Schema, Workload, linear, plan
from privcube.accuracy.closed_form import row_shares
from privcube.accuracy.moments import discrete_gaussian_variance
from privcube.accuracy.predictor import drawn_table_variances, recover
from privcube.algebra.residuals import level_slice
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, group_rows, row_weights
from privcube.planning.steps import with_bundles
from privcube.planning.trees import bundles_by_weight

WIDE = Schema.from_sizes({"a": 2, "x": 60})
SMALL = Schema.from_sizes({"a": 2, "b": 3, "c": 2})


def laplace() -> Plan:
    return plan(Workload.closure(WIDE, [("a", "x")]), PureDP(6), "marginals")


def direct_ranges() -> Plan:
    schema = Schema.from_sizes({"x": 16})
    ranges = Workload.tables(schema, [(Axis("x", queries="ranges"),)])
    return plan(ranges, PureDP(8), "hierarchy", recovery="direct")


def gaussian() -> Plan:
    return plan(Workload.tables(WIDE, [("x",), ("a", "x")]), ZCDP(5), "marginals")


def helmert() -> Plan:
    return plan(Workload.all_kway(SMALL, 2), ZCDP(30), "residual")


def helmert_ranges() -> Plan:
    return plan(Workload.tables(Schema.from_sizes({"x": 8}), [(Axis("x", queries="prefixes"),)]), ZCDP(30), "residual")


def exact(epsilon: int) -> ApproxDP:
    return ApproxDP(epsilon, "1e-6", calibration="exact")


def rounded() -> Plan:
    return plan(Workload.tables(WIDE, [("x",), ("a", "x")]), exact(10), "marginals")


def rounded_narrow() -> Plan:
    return plan(Workload.tables(WIDE, [("x",), ("a", "x")]), exact(25), "marginals")


def rounded_helmert() -> Plan:
    return plan(Workload.all_kway(SMALL, 2), exact(200), "residual")


def rounded_helmert_ranges() -> Plan:
    prefixes = Workload.tables(Schema.from_sizes({"x": 8}), [(Axis("x", queries="prefixes"),)])
    return plan(prefixes, exact(200), "residual")


def bundled() -> Plan:
    single = plan(Workload.all_kway(SMALL, 1), PureDP(9), "fourier")
    return with_bundles(single, bundles_by_weight(single))


def sketched() -> Plan:
    return plan(Workload.all_kway(SMALL, 2), PureDP(6), "sketch")


def recovery_matrix(made: Plan) -> np.ndarray:
    """Recovery is linear: read its matrix off unit answers, one row per cell of each table."""
    rows = sum(group_rows(made.frame, group) for group in made.groups)
    units = [recover(made, unit) for unit in np.eye(rows)]
    return np.concatenate([np.stack([unit[table].ravel() for unit in units], axis=1) for table in made.workload])


@pytest.mark.parametrize(
    ("make", "runs"),
    [
        (laplace, 200),
        (direct_ranges, 600),
        (gaussian, 40),
        (helmert, 200),
        (helmert_ranges, 400),
        (rounded, 200),
        (rounded_narrow, 150),
        (rounded_helmert, 300),
        (rounded_helmert_ranges, 900),
        (bundled, 400),
        (sketched, 700),
    ],
)
def test_noise_of_the_gate_has_the_stated_variance_and_not_the_predicted_one(
    make: Callable[[], Plan], runs: int
) -> None:
    """Within five standard errors, of the variance summed over all cells; that of continuous noise is further away.

    Without records, what is recovered from the noise is the error.
    """
    made = make()
    answers = drawn_noise(made, runs)
    squares = np.sum((answers @ recovery_matrix(made).T) ** 2, axis=1)
    cells = [math.prod(counts.shape) for counts in recover(made, answers[0]).values()]
    five_errors = 5 * squares.std() / runs**0.5
    assert abs(squares.mean() - np.dot(cells, drawn_table_variances(made))) < five_errors
    assert abs(squares.mean() - made.total_variance) > five_errors


def mixed(sizes: dict[str, int], workload: Callable[[Schema], Workload]) -> Plan:
    """Helmert rows on one axis and cells on the other, next to a table measured twice: no strategy makes this."""
    schema = Schema.from_sizes(sizes)
    made = plan(workload(schema), ZCDP(20), "residual")
    first, second = GroupPart(0, 1), GroupPart(1, 1)
    groups = ((first._replace(kind="helmert"), second), (second,), (first._replace(kind="helmert"),), (first, second))
    part = made.denominator // 10
    return replace(made, groups=groups, shares=(part * 4, part, part * 2, part * 3))


@pytest.mark.parametrize(
    "workload",
    [
        lambda schema: Workload.closure(schema, [("a", "b")]),
        lambda schema: Workload.tables(schema, [(Axis("a", queries="ranges"), "b"), (Axis("a", queries="prefixes"),)]),
        lambda schema: Workload.tables(schema, [(Axis("a", queries="prefixes"), Axis("b", queries="ranges"))]),
    ],
)
def test_groups_of_helmert_rows_and_cells(workload: Callable[[Schema], Workload]) -> None:
    made = mixed({"a": 4, "b": 3}, workload)
    noise = []
    for number, group in enumerate(made.groups):
        variance = float(made.noise_variance(number))
        noise += [discrete_gaussian_variance(variance * w) for w in row_weights(made.frame, group)]
    per_cell = recovery_matrix(made) ** 2 @ np.array(noise)
    cells = [math.prod(counts.shape) for counts in recover(made, np.zeros(made.rows)).values()]
    expected = [part.mean() for part in np.split(per_cell, np.cumsum(cells)[:-1])]
    np.testing.assert_allclose(drawn_table_variances(made), expected, rtol=1e-9)


def test_shares_of_helmert_rows_by_explicit_queries() -> None:
    """Levels of unequal sizes are padded, ranges leave out what is not ordered: squares of coordinates, one by one."""
    groups = {"x": ["p", "q", "r"], "y": ["s"]}
    leveled = Attribute("l", values=list("pqrs"), levels=[Level("two", groups=groups)])
    schema = Schema([leveled, Attribute("o", size=5), Attribute("b", bins=[0, 1, 2, 3], missing="category")])
    frame = Frame(schema, "natural", leveled=frozenset(["l"]))
    for entry in ("l", Axis("l", "two"), Axis("o", queries="ranges"), Axis("b", queries="prefixes")):
        name = Axis.of(entry).attribute
        axis, chain = schema.position(name), frame.fan_outs[schema.position(name)]
        queries = linear.workload_matrix(Workload.tables(schema, [(entry,)]), frame).toarray()
        queries = queries.reshape(len(queries), *(math.prod(fan_outs) for fan_outs in frame.fan_outs))
        queries = np.moveaxis(queries, axis + 1, -1)[:, 0, 0]
        squares = sum(orthonormal_coordinates(query, [chain]) ** 2 for query in queries)
        found = row_shares(frame, entry)
        assert found
        for (number, level), shares in found.items():
            energy = squares[level_slice(chain, level)].reshape(-1, chain[level - 1] - 1).sum(axis=0)
            assert number == axis
            np.testing.assert_allclose(shares, energy / energy.sum(), rtol=1e-9)
