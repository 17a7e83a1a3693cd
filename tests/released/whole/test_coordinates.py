"""Coordinates and goals beside dense matrices: every query of a workload as a row over all cells."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import privcube as pc
from privcube.accuracy.predictor import drawn_table_variances
from privcube.model.measurements import Measurements
from privcube.model.workload import Axis, Table, axis_cells
from privcube.released.whole.blocks import Problem
from privcube.released.whole.cover import cover
from privcube.released.whole.goals import goals_of
from privcube.released.whole.records import Records
from privcube.released.whole.release import counts_of

AGE = pc.Attribute("age", bins=[0, 15, 18, 40, 65], missing="category", levels=[pc.Level("stage", bins=[0, 18, 65])])
SCHEMA = pc.Schema(
    [AGE, pc.Attribute("sex", values=["F", "M"]), pc.Attribute("one", values=["x"]), pc.Attribute("c", size=4)]
)
WORKLOAD = pc.Workload.tables(
    SCHEMA,
    [
        ("age", "sex"),
        (("age", "stage"), "sex", "c"),
        ("one", "c"),
        (Axis("c", queries="ranges"),),
        (Axis("age", queries="prefixes"),),
        (),
    ],
    weights=[1, 2, 3, 0.5, 1.5, 1],
)


def dense_axis(schema: pc.Schema, entry: str | Axis) -> np.ndarray:
    """The queries of an entry as rows over the cells of its attribute, one by one."""
    axis = Axis.of(entry)
    attribute = schema[axis.attribute]
    rows = np.zeros((axis_cells(schema, entry), attribute.cells))
    if axis.queries == "cells":
        for cell, group in enumerate(attribute.partition(axis.level).group_of):
            rows[group, cell] = 1
        return rows
    ends = [(0, last) for last in range(attribute.ordered_cells)]
    if axis.queries == "ranges":
        ends = [(a, b) for a in range(attribute.ordered_cells) for b in range(a, attribute.ordered_cells)]
    for number, (first, last) in enumerate(ends):
        rows[number, first : last + 1] = 1
    return rows


def dense(schema: pc.Schema, names: tuple[str, ...], table: Table) -> np.ndarray:
    """The queries of a table as rows over all combinations of cells of the named attributes."""
    own = {Axis.of(entry).attribute: dense_axis(schema, entry) for entry in table}
    rows = np.ones((1, 1))
    for name in names:
        rows = np.kron(rows, own.get(name, np.ones((1, schema[name].cells))))
    return rows


def all_codes(sizes: tuple[int, ...]) -> np.ndarray:
    return np.array(list(product(*map(range, sizes))), dtype=np.int64)


def exact_release(workload: pc.Workload, counts: np.ndarray, names: tuple[str, ...]) -> pc.Release:
    """A release whose estimates are the tables of given counts, as if no noise had been drawn."""
    plan = pc.plan(workload, pc.PureDP(1), "marginals")
    answers = [np.zeros(0)]
    for table in workload:
        cells = tuple(entry if isinstance(entry, str) or entry.level else entry.attribute for entry in table)
        answers.append(dense(workload.schema, names, cells) @ counts)
    return pc.Release(Measurements(plan, np.rint(np.concatenate(answers)).astype(np.int64)))


@pytest.fixture(scope="module")
def flat() -> pc.Release:
    workload = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 3, "b": 4, "c": 2}), 2)
    counts = np.random.default_rng(3).integers(0, 50, 24).astype(float)
    return exact_release(workload, counts, ("a", "b", "c"))


def test_coordinates_are_orthonormal_and_nested(levels: pc.Release) -> None:
    for own in goals_of(levels).attributes:
        np.testing.assert_allclose(own.rows @ own.rows.T, np.eye(len(own.rows)), atol=1e-12)
        for depth in range(1, len(own.levels) + 1):
            groups = own.partitions[depth - 1]
            for row in own.rows[: own.span(depth).stop]:
                assert all(np.ptp(row[groups == group]) < 1e-12 for group in range(groups.max() + 1))


@pytest.fixture(scope="module")
def levels() -> pc.Release:
    plan = pc.plan(WORKLOAD, pc.PureDP(1), "marginals")
    return pc.Release(Measurements(plan, np.arange(plan.rows, dtype=np.int64)))


def test_metric_is_the_diagonal_of_the_dense_workload(levels: pc.Release) -> None:
    problem = Problem(goals_of(levels))
    names = tuple(own.attribute.name for own in problem.goals.attributes)
    keys = problem.keys(all_codes(problem.sizes))
    gram = sum(
        weight * dense(SCHEMA, names, table).T @ dense(SCHEMA, names, table)
        for table, weight in zip(WORKLOAD, WORKLOAD.weights, strict=True)
    )
    for at in range(len(problem.estimate)):
        function = problem.on_records(keys, np.eye(1, len(problem.estimate), at)[0])
        unit = function / np.sum(function**2)  # has the coordinate 1, and no other
        coordinates = problem.coordinates(keys, unit)
        np.testing.assert_allclose(coordinates, np.eye(1, len(coordinates), at)[0], atol=1e-12)
        assert problem.metric[at] == pytest.approx(unit @ gram @ unit, rel=1e-9)


def test_metric_is_exact_for_plain_tables(flat: pc.Release) -> None:
    problem = Problem(goals_of(flat))
    random = np.random.default_rng(1)
    codes, weights = all_codes(problem.sizes), random.normal(size=24)
    own = problem.coordinates(problem.keys(codes), weights)
    squares = sum(
        np.sum((dense(flat.workload.schema, ("a", "b", "c"), table) @ weights) ** 2) for table in flat.workload
    )
    assert np.sum(problem.metric * own**2) == pytest.approx(squares)


def test_goals_are_the_coordinates_of_the_estimates(flat: pc.Release) -> None:
    problem = Problem(goals_of(flat))
    tables = [flat.estimates(table) for table in flat.workload]
    records = np.linalg.lstsq(
        np.vstack([dense(flat.workload.schema, ("a", "b", "c"), table) for table in flat.workload]),
        np.concatenate([table.ravel() for table in tables]),
        rcond=None,
    )[0]
    found = problem.coordinates(problem.keys(all_codes(problem.sizes)), records)
    np.testing.assert_allclose(found, problem.estimate, atol=1e-6)
    assert problem.goals.total == pytest.approx(tables[0].sum())


@pytest.mark.parametrize("guarantee", [pc.PureDP(1), pc.ApproxDP(1, "1e-6")])
def test_variances_add_up_to_those_of_the_plan(guarantee: pc.PureDP) -> None:
    workload = pc.Workload.kway_plus_half(pc.Schema.from_sizes({"a": 3, "b": 4, "c": 2}), 1)
    plan = pc.plan(workload, guarantee)
    problem = Problem(goals_of(pc.Release(Measurements(plan, np.zeros(plan.rows, dtype=np.int64)))))
    assert problem.noise == pytest.approx(float(np.dot(drawn_table_variances(plan), workload.sizes)))


def test_functions_and_coordinates_are_adjoint(levels: pc.Release) -> None:
    problem = Problem(goals_of(levels))
    random = np.random.default_rng(2)
    codes = np.stack([random.integers(0, size, 40) for size in problem.sizes], axis=1)
    keys, weights = problem.keys(codes), random.random(40)
    direction = random.normal(size=len(problem.estimate))
    total = np.sum(weights * problem.on_records(keys, direction))
    assert total == pytest.approx(direction @ problem.coordinates(keys, weights))


def test_covers_contain_every_table() -> None:
    sizes = [2, 3, 50, 90, 4, 2, 7]
    tables = [(0, 1), (2, 3), (1, 3, 4), (), (6,), (0, 5, 6), (2, 4)]
    blocks = cover(sizes, tables)
    assert all(any(set(table) <= set(block) for block in blocks) for table in tables)
    assert all(np.prod([sizes[at] for at in block]) <= 4500 for block in blocks)


def test_counts_are_those_of_the_records_one_by_one() -> None:
    random = np.random.default_rng(5)
    names = ("age", "sex", "one", "c")
    sizes = [SCHEMA[name].cells for name in names]
    codes = np.stack([random.integers(0, size, 200) for size in sizes], axis=1)
    records = Records.of(codes, random.integers(0, 3, 200))
    cells = np.zeros(int(np.prod(sizes)), dtype=np.int64)
    for row, times in zip(records.codes.tolist(), records.times.tolist(), strict=True):
        cells[np.ravel_multi_index(row, sizes)] += times
    for table in WORKLOAD:
        expected = dense(SCHEMA, names, table).astype(np.int64) @ cells
        np.testing.assert_array_equal(counts_of(records, WORKLOAD, table).ravel(), expected)
