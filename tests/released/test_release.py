"""Releases: tables agree, error bars are right, intervals cover, queries add up."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privcube as pc
from privcube.accuracy.intervals import interval_factor
from privcube.errors import QueryError
from privcube.model.groups import group_rows, row_weights
from privcube.model.measurements import Measurements
from privcube.model.plan import Plan
from privcube.planning.steps import with_bundles
from privcube.sensitive.gate import SystemNoise, _bundle_noise
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace

DRAWS = 6_000

LEVELED = pc.Schema(
    [
        pc.Attribute("sex", values=["F", "M"]),
        pc.Attribute("age", bins=[0, 18, 30, 40, 65], levels=[pc.Level("stage", bins=[0, 18, 65])]),
        pc.Attribute("ward", size=3),
    ]
)
FLAT = pc.Schema.from_sizes({"a": 2, "b": 3, "c": 4})


def plans() -> dict[str, Plan]:
    flat = pc.Workload.all_kway(FLAT, 2)
    leveled = pc.Workload.all_kway(LEVELED, 2) | pc.Workload.tables(LEVELED, [("sex", pc.Axis("age", "stage"))])
    ranges = pc.Workload.tables(FLAT, [("a", pc.Axis("c", queries="ranges"))])
    pure, gaussian = pc.PureDP("0.2"), pc.ZCDP("0.01")
    made = {
        f"{strategy}, {kind}": pc.plan(flat, guarantee, strategy)
        for strategy in ("base_counts", "marginals", "fourier", "clusters", "wavelet", "hierarchy")
        for kind, guarantee in (("pure", pure), ("gaussian", gaussian))
    }
    made["residual, gaussian"] = pc.plan(flat, gaussian, "residual")
    made["levels, pure"] = pc.plan(leveled, pure, "marginals")
    made["levels, gaussian"] = pc.plan(leveled, gaussian, "residual")
    made["ranges, pure"] = pc.plan(ranges, pure, "hierarchy")
    few = pc.plan(pc.Workload.all_kway(FLAT, 1), pure, "marginals")
    shared = pc.plan(pc.Workload.tables(FLAT, [("a", "b"), ("a", "c"), ("b",)]), pure, "marginals")
    made["bundle in slices"] = with_bundles(shared, [(0, 1), (2,)])
    made["small bundle"] = with_bundles(few, [tuple(range(len(few.groups)))])
    binary = pc.Schema.from_sizes({"x": 2, "y": 2, "z": 2})
    fourier = pc.plan(pc.Workload.all_kway(binary, 1), pure, "fourier")
    made["bundle of single rows"] = with_bundles(fourier, [tuple(range(len(fourier.groups)))])
    return made


PLANS = plans()


def noise(plan: Plan, draws: int) -> np.ndarray:
    """Many independent draws of all the noise of a plan, as the gate draws it."""
    rows = [group_rows(plan.frame, group) for group in plan.groups]
    parts: dict[int, np.ndarray] = {}
    for bundle in plan.noised_together:
        if len(bundle) > 1:
            drawn = [_bundle_noise(plan, bundle, SystemNoise()) for _ in range(draws)]
            for group in bundle:
                parts[group] = np.array([draw[group] for draw in drawn])
        elif isinstance(plan.guarantee, pc.PureDP):
            parts[bundle[0]] = discrete_laplace(plan.noise_scale(bundle[0]), draws * rows[bundle[0]]).reshape(draws, -1)
        else:
            variance, weights = plan.noise_variance(bundle[0]), row_weights(plan.frame, plan.groups[bundle[0]])
            columns = [discrete_gaussian(variance * Fraction(weight), draws) for weight in weights]
            parts[bundle[0]] = np.stack(columns, axis=1)
    return np.concatenate([parts[group] for group in range(len(rows))], axis=1)


@lru_cache
def many_draws(name: str) -> np.ndarray:
    """All the noise of a plan, drawn many times; less often for bundles, which take long."""
    return noise(PLANS[name], DRAWS // 6 if "bundle" in name else DRAWS)


def released(plan: Plan, answers: np.ndarray) -> pc.Release:
    return pc.Release(Measurements(plan, np.asarray(answers, dtype=np.int64)))


@lru_cache
def recovery(name: str) -> dict[Any, np.ndarray]:
    """Every table of a plan as a matrix on its answers, found by releasing one answer at a time."""
    plan = PLANS[name]
    found: dict[Any, list[np.ndarray]] = {table: [] for table in plan.workload}
    for row in range(plan.rows):
        unit = released(plan, np.eye(1, plan.rows, row)[0] * 10**6)
        for table in plan.workload:
            found[table].append(unit.estimates(table).ravel() / 10**6)
    return {table: np.array(columns).T for table, columns in found.items()}


@pytest.mark.parametrize("name", PLANS)
def test_standard_errors_are_exact_and_intervals_cover(name: str) -> None:
    plan = PLANS[name]
    drawn = many_draws(name)
    empty = released(plan, np.zeros(plan.rows))
    for table, matrix in recovery(name).items():
        errors = drawn @ matrix.T
        stated = empty.values(table)
        ratio = errors.var(axis=0) / stated.std_error.ravel() ** 2
        assert np.all(np.abs(ratio - 1) < 0.155 * (DRAWS / len(drawn)) ** 0.5), (table, ratio)
        covered = np.mean(np.abs(errors) <= stated.margin.ravel(), axis=0)
        chance = 5 * (0.95 * 0.05 / len(drawn)) ** 0.5
        assert 0.951 - chance <= covered.mean() <= 0.954 + chance, (table, covered)
        assert covered.min() >= 0.946 - chance
        together = np.mean(np.all(np.abs(errors) <= stated.margin_all.ravel(), axis=1))
        assert together >= 0.95 - chance, (table, together)  # all at once, in the same draw


@pytest.mark.parametrize("name", PLANS)
def test_tables_agree_on_what_they_share(name: str) -> None:
    plan = PLANS[name]
    answers = noise(plan, 1)[0] + 100
    release = released(plan, answers)
    for table in plan.workload:
        for at in range(len(table)):
            if not isinstance(table[at], str) and table[at].queries != "cells":  # type: ignore[union-attr]
                continue
            rest = table[:at] + table[at + 1 :]
            margin = release.values(table).estimate.sum(axis=at)
            np.testing.assert_allclose(release.values(rest).estimate, margin, rtol=1e-9, atol=1e-6)


def test_levels_are_sums_of_their_cells() -> None:
    release = released(PLANS["levels, pure"], noise(PLANS["levels, pure"], 1)[0])
    fine = release.values(("sex", "age")).estimate
    coarse = release.values(("sex", pc.Axis("age", "stage"))).estimate
    np.testing.assert_allclose(coarse, np.stack([fine[:, 0], fine[:, 1:].sum(axis=1)], axis=1), atol=1e-6)


@pytest.mark.parametrize("name", ["marginals, pure", "fourier, pure", "levels, pure", "small bundle"])
def test_a_query_has_the_variance_of_its_sum(name: str) -> None:
    plan = PLANS[name]
    release = released(plan, np.zeros(plan.rows))
    table = max(plan.workload, key=len)
    first = table[0] if isinstance(table[0], str) else table[0].attribute
    labels = list(plan.workload.schema[first].labels)
    answer = release.query({first: labels[:2]})
    matrix = np.stack([
        released(plan, np.eye(1, plan.rows, row)[0] * 10**6).query({first: labels[:2]}).estimate / 10**6
        for row in range(plan.rows)
    ])  # fmt: skip
    errors = many_draws(name) @ matrix
    assert abs(errors.var() / answer.std_error**2 - 1) < 0.078 * (DRAWS / len(errors)) ** 0.5
    chance = 5 * (0.95 * 0.05 / len(errors)) ** 0.5
    assert 0.95 - chance <= np.mean(np.abs(errors) <= answer.high) <= 0.95 + chance


def frame(rows: int = 3_000) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "sex": generator.choice(["F", "M"], rows),
            "age": generator.uniform(0, 65, rows),
            "ward": generator.integers(0, 3, rows),
        }
    )


def test_release_of_a_data_frame() -> None:
    data = frame()
    workload = pc.Workload.all_kway(LEVELED, 2)
    release = pc.release(pc.plan(workload, pc.PureDP(10**6)), data)
    table = release.table(("sex", "age"))
    assert list(table.columns) == [
        "sex", "age", "estimate", "std_error", "low", "high", "low_all", "high_all",
    ]  # fmt: skip
    truth = pd.crosstab(data.sex, pd.cut(data.age, [0, 18, 30, 40, 65], right=False))
    np.testing.assert_allclose(table.estimate, truth.to_numpy().ravel(), atol=0.01)
    assert release.query({}).estimate == pytest.approx(len(data), abs=0.01)
    assert release.query({"sex": "F", "age": [18, 40]}).estimate == pytest.approx(
        ((data.sex == "F") & (data.age >= 18) & (data.age < 40)).sum(), abs=0.01
    )
    assert release.query({"age": {"stage": "[18, 65)"}}).estimate == pytest.approx((data.age >= 18).sum(), abs=0.01)
    assert release.query({"ward": slice(1, None)}).estimate == pytest.approx((data.ward >= 1).sum(), abs=0.01)
    polars, arrow = release.table("ward", form="polars"), release.table("ward", form="pyarrow")
    assert polars["estimate"].to_list() == arrow["estimate"].to_pylist() == list(release.table("ward").estimate)
    cube = release.to_xarray(("sex", "ward"))
    assert float(cube.estimate.sel(sex="F").sum()) == pytest.approx((data.sex == "F").sum(), abs=0.01)
    assert "sex x age" in release._repr_html_()


def test_a_table_never_asked_for_comes_from_what_was_measured() -> None:
    release = pc.release(pc.plan(pc.Workload.all_kway(LEVELED, 1), pc.PureDP(10**6), "base_counts"), frame())
    assert release.table(("sex", "age", "ward")).estimate.sum() == pytest.approx(3_000, abs=1)
    only = pc.release(pc.plan(pc.Workload.all_kway(LEVELED, 1), pc.PureDP(1), "marginals"), frame())
    with pytest.raises(QueryError, match="sex x age: expected a table that the measurements determine"):
        only.table(("sex", "age"))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"sex": "X"}, "one of its labels, given 'X'"),
        ({"age": [18, 39]}, "two of its edges"),
        ({"age": [40, 18]}, "low below high"),
        ({"age": {"stage": "old"}}, "one of its groups"),
        ({"sex": slice("F", "M")}, "an ordered attribute"),
        ({"town": "X"}, "a name in the schema"),
    ],
)
def test_wrong_queries_are_refused(where: dict[str, Any], message: str) -> None:
    release = released(PLANS["levels, pure"], np.zeros(PLANS["levels, pure"].rows))
    with pytest.raises(pc.errors.PrivcubeError, match=message):
        release.query(where)


def test_intervals_of_known_noise() -> None:
    assert interval_factor(0, 0.95) == pytest.approx(1.959964, rel=1e-4)
    assert interval_factor(0, 0.99) == pytest.approx(2.575829, rel=1e-4)
    assert interval_factor(3, 0.99) == pytest.approx(np.log(100) / 2**0.5, rel=1e-3)
    assert interval_factor(-1.19, 0.95) == pytest.approx(0.95 * 3**0.5, rel=5e-3)
    with pytest.raises(pc.errors.PlanError, match="confidence"):
        interval_factor(0, 1.0)


def test_tables_are_asked_for_by_name() -> None:
    schema = pc.Schema([pc.Attribute("sex", values=["F", "M"]), pc.Attribute("age", size=4)])
    records = pd.DataFrame({"sex": ["F", "M"], "age": [0, 3]})
    made = pc.release(pc.plan(pc.Workload.tables(schema, ["sex x age"]), pc.PureDP(1), "marginals"), records)
    pd.testing.assert_frame_equal(made.table("sex x age"), made.table(("age", "sex")))
    pd.testing.assert_frame_equal(made.table("total"), made.table(()))
    assert made.plan.table_variance("sex x age") == 2.0


def test_a_spec_is_no_plan() -> None:
    spec = pc.Spec.from_toml(
        '[data]\nsource = "x.csv"\n[privacy]\nepsilon = "1"\n'
        '[[attributes]]\nname = "a"\nsize = 2\n[workload]\nall_kway = [1]'
    )
    with pytest.raises(pc.errors.PlanError, match=r"pc\.plan\(spec\.workload, spec\.guarantee\).*privcube release"):
        pc.release(spec, "x.csv")  # type: ignore[arg-type]
    with pytest.raises(pc.errors.PlanError, match=r"a privcube\.Plan"):
        pc.release("spec.toml", "x.csv")  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", ["marginals", "fourier", "hierarchy"])
def test_what_was_recovered_cannot_be_changed_before_it_is_saved(strategy: Any) -> None:
    made = pc.plan(pc.Workload.tables(FLAT, [("a",), ("a", "b")]), pc.PureDP(1), strategy)
    release = pc.Release(Measurements(made, np.arange(made.rows)), {"entry": 1, "head": "0" * 64})
    for table in release.workload:
        before = release.values(table).estimate.copy()
        with contextlib.suppress(ValueError):  # read-only, or a copy
            release.values(table).estimate[...] = 99
        np.testing.assert_array_equal(release.values(table).estimate, before)
    with pytest.raises(ValueError, match="WRITEABLE"):
        release.measurements.answers.setflags(write=True)
    with pytest.raises(TypeError):
        release.provenance["entry"] = 2  # type: ignore[index]
