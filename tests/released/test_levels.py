"""Tables at levels that no table of the workload uses: sums of published cells, with exact errors, that agree."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

import privcube as pc
from privcube.accuracy.moments import discrete_gaussian_variance, exact_noise_variances
from privcube.accuracy.predictor import recover
from privcube.errors import QueryError, WorkloadError
from privcube.model.frame import Frame
from privcube.model.groups import cells_groups, group_rows, has_helmert, row_weights
from privcube.model.measurements import Measurements
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Table
from privcube.planning.steps import plan_of, with_bundles
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace
from privcube.strategies.proposal import Proposal

DISTRICTS = {"d1": ["a", "e"], "d2": ["b"], "d3": ["c", "f", "g"], "d4": ["d"]}  # unequal, and not in order
REGIONS = {"north": ["d1", "d4"], "south": ["d2", "d3"]}
AREA = pc.Attribute(
    "area", values=list("abcdefg"), levels=[pc.Level("district", groups=DISTRICTS), pc.Level("region", groups=REGIONS)]
)
SCHEMA = pc.Schema(
    [pc.Attribute("sex", values=["F", "M"]), AREA, pc.Attribute("age", size=5, levels=[pc.Level("pair", width=2)])]
)
DISTRICT, REGION, PAIR = pc.Axis("area", "district"), pc.Axis("area", "region"), pc.Axis("age", "pair")
CELLS = pc.Workload.all_kway(SCHEMA, 2)
COARSE = pc.Workload.tables(SCHEMA, [("sex", DISTRICT), ("age",)])
MIXED = pc.Workload.tables(SCHEMA, [("area",), ("sex", DISTRICT), ("sex", "age")])
PURE, GAUSSIAN = pc.PureDP("0.5"), pc.ZCDP("0.05")


def on_unpadded_axes(workload: pc.Workload, guarantee: Guarantee) -> Plan:
    """A plan on axes that lack the districts, so that tables at that level are sums of cells, too."""
    frame = Frame.unpadded(workload)
    assert frame.levels_of(AREA) == ()
    groups = tuple(dict.fromkeys(cells_groups(frame, workload)))
    return plan_of(workload, guarantee, PlanOptions(strategy="marginals"), Proposal(frame, groups, None))


def plans() -> dict[str, tuple[Plan, dict[Table, Table]]]:
    """Plans, and for every table to ask for one of the workload that is finer."""
    from_cells: dict[Table, Table] = {
        ("sex", REGION): ("sex", "area"),
        ("sex", DISTRICT): ("sex", "area"),
        (DISTRICT, PAIR): ("area", "age"),
        (REGION, "age"): ("area", "age"),
        (REGION,): ("sex", "area"),
        ("sex", PAIR): ("sex", "age"),
        (PAIR,): ("area", "age"),
    }
    from_districts: dict[Table, Table] = {
        ("sex", REGION): ("sex", DISTRICT),
        (REGION,): ("sex", DISTRICT),
        (PAIR,): ("age",),
    }
    from_both: dict[Table, Table] = {
        ("sex", REGION): ("sex", DISTRICT),
        (REGION,): ("area",),
        (DISTRICT,): ("area",),
        ("sex", PAIR): ("sex", "age"),
    }
    made = {}
    for kind, guarantee in (("pure", PURE), ("Gaussian", GAUSSIAN)):
        for strategy in ("base_counts", "marginals", "fourier", "clusters", "hierarchy", "wavelet"):
            made[f"cells, {strategy}, {kind}"] = pc.plan(CELLS, guarantee, strategy), from_cells
        for strategy in ("base_counts", "marginals", "fourier", "clusters"):
            made[f"districts, {strategy}, {kind}"] = pc.plan(COARSE, guarantee, strategy), from_districts
            made[f"both, {strategy}, {kind}"] = pc.plan(MIXED, guarantee, strategy), from_both
        made[f"both, sums, {kind}"] = on_unpadded_axes(MIXED, guarantee), from_both
    made["cells, residual"] = pc.plan(CELLS, GAUSSIAN, "residual"), from_cells
    made["both, residual"] = pc.plan(MIXED, GAUSSIAN, "residual"), from_both
    few = pc.plan(CELLS, PURE, "marginals")
    made["cells, bundle"] = with_bundles(few, [tuple(range(len(few.groups)))]), from_cells
    return made


PLANS = plans()


def released(plan: Plan, answers: np.ndarray) -> pc.Release:
    return pc.Release(Measurements(plan, np.asarray(answers, dtype=np.int64)))


def some_answers(plan: Plan) -> np.ndarray:
    return np.random.default_rng(3).integers(-500, 500, plan.rows)


# The slow twin


def district_of(town: str) -> str:
    return next(district for district, towns in DISTRICTS.items() if town in towns)


def region_of(district: str) -> str:
    return next(region for region, districts in REGIONS.items() if district in districts)


COARSER = {
    ("area", DISTRICT): district_of,
    ("area", REGION): lambda town: region_of(district_of(town)),
    (DISTRICT, REGION): region_of,
    ("age", PAIR): lambda age: ["[0, 2)", "[2, 4)", "[4, 5)"][age // 2],
}
LABELS = {
    "sex": ["F", "M"],
    "area": list("abcdefg"),
    "age": list(range(5)),
    DISTRICT: list(DISTRICTS),
    REGION: list(REGIONS),
    PAIR: ["[0, 2)", "[2, 4)", "[4, 5)"],
}


def sums(table: Table, finer: Table) -> np.ndarray:
    """A table as sums over the cells of a finer one, cell by cell and by labels alone."""
    own = {entry if isinstance(entry, str) else entry.attribute: entry for entry in table}
    rows = {labels: row for row, labels in enumerate(product(*(LABELS[entry] for entry in table)))}
    matrix = np.zeros((len(rows), len(list(product(*(LABELS[entry] for entry in finer))))))
    for column, labels in enumerate(product(*(LABELS[entry] for entry in finer))):
        found = []
        for entry, label in zip(finer, labels, strict=True):
            wanted = own.get(entry if isinstance(entry, str) else entry.attribute)
            if wanted is not None:
                found.append(label if wanted == entry else COARSER[entry, wanted](label))
        matrix[rows[tuple(found)], column] = 1.0
    return matrix


@lru_cache
def recovery(name: str) -> dict[Table, np.ndarray]:
    """The tables of the workload as matrices on the answers, found by recovering from one answer at a time."""
    plan = PLANS[name][0]
    units = [recover(plan, unit) for unit in np.eye(plan.rows)]
    return {table: np.stack([unit[table].ravel() for unit in units], axis=1) for table in plan.workload}


def drawn_variances(plan: Plan) -> np.ndarray:
    """The variance of the noise of every row."""
    found = []
    for number, (group, variance) in enumerate(zip(plan.groups, exact_noise_variances(plan), strict=True)):
        if has_helmert(group):
            weights = row_weights(plan.frame, group)
            found += [discrete_gaussian_variance(float(plan.noise_variance(number)) * weight) for weight in weights]
        else:
            found += [variance] * group_rows(plan.frame, group)
    return np.array(found)


# Tests


@pytest.mark.parametrize("name", list(PLANS)[2::6])
def test_levels_are_sums_of_what_was_published_with_their_exact_error(name: str) -> None:
    plan, asked = PLANS[name]
    release, variances = released(plan, some_answers(plan)), drawn_variances(plan)
    for table, finer in asked.items():
        assert table not in plan.workload
        found, twin = release.values(table), sums(table, finer)
        np.testing.assert_allclose(found.estimate.ravel(), twin @ release.values(finer).estimate.ravel(), atol=1e-6)
        expected = (twin @ recovery(name)[finer]) ** 2 @ variances
        np.testing.assert_allclose(found.std_error.ravel() ** 2, expected, rtol=1e-6, err_msg=str(table))


@pytest.mark.parametrize("name", list(PLANS)[1::3])
def test_a_table_of_levels_says_what_queries_say(name: str) -> None:
    plan, asked = PLANS[name]
    release = released(plan, some_answers(plan))
    for table in asked:
        found = release.values(table)
        for place in np.ndindex(*found.estimate.shape):
            where = {}
            for entry, at in zip(table, place, strict=True):
                label = LABELS[entry][at]
                where |= {entry: label} if isinstance(entry, str) else {entry.attribute: {entry.level: label}}
            answer = release.query(where)
            assert answer.estimate == pytest.approx(found.estimate[place], abs=1e-6)
            assert answer.std_error == pytest.approx(found.std_error[place], rel=1e-6)
            assert answer.high - answer.estimate == pytest.approx(found.margin[place], rel=0.08)


@pytest.mark.parametrize("name", ["cells, fourier, pure", "cells, residual", "districts, marginals, pure",
                                  "both, sums, pure"])  # fmt: skip
def test_intervals_cover(name: str) -> None:
    """With the noise that the gate draws; a margin a tenth too small would be noticed."""
    plan, asked = PLANS[name]
    columns = []
    for number, group in enumerate(plan.groups):
        assert len(plan.noised_together[number]) == 1
        for weight in row_weights(plan.frame, group):
            if isinstance(plan.guarantee, pc.PureDP):
                columns.append(discrete_laplace(plan.noise_scale(number), 10_000))
            else:
                columns.append(discrete_gaussian(plan.noise_variance(number) * Fraction(weight), 10_000))
    drawn, release = np.stack(columns, axis=1), released(plan, np.zeros(plan.rows))
    for table, finer in asked.items():
        errors = drawn @ (sums(table, finer) @ recovery(name)[finer]).T
        stated = release.values(table)
        covered = np.mean(np.abs(errors) <= stated.margin.ravel(), axis=0)
        assert 0.939 <= covered.min() <= covered.max() <= 0.971, (table, covered)
        assert np.mean(np.abs(errors) <= 0.9 * stated.margin.ravel()) < 0.94
        assert np.mean(np.all(np.abs(errors) <= stated.margin_all.ravel(), axis=1)) >= 0.939  # five standard errors


def test_frames_and_arrays_have_the_labels_of_the_level() -> None:
    release = released(PLANS["cells, marginals, pure"][0], some_answers(PLANS["cells, marginals, pure"][0]))
    long = release.table([("area", "region"), "sex"])
    assert list(long.columns[:2]) == ["sex", "area by region"]
    assert list(long["area by region"]) == ["north", "south"] * 2
    cube = release.to_xarray(["sex", ("area", "region")])
    fine = release.to_xarray(["sex", "area"]).estimate.sel(sex="M")
    north = fine.sel(area=["a", "e", "d"]).sum()
    assert float(cube.estimate.sel({"sex": "M", "area by region": "north"})) == pytest.approx(float(north), abs=1e-6)


@pytest.mark.parametrize(
    ("workload", "recovery_by", "table", "message"),
    [
        (COARSE, "optimal", ("sex", "area"), "sex x area: .* determine; available: sex x area by district, age"),
        (COARSE, "optimal", (REGION, "age"), "area by region x age: .* determine; available: age, sex x area by"),
        (CELLS, "optimal", ("sex", REGION, PAIR), "area by region x age by pair: .* determine; available: sex x area,"),
        (
            CELLS,
            "direct",
            ("sex", REGION),
            "of the workload; available: sex x area",
        ),
    ],
)
def test_what_was_not_measured_is_refused(workload: pc.Workload, recovery_by: str, table: Table, message: str) -> None:
    plan = pc.plan(workload, PURE, "marginals", recovery=recovery_by)
    with pytest.raises(QueryError, match=message):
        released(plan, np.zeros(plan.rows)).values(table)


def test_a_level_that_was_not_declared_is_refused() -> None:
    plan = PLANS["cells, marginals, pure"][0]
    with pytest.raises(WorkloadError, match="a declared level, given 'country'; available: district, region"):
        released(plan, np.zeros(plan.rows)).table([("area", "country")])


def test_a_query_finer_than_what_was_measured_is_refused() -> None:
    plan = PLANS["districts, marginals, pure"][0]
    release = released(plan, np.zeros(plan.rows))
    assert release.query({"area": ["a", "e", "b"]}) == release.query({"area": {"district": ["d1", "d2"]}})
    for where in ({"area": ["a", "b"]}, {"area": {"region": "north"}, "age": 3}):
        with pytest.raises(QueryError, match=r"area.*: expected a table that the measurements determine"):
            release.query(where)
