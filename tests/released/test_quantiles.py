"""Medians and other quantiles: coverage, against the records themselves, of any schema, and what must be refused."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.every_strategy.test_dense_twin import workloads

import privcube as pc
from privcube.accuracy.predictor import predictor
from privcube.errors import PrivcubeError, QueryError
from privcube.model.measurements import Measurements
from privcube.model.workload import Axis
from privcube.released.quantiles import Quantile, quantile_in, quantile_of
from privcube.released.release import Release
from privcube.sensitive.gate import SystemNoise, _noise

AGE = pc.Attribute("age", bins=[0, 10, 20, 30, 40, 50, 60, 70, 80])
GROWN = pc.Level("grown", bins=[0, 20, 80])


def exact(attribute: pc.Attribute, values: list, where: dict | None = None, **columns) -> Release:
    """A release without noise worth speaking of."""
    others = [pc.Attribute(name, values=sorted(set(column))) for name, column in columns.items()]
    schema = pc.Schema([attribute, *others])
    made = pc.plan(pc.Workload.tables(schema, [schema.names]), pc.PureDP(1000), "base_counts")
    return pc.release(made, pa.table({attribute.name: values, **columns}))


def test_without_noise_it_is_the_quantile_of_the_records() -> None:
    made = exact(AGE, [5, 15, 15, 25, 25, 25, 25, 35, 45, 75])
    found = made.quantile("age")
    assert (found.low, found.estimate, found.high) == pytest.approx((25, 25, 25), abs=1e-3)  # 3 before 20, 2 of 4 after
    assert found.cells == ("[20, 30)", "[20, 30)")
    assert made.quantile("age", 0.95).estimate == pytest.approx(75, abs=1e-3)
    assert made.quantile("age", where={"age": [0, 30]}).estimate == pytest.approx(21.25, abs=1e-3)
    assert str(found) == "25, from 24.99 to 25.01 (95%)"  # 24.999997 to 25.000003, rounded outward


def test_ends_are_rounded_outward_as_text() -> None:
    found = Quantile(0.5, 41.116, 40.2149, 42.3051, ("[40, 50)", "[40, 50)"), 0.95)
    assert str(found) == "41.12, from 40.21 to 42.31 (95%)"


def test_conditions_leave_some_records() -> None:
    made = exact(AGE, [5, 15, 25, 75, 75], sex=["F", "F", "F", "M", "M"])
    assert made.quantile("age", where={"sex": "F"}).estimate == pytest.approx(15, abs=1e-3)
    assert made.quantile("age", where={"sex": "M"}).estimate == pytest.approx(75, abs=1e-3)
    nobody = made.quantile("age", where={"sex": "M", "age": [0, 10]})
    assert not nobody.determined
    assert (nobody.estimate, nobody.low, nobody.cells) == (None, None, None)
    assert str(nobody) == "not determined (95%)"


@pytest.mark.parametrize(
    ("part", "expected"), [(0.2, "low"), (0.3, "low"), (0.5, "middle"), (0.7, "high"), (0.95, "high")]
)
def test_labels_in_order(part: float, expected: str) -> None:
    grade = pc.Attribute("grade", values=["low", "middle", "high"], ordered=True)
    found = exact(grade, ["low", "low", "low", "middle", "middle", "high", "high", "high", "high"]).quantile(
        "grade", part
    )
    assert (found.low, found.estimate, found.high) == (expected,) * 3


def test_bins_without_bounds() -> None:
    age = pc.Attribute("age", bins=[20, 40, 60], underflow="category", overflow="category", missing="category")
    made = exact(age, [1, 2, 3, 30, 70, None, None, None, None, None])
    assert made.quantile("age", 0.3).estimate == -math.inf
    assert made.quantile("age", 0.3).cells == ("< 20", "< 20")
    assert made.quantile("age", 0.7).estimate == pytest.approx(30, abs=1e-3)
    assert made.quantile("age", 0.95).high == math.inf


def test_one_value_and_levels() -> None:
    assert exact(pc.Attribute("one", size=1), [0, 0]).quantile("one").estimate == 0
    schema = pc.Schema([pc.Attribute("age", bins=[0, 10, 20, 80], levels=[GROWN])])
    only = pc.plan(pc.Workload.tables(schema, [(Axis("age", "grown"),)]), pc.PureDP(1000))
    made = pc.release(only, pa.table({"age": [5, 15, 15, 50]}))
    assert made.quantile("age").estimate == pytest.approx(40 / 3, abs=1e-3)
    assert made.quantile("age").cells == ("[0, 10)", "[10, 20)")


@pytest.mark.parametrize("part", [0, 1, -0.1, math.nan, "0.5", True])
def test_parts_that_are_none_are_refused(part) -> None:
    with pytest.raises(QueryError, match="above 0 and below 1"):
        exact(AGE, [5]).quantile("age", part)


def test_what_has_no_order_is_refused() -> None:
    made = exact(AGE, [5, 15], sex=["F", "M"])
    with pytest.raises(QueryError, match="ordered"):
        made.quantile("sex")
    with pytest.raises(PrivcubeError, match="agee"):
        made.quantile("agee")
    missing = pc.Attribute("age", bins=[0, 10], missing="category")
    with pytest.raises(QueryError, match="some of its ordered values"):
        exact(missing, [5, None]).quantile("age", where={"age": "(missing)"})
    with pytest.raises(PrivcubeError, match="confidence"):
        made.quantile("age", confidence=2)


# Coverage


def coverage(
    workload: pc.Workload, guarantee, strategy: str, truth: np.ndarray, part: float, draws: int
) -> tuple[float, float]:
    """How often intervals contained the true quantile, and how often it was not determined."""
    made = pc.plan(workload, guarantee, strategy)
    known = predictor(made)
    attribute = workload.schema.attributes[0]
    (source,) = {known.source((attribute.name,))}
    sums = np.concatenate([[0], np.cumsum(truth)])
    edges = np.array([float(edge) for edge in attribute.bins or ()])
    true = float(np.interp(part * sums[-1], sums, edges))
    rows = [np.vstack([np.arange(1.0, len(truth) + 1), np.ones(len(truth))])]
    hits = missing = 0
    for _ in range(draws):
        noise = known.recover([source], _noise(made, SystemNoise()).astype(float))[source]
        found = quantile_in(known, attribute, (attribute.name,), truth + noise, rows, part, 0.95)
        missing += not found.determined
        hits += not found.determined or found.low <= true <= found.high  # type: ignore[operator]
    return hits / draws, missing / draws


TRUTH = np.array([400.0, 900, 1500, 1200, 700, 300, 100, 0])
COVERED = [
    (pc.PureDP("0.02"), "base_counts", TRUTH, 0.5),
    (pc.PureDP("0.02"), "hierarchy", TRUTH, 0.9),
    (pc.ZCDP("0.0002"), "residual", TRUTH, 0.25),
    (pc.PureDP("0.1"), "matrix", TRUTH / 50, 0.5),  # few records: often not determined
    (pc.PureDP(3), "base_counts", TRUTH / 100, 0.5),
]


@pytest.mark.parametrize(
    "case", COVERED, ids=lambda case: f"{case[0]}, {case[1]}, {case[2].sum():g} records, {case[3]}"
)
def test_intervals_of_quantiles_cover(case) -> None:
    guarantee, strategy, truth, part = case
    workload = pc.Workload.prefixes(pc.Schema([AGE]), ["age"])
    if strategy == "residual":
        workload = pc.Workload.all_kway(pc.Schema([AGE]), 1)
    share, _ = coverage(workload, guarantee, strategy, truth, part, 60)
    assert share > 0.95 - 5 * math.sqrt(0.05 * 0.95 / 60)  # five standard errors


@settings(max_examples=30)
@given(st.lists(st.floats(-20, 60), min_size=1, max_size=12), st.floats(0.05, 0.95), st.floats(0.1, 30))
def test_the_interval_holds_all_that_pass_the_test(counts: list[float], part: float, width: float) -> None:
    """Brute force over a fine grid of numbers, with a constant half-width."""
    attribute = pc.Attribute("x", bins=list(range(len(counts) + 1)))
    groups = [np.array([at]) for at in range(len(counts))]
    found = quantile_of(attribute, groups, np.array(counts), lambda last: width, part, 0.95)
    if sum(counts) <= width + 1e-6:
        assert not found.determined
        return
    grid = np.linspace(0, len(counts), 241 * len(counts) + 1)
    gaps = np.interp(grid, np.arange(len(counts) + 1), np.cumsum([0, *counts])) - part * sum(counts)
    passed = grid[np.abs(gaps) <= width]
    assert isinstance(found.low, float)
    assert isinstance(found.high, float)
    assert found.low <= found.estimate <= found.high
    step = grid[1] - grid[0]
    if len(passed):
        assert found.low <= passed[0] + 1e-9
        assert found.high >= passed[-1] - 1e-9
    # no farther than where the one-sided tests begin to pass
    assert found.low >= grid[np.argmax(gaps + width >= 0)] - step - 1e-5
    assert found.high <= grid[len(grid) - 1 - np.argmax(gaps[::-1] - width <= 0)] + step + 1e-5


def test_many_values_take_few_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    attribute = pc.Attribute("x", bins=list(range(5_001)))
    asked: list[int] = []
    counts = np.random.default_rng(4).poisson(20, 5_000).astype(float)
    groups = [np.array([at]) for at in range(5_000)]
    found = quantile_of(attribute, groups, counts, lambda last: asked.append(last) or 300.0, 0.5, 0.95)  # type: ignore[func-returns-value]
    assert len(asked) < 500
    assert found.low < found.estimate < found.high  # type: ignore[operator]
    assert found.high - found.low == pytest.approx(30, rel=0.3)  # type: ignore[operator]


@settings(deadline=None, max_examples=9)
@given(data=st.data())
def test_quantiles_of_any_release_are_sound_or_refused(data: st.DataObject) -> None:
    workload = data.draw(workloads())
    guarantee = data.draw(
        st.sampled_from([pc.PureDP(1), pc.PureDP("1e-4"), pc.PureDP(1000), pc.ZCDP("0.5"), pc.ZCDP(500)])
    )
    strategy = data.draw(st.sampled_from(["marginals", "base_counts", "hierarchy", "matrix"]))
    try:
        made = pc.plan(workload, guarantee, strategy)
        scale = float(np.sqrt(made.noise_variances().max()))
        answers = (
            np.random.default_rng(data.draw(st.integers(0, 99))).normal(3 * scale, 2 * scale + 5, made.rows).round()
        )
        release = Release(Measurements(made, answers.astype(np.int64)))
        name = data.draw(st.sampled_from(workload.schema.names))
        found = release.quantile(name, data.draw(st.sampled_from([0.5, 0.01, 0.999])))
    except PrivcubeError:
        return
    labels = list(workload.schema[name].labels)
    if found.determined:
        assert labels.index(found.low) <= labels.index(found.estimate) <= labels.index(found.high)
