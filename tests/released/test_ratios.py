"""Shares and their intervals: against brute force, in tables and in queries, of any schema; what must be refused."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.accuracy.test_laws import OPTIONS, laws
from tests.every_strategy.test_dense_twin import workloads

import privcube as pc
from privcube.accuracy.predictor import predictor
from privcube.errors import PlanError, PrivcubeError, QueryError
from privcube.model.measurements import Measurements
from privcube.model.workload import Axis
from privcube.planning.steps import plan_of
from privcube.released.ratios import ShareErrors, Variances, fieller, places_over, share_of
from privcube.released.release import Release
from privcube.strategies.proposal import Proposal

GUARANTEES = st.sampled_from(
    [
        pc.PureDP(1),
        pc.PureDP("1e-4"),
        pc.PureDP(1000),
        pc.PureDP("0.3", neighbors="replace_one", max_rows_per_person=2),
        pc.ZCDP("0.5"),
        pc.ZCDP(500),
        pc.ApproxDP(1, "1e-6"),
    ]
)


def released(
    workload: pc.Workload, guarantee, seed: int = 0, strategy: str = "marginals", records: int = 40
) -> Release:
    """A release of random records, through the gate."""
    pick = np.random.default_rng(seed)
    columns = {
        each.name: [each.labels[at] for at in pick.integers(0, each.ordered_cells, records)] for each in workload.schema
    }
    return pc.release(pc.plan(workload, guarantee, strategy), pa.table(columns))


# The quadratic


@settings(max_examples=50)
@given(
    st.tuples(st.floats(-50, 200), st.floats(-100, 200)),
    st.tuples(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(-1, 1)),
    st.floats(0.5, 4),
)
def test_the_ends_are_those_of_the_set(numbers, errors, factor) -> None:
    (n, d), (own, whole, correlation) = numbers, errors
    assume(abs(d) > 1e-3)
    variances = Variances(*(np.array(each) for each in (own, correlation * math.sqrt(own * whole), whole)))
    low, high = (float(fieller(np.array(n / d), np.array(d), variances, np.array(factor), sign)) for sign in (-1, 1))
    if abs(d) <= factor * math.sqrt(whole):
        assert math.isnan(low)
        assert math.isnan(high)
        return
    width = high - low
    ratios = np.linspace(low - 3 * width, high + 3 * width, 4001)
    inside = (n - ratios * d) ** 2 <= factor**2 * variances.at(ratios)
    step = ratios[1] - ratios[0]
    assert np.all(inside[(ratios > low + step) & (ratios < high - step)])
    assert not np.any(inside[(ratios < low - step) | (ratios > high + step)])


@pytest.mark.parametrize("strategy", ["marginals", "hierarchy", "fourier", "base_counts", "matrix", "residual"])
@settings(deadline=None, max_examples=6)
@given(data=st.data())
def test_covariances_with_margins_follow_from_the_laws_of_queries(strategy: str, data: st.DataObject) -> None:
    """C = (V(n + d) - V(n - d)) / 4, where the law of a query is worked out row by row."""
    try:
        made = pc.plan(data.draw(workloads()), data.draw(GUARANTEES), strategy)
    except PlanError:
        assume(False)
    table = data.draw(st.sampled_from(list(made.workload)))
    places = [at for at, entry in enumerate(table) if Axis.of(entry).queries == "cells"]
    assume(places)
    check_covariance(made, table, data.draw(st.sets(st.sampled_from(places), min_size=1)), data.draw(st.integers(0)))


@settings(deadline=None, max_examples=8)
@given(laws(), st.integers(0), st.sampled_from([{0}, {1}, {0, 1}]))
def test_covariances_with_margins_in_bundles(case: tuple[pc.Workload, Proposal], cell: int, over: set[int]) -> None:
    workload, proposal = case
    made = plan_of(workload, pc.PureDP("0.1"), OPTIONS, proposal)
    for table in workload:
        if over <= set(range(len(table))):
            check_covariance(made, table, over, cell)


def check_covariance(made: pc.Plan, table, over: set[int], cell: int) -> None:
    known = predictor(made)
    margin = tuple(entry for at, entry in enumerate(table) if at not in over)
    _, covariances = known.margin_errors(table, margin)
    assert covariances.shape == known.variances(table).shape
    place = np.unravel_index(cell % covariances.size, covariances.shape)
    whole = np.zeros(covariances.shape)
    whole[tuple(slice(None) if at in over else own for at, own in enumerate(place))] = 1.0
    own = np.zeros(covariances.shape)
    own[place] = 1.0
    plus, minus = (known.query_law(table, own + sign * whole).variance for sign in (1, -1))
    allowed = (1e-2 if _narrow(made) else 1e-7) * max(plus, minus, 1e-12)
    assert covariances[place] == pytest.approx((plus - minus) / 4, rel=1e-6, abs=allowed)


def _narrow(made: pc.Plan) -> bool:
    """Whether noise is so narrow that the variances of Helmert rows are bounds."""
    return float(made.noise_variances().min()) < 20


# In tables


def test_shares_add_up_and_lie_in_their_intervals() -> None:
    schema = pc.Schema.from_sizes({"sex": 2, "age": 5})
    made = released(pc.Workload.all_kway(schema, 2), pc.PureDP(2), records=20_000)
    for shares, names in (("total", []), ("row", ["sex"]), ("column", ["age"]), (["sex"], ["age"]), ("age", ["sex"])):
        found = made.table(("age", "sex"), shares=shares)
        sums = found.groupby(names)["share"].sum() if names else [found["share"].sum()]
        assert np.allclose(sums, 1)
        assert (found["share_low"] <= found["share"]).all()
        assert (found["share"] <= found["share_high"]).all()
        assert (found["share_low_all"] <= found["share_low"]).all()
        assert (found["share_high"] <= found["share_high_all"]).all()
        assert (found["share_high"] - found["share_low"]).max() < 0.02
    assert "share" not in made.table("sex").columns


def test_a_share_of_one_value_is_certain_and_a_share_of_nothing_is_not_determined() -> None:
    schema = pc.Schema.from_sizes({"one": 1, "b": 3})
    made = released(pc.Workload.all_kway(schema, 2), pc.PureDP("0.1"), records=1_000)
    found = made.table(("one", "b"), shares=["one"])
    assert np.allclose(found[["share", "share_low", "share_high"]], 1)
    empty = released(pc.Workload.all_kway(schema, 2), pc.PureDP("0.001"), records=1)
    found = empty.table(("one", "b"), shares="row", confidence=0.999)
    assert found[["share", "share_low", "share_high", "share_low_all", "share_high_all"]].isna().all(axis=None)
    table = empty.table(("one", "b"), shares="row", confidence=0.999, form="pyarrow")
    assert table["share"].null_count == 3
    assert empty.table(("one", "b"), shares="row", confidence=0.999, form="polars")["share"].null_count() == 3
    found = empty.share({"b": 0}, confidence=0.999)
    assert not found.determined
    assert str(found) == "not determined (99.9%)"


def test_without_noise_a_share_is_exact() -> None:
    schema = pc.Schema.from_sizes({"a": 2, "b": 3})
    made = released(pc.Workload.all_kway(schema, 2), pc.PureDP(1000), records=30)
    found = made.table(("a", "b"), shares="total")
    assert np.allclose(found["share"], found["estimate"].round() / 30, atol=1e-12)
    assert (found["share_high_all"] - found["share_low_all"]).max() < 1e-5


def test_columns_of_shares_do_not_hide_attributes() -> None:
    schema = pc.Schema.from_sizes({"share": 2, "share_low": 2})
    made = released(pc.Workload.all_kway(schema, 2), pc.PureDP(1))
    assert list(made.table(schema.names).columns[:2]) == ["share", "share_low"]
    assert list(made.table(schema.names, shares="total").columns[:2]) == ["share_", "share_low_"]


def test_shares_of_a_release_with_whole_numbers() -> None:
    schema = pc.Schema.from_sizes({"a": 2, "b": 2})
    found = released(pc.Workload.all_kway(schema, 2), pc.PureDP(5)).whole("fast").table(("a", "b"), shares="row")
    assert {"count", "share"} <= set(found.columns)


def test_large_tables_take_few_laws(effort, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pc.Schema.from_sizes({"a": 100, "b": 100})
    known = predictor(pc.plan(pc.Workload.tables(schema, [("a", "b"), ("a",)]), pc.PureDP(1), "marginals"))
    asked = []
    own = type(known).query_law
    monkeypatch.setattr(type(known), "query_law", lambda *given: asked.append(1) or own(*given))
    ShareErrors.of(known, ("a", "b"), (1,)).intervals(np.full((100, 100), 50.0), 0.95)
    assert len(asked) <= 6


@pytest.mark.parametrize(
    ("shares", "said"),
    [("rows", "total, row, column"), ([], "attributes of the table"), (["c"], "'c'"), (3, "3"), (["a", 3], "a")],
)
def test_unknown_shares_are_refused(shares, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        places_over(("a", "b"), shares)


def test_shares_that_make_no_sense_are_refused() -> None:
    schema = pc.Schema.from_sizes({"a": 2, "b": 4})
    ranges = released(
        pc.Workload.tables(schema, [("a", Axis("b", queries="ranges"))]), pc.PureDP(1), strategy="hierarchy"
    )
    with pytest.raises(QueryError, match="overlap"):
        ranges.table(("a", Axis("b", queries="ranges")), shares="row")
    assert len(ranges.table(("a", Axis("b", queries="ranges")), shares=["a"])) == 20
    with pytest.raises(QueryError, match="no rows and columns"):
        ranges.table(("a",), shares="row")


def test_shares_of_direct_recovery_are_of_sums_of_their_own_table() -> None:
    """Another table of the workload has the same sums from groups of its own."""
    schema = pc.Schema.from_sizes({"a": 2, "b": 4})
    workload = pc.Workload.tables(schema, [("a", "b"), ("a",)], weights=[1, 100])
    direct = pc.plan(workload, pc.PureDP(1), "marginals", recovery="direct")
    made = pc.release(direct, pa.table({"a": [0, 1] * 4000, "b": [0, 0, 1, 1, 2, 2, 3, 3] * 1000}))
    shares, counts = made.table(("a", "b"), shares="row"), made.table(("a", "b"))["estimate"]
    assert np.allclose(shares["share"], counts / np.repeat(counts.to_numpy().reshape(2, 4).sum(axis=1), 4))
    one = made.share({"a": 0, "b": 2}, of={"a": 0})
    assert one.high - one.low == pytest.approx(shares["share_high"][2] - shares["share_low"][2], rel=0.1)


# In queries


def test_one_share_is_that_of_the_table() -> None:
    schema = pc.Schema.from_sizes({"a": 3, "b": 4})
    made = released(pc.Workload.all_kway(schema, 2), pc.PureDP("0.5"), records=3_000)
    rows = made.table(("a", "b"), shares="row")
    for row in rows.to_dict("records"):
        one = made.share({"b": row["b"]}, of={"a": row["a"]})
        assert one.determined
        assert one.low <= one.estimate <= one.high
        assert one.estimate == pytest.approx(row["share"])
        assert (one.low, one.high) == pytest.approx((row["share_low"], row["share_high"]), rel=0.05, abs=2e-3)


def test_a_share_is_of_those_that_meet_both_conditions() -> None:
    bins = pc.Attribute("age", bins=[0, 10, 20, 30], levels=[pc.Level("half", bins=[0, 20, 30])])
    schema = pc.Schema([bins, pc.Attribute("sex", values=["F", "M"])])
    records = pa.table({"age": [5, 5, 15, 25], "sex": ["F", "M", "F", "M"]})
    made = pc.release(pc.plan(pc.Workload.all_kway(schema, 2), pc.PureDP(1000), "marginals"), records)
    assert made.share({"sex": "F"}, of={"age": [0, 20]}).estimate == pytest.approx(2 / 3)
    assert made.share({"age": [10, 30]}, of={"age": [0, 20]}).estimate == pytest.approx(1 / 3)
    assert made.share({"age": {"half": "[0, 20)"}}).estimate == pytest.approx(3 / 4)
    assert str(made.share({})) == "100.0%, from 100.0% to 100.0% (95%)"
    leveled = pc.Workload.tables(schema, [(Axis("age", "half"), "sex")])
    coarse = pc.release(pc.plan(leveled, pc.PureDP(1000), "marginals"), records)
    assert coarse.share({"sex": "F"}, of={"age": [0, 20]}).estimate == pytest.approx(2 / 3)
    with pytest.raises(QueryError):
        coarse.share({"sex": "F"}, of={"age": [0, 10]})
    with pytest.raises(PrivcubeError, match="confidence"):
        made.share({"sex": "F"}, confidence=1)


# Any schema


@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_shares_of_any_release_are_sound_or_refused(data: st.DataObject) -> None:
    workload, guarantee = data.draw(workloads()), data.draw(GUARANTEES)
    strategy = data.draw(st.sampled_from(["marginals", "base_counts", "hierarchy", "matrix"]))
    try:
        made = pc.plan(workload, guarantee, strategy, effort="fast")
        scale = float(np.sqrt(made.noise_variances().max()))
        answers = np.random.default_rng(data.draw(st.integers(0, 99))).normal(0, 2 * scale + 5, made.rows).round()
        release = Release(Measurements(made, answers.astype(np.int64)))
        for table in workload:
            names = [Axis.of(entry).attribute for entry in table]
            shares = data.draw(st.sampled_from(["total", "row", "column", *names]))
            found = release.values(table, data.draw(st.sampled_from([0.5, 0.95, 1 - 1e-12])), shares).shares
            assert found is not None
            for low, high in ((found.low, found.high), (found.low_all, found.high_all)):
                assert np.array_equal(np.isnan(low), np.isnan(high))
                sound = ~np.isnan(low)
                assert np.all((low >= 0) & (low <= high) & (high <= 1), where=sound)
            assert np.array_equal(np.isnan(found.estimate), np.isnan(found.low))
            assert np.all((found.estimate >= found.low) & (found.estimate <= found.high), where=~np.isnan(found.low))
    except PrivcubeError:
        pass


def test_one_sum_in_another() -> None:
    schema = pc.Schema.from_sizes({"a": 4})
    known = predictor(pc.plan(pc.Workload.all_kway(schema, 1), pc.ZCDP("0.5")))
    counts, part, whole = np.array([50.0, 30.0, 20.0, 0.0]), np.array([1.0, 1, 0, 0]), np.array([1.0, 1, 1, 0])
    found = share_of(known, ("a",), counts, part, whole, 0.95)
    # three counts with variance 1: n - r d has variance 2 (1 - r)^2 + r^2
    for end in (found.low, found.high):
        assert abs(80 - end * 100) == pytest.approx(1.96 * math.sqrt(2 * (1 - end) ** 2 + end**2), abs=1.1)
