"""Explanations: runners-up against plans made by hand, limits against references and dense matrices."""

from __future__ import annotations

import json
import re

import pytest
import reference_figures
from hypothesis import given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.accuracy.matrix_structure import schema_of
from privcube.errors import PlanError, PrivcubeError
from privcube.model.frame import Frame
from privcube.planning import candidates
from privcube.planning.explanation import group_name
from privcube.planning.limits import (
    least_additive_variance,
    least_largest_variance,
    least_total_variance,
    svd_bound,
)
from privcube.strategies import STRATEGIES

SCHEMA = pc.Schema.from_sizes({"sex": 2, "age": 6, "region": 3})
WORKLOAD = pc.Workload.tables(SCHEMA, [("sex",), ("age",), ("sex", "region"), ("age", "region")], weights=[1, 2, 1, 1])
RANGES = pc.Workload.ranges(pc.Schema.from_sizes({"age": 16}), ["age"])


@pytest.mark.parametrize("guarantee", [pc.PureDP(1), pc.ZCDP("0.5")], ids=["pure", "zcdp"])
@pytest.mark.parametrize("workload", [WORKLOAD, RANGES], ids=["cells", "ranges"])
def test_runners_up_are_plans_made_by_hand(guarantee: pc.PureDP | pc.ZCDP, workload: pc.Workload) -> None:
    plan = pc.plan(workload, guarantee)
    found = pc.explain(plan)
    assert {each.strategy for each in found.others} == {*STRATEGIES, "search"} - {plan.options.strategy}
    for each in found.others:
        if each.refused is not None:
            assert (each.std_error, each.ratio) == (None, None)
            with pytest.raises(PrivcubeError, match=re.escape(each.refused)):
                pc.plan(workload, guarantee, each.strategy, budgets="iterated")
            continue
        by_hand = pc.plan(workload, guarantee, each.strategy, budgets="iterated")
        assert each.std_error == pytest.approx(by_hand.mean_cell_variance**0.5)
        assert each.ratio == pytest.approx((by_hand.weighted_variance / plan.weighted_variance) ** 0.5)
        assert each.ratio >= 1 - 1e-6
    ratios = [each.ratio for each in found.others if each.ratio is not None]
    assert ratios == sorted(ratios)


def test_runners_up_for_the_largest_error() -> None:
    plan = pc.plan(WORKLOAD, pc.ZCDP(1), objective="largest")
    found = pc.explain(plan)
    (marginals,) = [each for each in found.others if each.strategy == "marginals"]
    by_hand = pc.plan(WORKLOAD, pc.ZCDP(1), "marginals", budgets="iterated")
    assert marginals.ratio == pytest.approx((max(by_hand.table_variances) / max(plan.table_variances)) ** 0.5)
    assert found.limit is not None
    assert found.limit.ratio == pytest.approx(1, abs=1e-6)
    assert "wanted errors per table" in str(found)


def test_what_is_measured_adds_up() -> None:
    binary = pc.Schema.from_sizes({f"a{number}": 2 for number in range(8)})
    plan = pc.plan(pc.Workload.all_kway(binary, 2), pc.PureDP(1))
    found = pc.explain(plan)
    assert sum(each.rows for each in found.measured) == plan.rows
    assert sum(len(each.groups) for each in found.measured) == len(plan.groups)
    assert sum(each.share for each in found.measured) == pytest.approx(1)
    assert len(found.measured) == len(plan.noised_together)
    assert [each.share for each in found.measured] == sorted((each.share for each in found.measured), reverse=True)


def test_names_of_groups() -> None:
    area = pc.Attribute(
        "area", values=list("uvwx"), levels=[pc.Level("part", groups={"n": ["u", "v"], "s": ["w", "x"]})]
    )
    schema = pc.Schema([area, pc.Attribute("sex", values=("f", "m"))])
    workload = pc.Workload.tables(schema, [(pc.Axis("area", "part"), "sex"), ("area",)])
    marginals = pc.plan(workload, pc.PureDP(1), "marginals")
    assert [group_name(marginals.frame, group) for group in marginals.groups] == ["area", "area by part x sex"]
    fourier = pc.plan(pc.Workload.tables(schema, [("area", "sex")]), pc.PureDP(1), "fourier")
    names = {group_name(fourier.frame, group) for group in fourier.groups}
    assert {"total", "differences of area", "differences of area in 2 bits x sex"} <= names
    matrix = pc.plan(RANGES, pc.ZCDP(1), "matrix")
    assert [group_name(matrix.frame, group) for group in matrix.groups] == ["weighted sums of age"]
    sketch = pc.plan(pc.Workload.all_kway(SCHEMA, 1), pc.PureDP(1), "sketch")
    assert "buckets of a sketch" in group_name(sketch.frame, sketch.groups[0])


# Limits


@settings(max_examples=18, deadline=None)
@given(data=st.data())
def test_the_optimum_of_cells_is_the_dense_bound(data: st.DataObject) -> None:
    """All columns look alike, so the bound by eigenvalues is reached (dense twin)."""
    sizes = data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    schema = pc.Schema.from_sizes({f"a{number}": size for number, size in enumerate(sizes)})
    sets = st.sets(st.sampled_from(schema.names)).map(lambda names: tuple(n for n in schema.names if n in names))
    tables = data.draw(st.lists(sets.filter(bool), min_size=1, max_size=5, unique=True))
    weights = data.draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(tables), max_size=len(tables)))
    workload = pc.Workload.tables(schema, tables, weights=weights)
    assert least_total_variance(workload) == pytest.approx(svd_bound(workload), rel=1e-6)  # roots of rounded zeros
    made = pc.plan(workload, pc.ZCDP("0.5"), "residual")
    assert made.weighted_variance == pytest.approx(least_total_variance(workload), rel=1e-6)
    largest = pc.plan(workload, pc.ZCDP("0.5"), objective="largest")
    assert max(largest.table_variances) == pytest.approx(least_largest_variance(workload), rel=1e-6)


REFERENCE = [row for row in reference_figures.reference_rows() if row["metric"].startswith("total_sq_error")]
SUMVAR = [row for row in REFERENCE if row["method"] == "ResidualPlanner sumvar"]
SVD = [row for row in REFERENCE if row["method"] == "1-D svd_bound_x2"]


def test_the_reference_has_the_limits() -> None:
    assert (len(SUMVAR), len(SVD)) == (16, 4)


@pytest.mark.parametrize("row", SUMVAR, ids=lambda row: f"{row['domain'][:5]}, {row['workload']}")
def test_the_optimum_is_that_of_residual_planner(row: dict[str, str]) -> None:
    workload = reference_figures.workload(row["domain"], row["workload"])
    assert least_total_variance(workload) == pytest.approx(float(row["value"]), rel=1e-9)


@pytest.mark.parametrize("row", SVD, ids=lambda row: f"{row['domain']}, {row['workload']}")
def test_the_yardstick_of_ranges(row: dict[str, str]) -> None:
    schema = pc.Schema.from_sizes({"x": int(row["domain"])})
    wanted = pc.Workload.ranges(schema, ["x"]) if row["workload"] == "allrange" else pc.Workload.prefixes(schema, ["x"])
    assert 2 * svd_bound(wanted) == pytest.approx(float(row["value"]), rel=1e-9)


@pytest.mark.parametrize(
    ("guarantee", "kind", "noise"),
    [
        (pc.ZCDP("0.25", max_rows_per_person=2), "optimum", 2 * 4),
        (pc.ApproxDP(1, "1e-6"), "optimum", float(pc.ApproxDP(1, "1e-6").unit_noise)),
    ],
)
def test_the_limit_is_scaled_to_the_guarantee(guarantee: pc.ZCDP, kind: str, noise: float) -> None:
    plan = pc.plan(WORKLOAD, guarantee, "residual")
    limit = pc.explain(plan).limit
    assert limit is not None
    assert limit.kind == kind
    weight = sum(w * c for w, c in zip(WORKLOAD.weights, WORKLOAD.sizes, strict=True))
    assert limit.std_error**2 * weight == pytest.approx(least_total_variance(WORKLOAD) * noise)
    assert limit.ratio**2 == pytest.approx(plan.weighted_variance / (least_total_variance(WORKLOAD) * noise))
    assert limit.ratio == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("objective", ["total", "largest"])
def test_the_limit_under_a_pure_guarantee(objective: str) -> None:
    plan = pc.plan(WORKLOAD, pc.PureDP(2, max_rows_per_person=3), objective=objective)
    found = pc.explain(plan)
    limit = found.limit
    assert limit is not None
    assert limit.kind == "additive"
    weight = sum(w * c for w, c in zip(WORKLOAD.weights, WORKLOAD.sizes, strict=True))
    least = least_additive_variance(WORKLOAD, objective) * 9 / 4
    assert limit.std_error**2 * (weight if objective == "total" else 1.0) == pytest.approx(least)
    assert limit.ratio > 1
    shown = re.search(r"Limit: a .* of ([\d.,]+); this plan is at ([\d.]+) times", str(found))
    assert shown is not None
    assert limit.std_error - 0.01 < float(shown[1]) <= limit.std_error  # rounded in the safe direction
    assert limit.ratio <= float(shown[2]) < limit.ratio + 0.001


def test_ranges_have_a_yardstick_under_a_pure_guarantee() -> None:
    found = pc.explain(pc.plan(RANGES, pc.PureDP(1), "hierarchy"))
    assert found.limit is not None
    assert found.limit.kind == "yardstick"
    assert found.limit.std_error**2 == pytest.approx(2 * svd_bound(RANGES) / RANGES.cells)
    assert "a yardstick rather than a limit" in str(found)


def test_a_strategy_that_would_take_minutes_is_named_with_the_least_error_it_could_have() -> None:
    workload = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 5000, "b": 100}), 2)
    found = pc.explain(pc.plan(workload, pc.PureDP(1), "marginals"))
    (fourier,) = [each for each in found.others if each.strategy == "fourier"]
    assert fourier.std_error is None
    assert fourier.refused is not None
    assert re.search(
        r"seconds of work at effort fast, given about \d+; a weighted variance of at least", fourier.refused
    )


def test_limits_of_ranges_and_none() -> None:
    found = pc.explain(pc.plan(RANGES, pc.ZCDP("0.5"), "matrix")).limit
    assert found is not None
    assert found.kind == "bound"
    assert 1 <= found.ratio < 1.05
    assert pc.explain(pc.plan(WORKLOAD, pc.PureDP(1, neighbors="replace_one"), "marginals")).limit is None
    wide = pc.Workload.ranges(pc.Schema.from_sizes({"age": 2000}), ["age"])
    assert schema_of(wide).domain_size == 2000
    with pytest.raises(PlanError, match="1,024"):
        svd_bound(wide)


# For people and programs


def test_text_html_and_document() -> None:
    hostile = pc.Schema([pc.Attribute("<b>\u200b", values=("f", "m")), pc.Attribute("age", size=5)])
    plan = pc.plan(pc.Workload.all_kway(hostile, 1), pc.PureDP(1), "marginals")
    found = pc.explain(plan)
    text, page = str(found), found._repr_html_()
    assert "\u200b" not in text + page
    assert "<b>\\u200b" in text
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "marginals (this plan)" in text
    assert "No additive noise on these tables does better" in text
    assert json.loads(json.dumps(found.document()))["limit"]["kind"] == "additive"
    assert found.document()["others"][0]["strategy"] == found.others[0].strategy


def test_many_groups_are_cut_short() -> None:
    binary = pc.Schema.from_sizes({f"a{number}": 2 for number in range(6)})
    plan = pc.plan(pc.Workload.all_kway(binary, 2), pc.PureDP(1), "fourier")
    lines = str(pc.explain(plan)).splitlines()
    assert any(line.endswith(f"{len(plan.groups) - 12} more") for line in lines)
    assert Frame.natural(plan.workload).kind == "natural"


def test_a_search_refuses_what_it_does_not_do() -> None:
    for options in ({"recovery": "direct"}, {"budgets": "uniform"}):
        with pytest.raises(PlanError, match="optimal recovery and budgets"):
            pc.plan(WORKLOAD, pc.PureDP(1), "search", **options)  # type: ignore[arg-type]


def test_what_is_weighted_says_so() -> None:
    """The limit is that of the weighted error, which is none of the standard errors by strategy."""
    for weights, says in (([1, 1000], True), ([7, 7], False)):
        workload = pc.Workload.tables(SCHEMA, [("sex",), ("age",)], weights=weights)
        found = pc.explain(pc.plan(workload, pc.ZCDP("0.5")))
        assert found.limit is not None
        own = found.limit.std_error * found.limit.ratio
        assert (
            f"weighted as the tables are, of {own:,.2f}; this plan is at 1.000 times that, {own:,.2f}. No" in str(found)
        ) is says
        assert (f"error of {found.std_error:,.2f}; this plan is at 1.000 times" in str(found)) is not says


def test_the_strategy_of_the_plan_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made, tried = pc.plan(pc.Workload.tables(SCHEMA, [("sex",)]), pc.PureDP(1), "search"), []
    real = candidates.least_total

    def least_total(*given):
        tried.append(given[2].strategy)
        return real(*given)

    monkeypatch.setattr(candidates, "least_total", least_total)
    pc.explain(made)
    assert "marginals" in tried
    assert "search" not in tried
