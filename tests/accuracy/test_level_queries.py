"""Tables at levels that the axes of a plan lack: dense least squares on real cells says the same, number by number.

The twin knows neither frames nor levels: its queries come from labels, its groups from the explicit rows of the plan.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import privcube as pc
from privcube import linear
from privcube.accuracy.moments import discrete_gaussian_variance, exact_noise_variances
from privcube.accuracy.predictor import drawn_table_variances, predictor, recover
from privcube.algebra.rounded_noise import rounded_variance
from privcube.model.frame import Frame
from privcube.model.groups import cells_groups, group_rows, has_helmert, row_weights
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Axis, Table, axis_cells
from privcube.planning.steps import plan_of
from privcube.strategies import residual
from privcube.strategies.proposal import Proposal

AREA = pc.Attribute(
    "area",
    values=list("abcdefg"),
    missing="category",
    levels=[
        pc.Level("district", groups={"d1": ["f", "a"], "d2": ["b"], "d3": ["g", "c", "e"], "d4": ["d"]}),
        pc.Level("region", groups={"south": ["d3", "d2"], "north": ["d1", "d4"]}),
        pc.Level("coast", groups={"sea": ["a", "b", "c"], "land": ["d", "e", "f", "g"]}, of="area"),
        pc.Level("any", groups={"all": ["sea", "land"]}),
    ],
)
AGE = pc.Attribute("age", size=6, other="category", levels=[pc.Level("two", width=2), pc.Level("most", bins=[0, 4, 6])])
SCHEMA = pc.Schema([pc.Attribute("sex", values=["F", "M"]), AREA, AGE])
DISTRICT, REGION, COAST, ANY = (Axis("area", level) for level in ("district", "region", "coast", "any"))
TWO, MOST, RANGES = Axis("age", "two"), Axis("age", "most"), Axis("age", queries="ranges")
WORKLOADS = {
    "cells and levels": [("area", "sex"), (DISTRICT, "age"), (REGION, MOST), (COAST, "sex"), (TWO,), (ANY, "sex")],
    "levels alone": [("sex", DISTRICT), (COAST,), (DISTRICT, TWO), (MOST, "sex")],
    "one level": [(REGION, "sex"), (TWO,)],
    "levels that cross": [(REGION, "sex"), (COAST, TWO), (MOST,)],
    "ranges beside levels": [(RANGES, REGION), (MOST, "area"), (Axis("age", queries="prefixes"),)],
}  # fmt: skip
GUARANTEES = {
    "pure": pc.PureDP("0.5"),
    "replaced": pc.PureDP(4, neighbors="replace_one"),
    "Gaussian": pc.ZCDP("0.05"),
    "narrow": pc.ZCDP(20),
    "exact": pc.ApproxDP(8, "1e-4"),
}


def workload(name: str) -> pc.Workload:
    return pc.Workload.tables(SCHEMA, WORKLOADS[name], weights=range(1, len(WORKLOADS[name]) + 1))


def plan_on_unpadded_axes(name: str, guarantee: Guarantee) -> Plan:
    wanted = workload(name)
    frame = Frame.unpadded(wanted)
    if isinstance(guarantee, pc.PureDP):
        groups = list(dict.fromkeys(cells_groups(frame, wanted)))
        bundled = Proposal.of_bundles(frame, [groups[:2], *([group] for group in groups[2:])])
        return plan_of(wanted, guarantee, PlanOptions(strategy="search", budgets="iterated"), bundled)
    options = PlanOptions(strategy="residual")
    return plan_of(wanted, guarantee, options, residual.propose(wanted, guarantee, frame))


def groups_of(label: object, level: str | None) -> object:
    """The group of a label of an attribute, by the declared texts alone."""
    if level is None or label in ("(missing)", "(other)"):
        return label
    if isinstance(label, int):
        edges = {"two": [0, 2, 4, 6], "most": [0, 4, 6]}[level]
        low = max(edge for edge in edges if edge <= label)
        return f"[{low}, {edges[edges.index(low) + 1]})"
    below = {"district": None, "coast": None, "region": "district", "any": "coast"}[level]
    (groups,) = [own.groups for own in AREA.levels if own.name == level]
    return next(name for name, members in groups or () if groups_of(label, below) in members)


def entry_rows(entry: str | Axis) -> np.ndarray:
    """The queries of an entry on the cells of its attribute."""
    axis = Axis.of(entry)
    labels = list(SCHEMA[axis.attribute].labels)
    if axis.queries != "cells":
        scale = 6
        ends = [(0, b) for b in range(scale)] if axis.queries == "prefixes" else [
            (a, b) for a in range(scale) for b in range(a, scale)]  # fmt: skip
        return np.array([[1.0 if a <= at <= b else 0.0 for at in range(len(labels))] for a, b in ends])
    groups = [groups_of(label, axis.level) for label in labels]
    names = labels if axis.level is None else list(SCHEMA[axis.attribute].partition(axis.level).labels)
    assert set(names) == set(groups)
    return np.array([[1.0 if group == name else 0.0 for group in groups] for name in names])


def table_rows(table: Table) -> np.ndarray:
    own = {Axis.of(entry).attribute: entry for entry in table}
    rows = np.ones((1, 1))
    for attribute in SCHEMA:
        factor = entry_rows(own[attribute.name]) if attribute.name in own else np.ones((1, attribute.cells))
        rows = np.kron(rows, factor)
    return rows


def drawn(plan: Plan) -> np.ndarray:
    """The variance of the noise on every row."""
    variance_of = rounded_variance if plan.guarantee.noise == "rounded_gaussian" else discrete_gaussian_variance
    found: list[float] = []
    for number, (group, variance) in enumerate(zip(plan.groups, exact_noise_variances(plan), strict=True)):
        if has_helmert(group):
            continuous = float(plan.noise_variance(number))
            found += [variance_of(continuous * weight) for weight in row_weights(plan.frame, group)]
        else:
            found += [float(variance)] * group_rows(plan.frame, group)
    return np.array(found)


@pytest.mark.parametrize(("name", "kind"), [*product(WORKLOADS, GUARANTEES)])
def test_dense_least_squares_says_the_same(name: str, kind: str) -> None:
    plan = plan_on_unpadded_axes(name, GUARANTEES[kind])
    rows = linear.strategy_matrix(plan.frame, plan.groups)[:, linear.real_columns(plan.frame)].toarray()
    weights = np.concatenate([row_weights(plan.frame, group) for group in plan.groups])
    counts = [group_rows(plan.frame, group) for group in plan.groups]
    weighted_by = np.repeat(plan.noise_variances(), counts) * weights
    answers = np.cos(np.arange(plan.rows) * 1.7) * 50
    recovered, made = recover(plan, answers), predictor(plan)
    exact = drawn_table_variances(plan)
    narrow = kind in ("narrow", "exact")
    for number, table in enumerate(plan.workload):
        queries = table_rows(table)
        recovery = linear.optimal_recovery(queries, rows, weighted_by)
        np.testing.assert_allclose(recovery @ rows, queries, atol=1e-7)  # the table is determined
        np.testing.assert_allclose(recovered[table].ravel(), recovery @ answers, atol=1e-6)
        assert plan.table_variances[number] == pytest.approx((recovery**2 @ weighted_by).mean(), rel=1e-7)
        twin = recovery**2 @ drawn(plan)
        assert exact[number] == pytest.approx(twin.mean(), rel=1e-6)
        stated = made.variances(table).ravel()
        if narrow:  # stated for the widest Helmert row of a group
            most = recovery**2 @ (weighted_by + weights / 12 * (kind == "exact"))
            assert np.all(stated >= twin * (1 - 1e-9))
            assert np.all(stated <= most * (1 + 1e-9))
        else:
            np.testing.assert_allclose(stated, twin, rtol=1e-6)
        assert recovered[table].shape == tuple(axis_cells(SCHEMA, entry) for entry in table)


def test_the_axes_are_those_that_need_no_padding() -> None:
    """Worked by hand: districts of 2, 1, 3, 1 towns need padding; three pairs of ages and (other) do as well."""
    assert Frame.unpadded(workload("cells and levels")).fan_outs == ((2,), (8,), (7,))
    alone = Frame.unpadded(workload("levels alone"))
    assert alone.levels_of(AREA) == ("district\ncoast",)
    assert alone.sizes[1][1] == 7  # a, f, b, c, e with g, d, and (missing)
    assert Frame.unpadded(workload("one level")).levels_of(AREA) == ("region",)
    assert Frame.unpadded(workload("levels that cross")).levels_of(AREA) == ("region\ncoast",)
    even = pc.Attribute("even", size=8, levels=[pc.Level("two", width=2), pc.Level("four", width=4)])
    asked = pc.Workload.full_cube(pc.Schema([even]))
    assert Frame.unpadded(asked) == Frame.natural(asked)
    assert Frame.unpadded(asked).fan_outs == ((2, 2, 2),)


def test_groups_of_finer_levels_than_a_table_say_nothing_about_it() -> None:
    """Helmert rows of one axis meet those of a level below the table's on another."""
    pq = pc.Level("pq", groups={"x": ["p", "q"], "y": ["r"]})
    schema = pc.Schema([pc.Attribute("a", size=4), pc.Attribute("b", values=["p", "q", "r"], levels=[pq])])
    asked: Table = ("a", Axis("b", "pq"))
    made = pc.plan(pc.Workload.tables(schema, [asked, ("a", "b")]), pc.ZCDP("0.5"), "residual")
    errors = predictor(made).errors(asked)
    law = predictor(made).query_law(asked, np.eye(8)[0].reshape(4, 2))
    assert law.variance == pytest.approx(errors.variances[0, 0])
