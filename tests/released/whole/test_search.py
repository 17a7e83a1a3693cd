"""Whole numbers: promises for any release, and searches beside brute force on tiny domains."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.errors import PlanError, QueryError
from privcube.model.measurements import Measurements
from privcube.model.workload import Axis
from privcube.progress import Work, silent
from privcube.released.whole import coordinates
from privcube.released.whole.blocks import Problem
from privcube.released.whole.coordinates import coordinates_of
from privcube.released.whole.dual import Curvature, implicit_step
from privcube.released.whole.facts import Facts, Impossible, impossible_cells
from privcube.released.whole.flow import flow
from privcube.released.whole.generator import generator, seed_of
from privcube.released.whole.goals import check_workload, goals_of
from privcube.released.whole.particles import first_particles, first_shares, sweep
from privcube.released.whole.release import WholeRelease
from privcube.released.whole.rounding import rounded

NOTHING = Work(silent, "", 1)


def made(sizes: dict[str, int], way: int, rows: int, epsilon: str, seed: int = 0) -> pc.Release:
    """A release of made-up records with noise of the right size from a seed, so that a test has one outcome."""
    schema = pc.Schema.from_sizes(sizes)
    random = np.random.default_rng(seed)
    data = {name: (random.random(rows) ** 2 * size).astype(int) for name, size in sizes.items()}
    plan = pc.plan(pc.Workload.all_kway(schema, way), pc.PureDP(epsilon), "marginals")
    answers = []
    for table in [[str(name) for name in own] for own in plan.workload]:
        shape = [sizes[name] for name in table]
        keys = np.ravel_multi_index([data[name] for name in table], shape)
        answers.append(np.bincount(keys, minlength=int(np.prod(shape))))
    noise = random.laplace(size=plan.rows) * np.sqrt(plan.noise_variances()[0] / 2)
    return pc.Release(Measurements(plan, np.rint(np.concatenate(answers) + noise).astype(np.int64)))


def with_answers(release: pc.Release, answers: np.ndarray) -> pc.Release:
    return pc.Release(Measurements(release.plan, answers.astype(np.int64)))


def require_promises(whole: WholeRelease) -> None:
    """Every table, counted anew from single records, one by one, in whole numbers."""
    rows = whole.records(form="pyarrow").to_pylist()
    schema = whole.workload.schema
    assert all(row["count"] >= 1 for row in rows)
    for table in filter(whole.has_counts, whole.workload):
        counts = whole.counts(table)
        assert counts.dtype == np.int64
        assert counts.min(initial=0) >= 0
        if any(isinstance(entry, Axis) for entry in table):
            continue
        again = np.zeros(counts.shape, dtype=object)
        for row in rows:
            again[tuple(schema[name].labels.index(row[name]) for name in table)] += row["count"]
        np.testing.assert_array_equal(counts, again)


@pytest.mark.parametrize("epsilon", ["0.01", "1", "100"])
@pytest.mark.parametrize("rows", [0, 1, 300])
def test_promises_whatever_the_noise(rows: int, epsilon: str) -> None:
    for sizes, way in (({"a": 2}, 1), ({"a": 1, "b": 1}, 2), ({"a": 2, "b": 3, "c": 4}, 2)):
        require_promises(made(sizes, way, rows, epsilon).whole("fast"))


def test_promises_where_particles_are_a_sample() -> None:
    release = made({f"x{at}": 5 for at in range(5)}, 2, 500, "1")  # 3,125 combinations, more than particles
    plain = release.whole("fast")
    require_promises(plain)
    for answers in (-release.measurements.answers, 0 * release.measurements.answers):
        require_promises(with_answers(release, answers).whole("fast"))
    huge = with_answers(release, 250_000 * release.measurements.answers).whole("fast")
    assert huge.found is not None
    assert huge.found.total > 100_000_000
    assert len(huge.found.times) < 4_000
    require_promises(huge)


def test_the_same_release_gives_the_same_records() -> None:
    release = made({f"x{at}": 5 for at in range(5)}, 2, 200, "1")
    one, two = release.whole("fast"), pc.Release(release.measurements).whole("fast")
    assert one.records(form="pyarrow").equals(two.records(form="pyarrow"))
    other = with_answers(release, release.measurements.answers + 1)
    assert seed_of(other.measurements) != seed_of(release.measurements)


def test_without_noise_the_tables_are_met_exactly() -> None:
    release = made({"a": 2, "b": 3, "c": 4}, 2, 500, "1000")
    whole = release.whole()
    for table in release.workload:
        np.testing.assert_array_equal(whole.counts(table), np.rint(release.estimates(table)))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.0001, 10))
def test_an_implicit_step_is_the_best_there_is(seed: int, length: float) -> None:
    """Beside a general-purpose minimizer on all combinations of a tiny domain."""
    problem = Problem(goals_of(made({"a": 2, "b": 3}, 2, 40, "1", seed)))
    codes = np.array([(a, b) for a in range(2) for b in range(3)])
    keys = problem.keys(codes)
    weights = np.random.default_rng(seed).random(6) * 10 + 0.1
    functions = np.stack([problem.on_records(keys, row) for row in np.eye(len(problem.estimate))])

    def value(change: np.ndarray) -> float:
        penalty = np.sum(change**2 / problem.pull) / (2 * length)
        return float(np.sum(weights * np.exp(-change @ functions)) + change @ problem.estimate + penalty)

    step = implicit_step(problem, keys, weights, problem.estimate, length, Curvature(len(problem.estimate)))
    np.testing.assert_allclose(step.weights, weights * np.exp(-step.change @ functions), rtol=1e-9)
    best = scipy.optimize.minimize(value, np.zeros(len(problem.estimate)), method="BFGS")
    assert value(step.change) <= best.fun + 0.02 * abs(value(np.zeros(len(step.change))) - best.fun) + 1e-6


def test_the_flow_goes_on_to_the_best_non_negative_fit() -> None:
    """Without noise to fear it runs to the end: non-negative least squares over all combinations of cells."""
    release = made({"a": 2, "b": 3}, 2, 30, "1", seed=4)
    goals = goals_of(release)
    certain = {key: type(goal)(goal.estimate, goal.metric, 0.0) for key, goal in goals.residuals.items()}
    problem = Problem(replace(goals, residuals=certain))
    fit = flow(problem, Impossible(), 100, generator(1), NOTHING)
    keys = fit.particles.keys
    functions = np.stack([problem.on_records(keys, row) for row in np.eye(len(problem.estimate))])
    scale = np.sqrt(problem.pull)
    best, _ = scipy.optimize.nnls(functions * scale[:, None], problem.estimate * scale)

    def distance(weights: np.ndarray) -> float:
        return float(np.sum(problem.pull * (functions @ weights - problem.estimate) ** 2))

    assert distance(fit.weights) <= distance(best) + 0.01 * distance(np.full(6, 5.0))


def test_rounding_is_near_the_best_of_all_multisets() -> None:
    """Beside all 792 ways to choose 5 records out of 8 cells: the best one, or one that is a cell or two off."""
    cells = np.array([(a, b, c) for a in range(2) for b in range(2) for c in range(2)])
    every = np.array([np.bincount(own, minlength=8) for own in combinations_with_replacement(range(8), 5)])
    beyond = []
    for seed in range(12):
        problem = Problem(goals_of(made({"a": 2, "b": 2, "c": 2}, 2, 5, "2", seed)))
        fit = flow(problem, Impossible(), 100, generator(seed), NOTHING)
        found = rounded(problem, fit, 5, Impossible(), generator(seed), NOTHING)
        assert found.total == 5
        of_cells = np.stack([problem.coordinates(problem.keys(cells), row) for row in np.eye(8)])
        times = np.bincount(found.codes @ np.array([4, 2, 1]), found.times, 8)
        distances = np.sum(problem.metric * (np.vstack([times, every]) @ of_cells - fit.coordinates) ** 2, axis=1)
        beyond.append(distances[0] - distances[1:].min())
    assert min(beyond) > -1e-9
    assert np.mean(np.array(beyond) < 1e-9) >= 0.4
    assert np.mean(np.array(beyond) < 1.5) >= 0.75


def test_sweeps_keep_the_law_of_the_flow() -> None:
    """Particles that start anywhere go to shares times exp(-function), worked out for all combinations."""
    problem = Problem(goals_of(made({"a": 2, "b": 3, "c": 2}, 2, 50, "1")))
    random = generator(8)
    shares = first_shares(problem.goals)
    theta = np.random.default_rng(0).normal(size=len(problem.estimate)) * 0.3
    everything, independent = first_particles(problem, shares, Impossible(), 100, random)
    weights = independent * np.exp(-problem.on_records(everything.keys, theta))
    sample = everything.picked(np.zeros(60_000, dtype=np.int64))
    for _ in range(12):
        sweep(problem, sample, problem.functions(theta), shares, Impossible(), random)
    np.testing.assert_array_equal(sample.keys[0], problem.blocks[0].grid.keys(sample.codes))
    found = np.bincount(sample.codes @ np.array([6, 2, 1]), minlength=12) / 60_000
    np.testing.assert_allclose(found, weights / weights.sum(), atol=4 * 0.5 / 60_000**0.5)


def test_sparse_tables_are_more_accurate_than_their_estimates() -> None:
    sizes = {f"x{at}": 6 for at in range(5)}
    schema = pc.Schema.from_sizes(sizes)
    random = np.random.default_rng(6)
    data = pd.DataFrame({name: (random.random(3000) ** 6 * 6).astype(int) for name in sizes})
    release = pc.release(pc.plan(pc.Workload.all_kway(schema, 2), pc.PureDP("0.5"), "marginals"), data)
    whole = release.whole("fast")
    off = {"count": 0.0, "estimate": 0.0}
    for table in release.workload:
        keys = np.ravel_multi_index(tuple(data[name].to_numpy() for name in map(str, table)), (6, 6))
        true = np.bincount(keys, minlength=36).reshape(6, 6)
        off["count"] += float(np.abs(whole.counts(table) - true).sum())
        off["estimate"] += float(np.abs(release.estimates(table) - true).sum())
    assert off["count"] < 0.8 * off["estimate"]


@pytest.mark.parametrize("sizes", [{"a": 3, "b": 4}, {f"x{at}": 5 for at in range(5)}])
def test_facts_are_honored_exactly(sizes: dict[str, int]) -> None:
    names = list(sizes)
    impossible = [{names[0]: 0, names[1]: [0, 1]}, {names[0]: 2, names[1]: 3}]
    whole = made(sizes, 2, 700, "0.2").whole("fast", records=654, impossible=impossible)
    require_promises(whole)
    assert int(whole.counts(())) == 654
    table = whole.counts(names[:2])
    assert table[0, 0] == table[0, 1] == table[2, 3] == 0
    assert table.sum() == 654


def test_facts_are_checked() -> None:
    release = made({"a": 2, "b": 2}, 2, 10, "1")
    with pytest.raises(QueryError, match="whole number from 0"):
        release.whole(records=-1)
    with pytest.raises(QueryError, match="one of its labels"):
        release.whole(impossible=[{"a": 7}])
    with pytest.raises(QueryError, match="some combination that can occur"):
        release.whole(impossible=[{"a": [0, 1], "b": [0, 1]}])
    with pytest.raises(QueryError, match="list of combinations"):
        release.whole(impossible=[{}])
    with pytest.raises(QueryError, match="known name"):
        release.whole("endless")
    attribute = release.workload.schema["a"]
    assert not impossible_cells([attribute], [{"elsewhere": 1}]).masks
    assert Facts(impossible=[{"a": 1}]) == Facts(impossible=[{"a": 1}])


def test_levels_ranges_and_direct_recovery() -> None:
    age = pc.Attribute(
        "age", bins=[0, 15, 18, 40, 65], missing="category", levels=[pc.Level("stage", bins=[0, 18, 65])]
    )
    schema = pc.Schema([age, pc.Attribute("sex", values=["F", "M"]), pc.Attribute("income", size=8)])
    random = np.random.default_rng(1)
    ages = np.where(random.random(900) < 0.1, np.nan, random.integers(0, 65, 900))
    data = pd.DataFrame({"age": ages, "sex": random.choice(["F", "M"], 900), "income": random.integers(0, 8, 900)})
    tables = [
        (("age", "stage"), "sex"),
        ("age",),
        (Axis("income", queries="ranges"),),
        (Axis("income", queries="prefixes"), "sex"),
    ]
    for recovery in ("optimal", "direct"):
        plan = pc.plan(pc.Workload.tables(schema, tables), pc.PureDP(20), "marginals", recovery=recovery)
        release = pc.release(plan, data)
        whole = release.whole("fast")
        require_promises(whole)
        for table in release.workload:
            assert np.abs(whole.counts(table) - release.estimates(table)).max() < 25
        stages, ages_alone = whole.counts(tables[0]), whole.counts(("age",))
        np.testing.assert_array_equal(stages.sum(axis=1), [ages_alone[:2].sum(), ages_alone[2:4].sum(), ages_alone[4]])


def test_error_bars_are_those_of_repeated_noise() -> None:
    """Where counts are large, whole numbers have the noise of the estimates, less than rounding aside."""
    schema = pc.Schema.from_sizes({"a": 2, "b": 2})
    plan = pc.plan(pc.Workload.all_kway(schema, 2), pc.PureDP("0.2"), "marginals")
    whole = pc.Release(Measurements(plan, np.array([900, 200, 300, 1200]))).whole()
    (found,) = whole.count_errors(40).values()
    stated = whole.values(("a", "b")).std_error
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found, stated, rtol=0.4)  # 40 draws: a standard deviation of 11 %
    np.testing.assert_array_equal(*(whole.count_errors(2)["a", "b"] for _ in range(2)))


def test_intervals_of_counts_are_the_whole_numbers_in_those_of_estimates_and_the_count() -> None:
    release = made({"a": 2, "b": 3, "c": 4}, 2, 40, "0.3")
    whole = release.whole("fast", records=40)
    for table in release.workload:
        low, high = whole.count_intervals(table)
        values = whole.values(table)
        every = (low, high, values.count, values.estimate, values.margin)
        for least, most, own, estimate, margin in zip(*map(np.ravel, every), strict=True):
            inside = {count for count in range(41) if abs(count - estimate) <= margin}
            assert {least, most} <= inside | {own, 0}
            assert set(range(least, most + 1)) >= inside | {own}
    assert "count_low" not in whole.table(("a",))
    shown = whole.with_intervals().table(("a",))
    assert [shown["count_low"].tolist(), shown["count_high"].tolist()] == [
        own.tolist() for own in whole.count_intervals(("a",))
    ]


def test_what_is_too_large_is_refused() -> None:
    schema = pc.Schema.from_sizes({"a": 70_000})
    with pytest.raises(QueryError, match="at most 65,536 cells for whole numbers, given 70000"):
        check_workload(pc.Workload.all_kway(schema, 1))


def test_an_attribute_of_many_values() -> None:
    """5,000 values: coordinates are sparse, and only some records move at a time."""
    random = np.random.default_rng(3)
    data = pd.DataFrame({"a": (random.random(300) ** 4 * 5000).astype(int), "b": random.integers(0, 2, 300)})
    workload = pc.Workload.tables(pc.Schema.from_sizes({"a": 5000, "b": 2}), [("a",), ("b",)])
    release = pc.release(pc.plan(workload, pc.PureDP(1), "marginals"), data)
    whole = release.whole("fast")
    require_promises(whole)
    true = np.bincount(data["a"], minlength=5000)
    assert np.abs(whole.counts(("a",)) - true).mean() < 0.8 * np.abs(release.estimates(("a",)) - true).mean()
    assert coordinates_of(workload.schema["a"], [Axis("a")]).rows.nnz < 5000 * 16


def test_sparse_coordinates_are_those_of_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    attribute = pc.Attribute("a", size=300, levels=[pc.Level("ten", width=10)])
    axes = [Axis("a"), Axis("a", "ten"), Axis("a", queries="ranges"), Axis("a", queries="prefixes")]
    sparse = coordinates_of(attribute, axes)
    monkeypatch.setattr(coordinates, "_DENSE", 300)
    dense = coordinates_of(attribute, axes)
    np.testing.assert_allclose(sparse.rows.toarray(), dense.rows)
    np.testing.assert_allclose(dense.rows @ dense.rows.T, np.eye(300), atol=1e-12)
    for axis in axes:
        np.testing.assert_allclose(sparse.energies(axis), dense.energies(axis))
    np.testing.assert_allclose(sparse.on_groups(1).toarray(), dense.on_groups(1))


def test_levels_that_do_not_nest() -> None:
    """Two groupings of one column: each has coordinates of its own, and records serve both."""
    levels = [pc.Level("low", width=2), pc.Level("odd", groups={"u": [0, 3], "v": [1, 2], "w": [4, 5]}, of="x")]
    schema = pc.Schema([pc.Attribute("x", size=6, levels=levels), pc.Attribute("y", size=3)])
    random = np.random.default_rng(0)
    data = pd.DataFrame({"x": random.integers(0, 6, 500), "y": random.integers(0, 3, 500)})
    low, odd = Axis("x", "low"), Axis("x", "odd")
    for tables in ([(low,), (odd,)], [(low, "y"), (odd, "y")], [("x",), (odd, "y"), (low, "y")]):
        workload = pc.Workload.tables(schema, tables)
        for recovery in ("optimal", "direct"):
            release = pc.release(pc.plan(workload, pc.PureDP(30), "marginals", recovery=recovery), data)
            whole = release.whole("fast", impossible=[{"x": 5, "y": 2}])
            require_promises(whole)
            assert "y" not in tables[0] or int(whole.counts(("x", "y"))[5, 2]) == 0
            near = [np.abs(whole.counts(table) - release.estimates(table)).mean() for table in release.workload]
            assert max(near) < (2 if any("y" in table for table in tables) else 1)
    goals = goals_of(release)
    assert (goals.columns, goals.sizes) == ((0, 0, 1), (6, 3))
    assert all(len(set(block.grid.attributes)) == len(block.grid.attributes) for block in Problem(goals).blocks)


def test_beside_measures_counts_are_whole_and_sums_stay_estimates() -> None:
    schema = pc.Schema([pc.Attribute("sex", values=["F", "M"]), pc.Measure("days", low=0, high=60, step=1)])
    random = np.random.default_rng(0)
    data = pd.DataFrame({"sex": random.choice(["F", "M"], 300), "days": random.integers(0, 61, 300)})
    workload = pc.Workload.tables(schema, [("sex",)]).with_sums()
    release = pc.release(pc.plan(workload, pc.PureDP(5)), data)
    whole = release.whole("fast", records=300)
    require_promises(whole)
    counts, sums = whole.workload
    assert int(whole.values(counts).count.sum()) == 300  # type: ignore[union-attr]
    assert whole.values(sums).count is None
    np.testing.assert_array_equal(whole.values(sums).estimate, release.values(sums).estimate)
    assert list(whole.records()) == ["sex", "count"]
    with pytest.raises(QueryError, match="attributes that records have"):
        whole.counts(sums)
    with pytest.raises(PlanError, match="a table of counts, given sums of measures alone"):
        check_workload(pc.Workload.tables(schema, [("sex", Axis("days", queries="sum"))]))


def test_what_records_cannot_say_is_refused() -> None:
    schema = pc.Schema.from_sizes({"a": 2, "b": 2})
    plan = pc.plan(pc.Workload.tables(schema, [("a",)]), pc.PureDP(1))
    whole = pc.release(plan, pd.DataFrame({"a": [0, 1], "b": [0, 1]})).whole()
    with pytest.raises(QueryError, match="attributes that records have"):
        whole.counts(("b",))
    alone = whole.without_records()
    np.testing.assert_array_equal(alone.counts(("a",)), whole.counts(("a",)))
    with pytest.raises(QueryError, match="published with records = true"):
        alone.records()
    with pytest.raises(QueryError, match="a table of the workload"):
        alone.counts(())
    assert "count" not in alone.table(())
    assert "count" in whole.table(())
