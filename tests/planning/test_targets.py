"""Accuracy first: the least budget by going through all budgets, margins by drawing noise, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from many_draws import drawn_noise

import privcube as pc
from privcube.accuracy.error_bars import ErrorBars
from privcube.accuracy.predictor import recover
from privcube.accuracy.privacy import verify_privacy
from privcube.accuracy.structure import Structure
from privcube.errors import PlanError, PrivcubeError
from privcube.planning.targets import Target, at_budget, least_budget, margins, planned_for

SCHEMA = pc.Schema.from_sizes({"sex": 2, "age": 6, "region": 3})
WORKLOAD = pc.Workload.tables(SCHEMA, [("sex",), ("age",), ("sex", "region"), ("age", "region")])
TARGETS: Mapping[tuple[str, ...], float] = {("sex",): 10, ("age", "region"): 25}
GUARANTEES = {
    "pure": pc.PureDP(1),
    "zcdp": pc.ZCDP("0.1"),
    "approx": pc.ApproxDP(1, "1e-6", calibration="zcdp"),
    "exact": pc.ApproxDP(1, "1e-6"),
    "classic": pc.ApproxDP(1, "1e-6", calibration="classic"),
    "replaced": pc.PureDP(1, neighbors="replace_one", max_rows_per_person=2),
}


@pytest.fixture
def made(name: str) -> pc.Plan:
    """The plan of the guarantee of this name."""
    return _made(name)


@cache
def _made(name: str) -> pc.Plan:
    return pc.plan_for(WORKLOAD, TARGETS, GUARANTEES[name])


def keeps(plan: pc.Plan) -> bool:
    return all(margins(plan, [table], 0.95)[0] <= margin for table, margin in TARGETS.items())


@pytest.mark.parametrize("name", GUARANTEES)
def test_the_least_budget_is_the_least(made: pc.Plan, name: str) -> None:
    plan, guarantee = made, GUARANTEES[name]
    amount = plan.guarantee.amount
    assert keeps(plan)
    assert not keeps(at_budget(plan, amount * Fraction(99, 100)))
    assert len(str(int(amount * 10**9)).rstrip("0")) <= 3
    for part in ("neighbors", "max_rows_per_person"):
        assert getattr(plan.guarantee, part) == getattr(guarantee, part)
    if name == "exact" and plan.guarantee.kind == "pure":  # even less of epsilon, and no delta
        return
    assert plan.guarantee.kind == guarantee.kind
    assert plan.guarantee.amounts.get("delta") == guarantee.amounts.get("delta")


@pytest.mark.parametrize("name", ["pure", "zcdp", "approx", "replaced"])
def test_it_is_a_plan_like_any_other(made: pc.Plan, name: str) -> None:
    plan = made
    verify_privacy(plan)
    assert pc.Plan.from_json(plan.to_json()).digest == plan.digest
    structure = Structure.of(WORKLOAD, plan.frame, plan.groups)
    assert structure.table_variances(plan.noise_variances()) == pytest.approx(plan.table_variances, rel=1e-9)


@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_no_other_plan_does_with_less(made: pc.Plan, name: str) -> None:
    targets = [Target(table, margin) for table, margin in TARGETS.items()]
    others = ["search", "marginals", "base_counts"] if name == "pure" else ["residual", "marginals", "base_counts"]
    for strategy in others:
        other = least_budget(pc.plan(WORKLOAD, GUARANTEES[name], strategy), targets)
        assert made.guarantee.amount <= other.guarantee.amount


def test_the_amount_that_was_given_does_not_matter() -> None:
    again = pc.plan_for(WORKLOAD, {("sex",): 10, ("region", "age"): 25.0}, pc.ZCDP("12.5"))
    assert again.digest == _made("zcdp").digest


@pytest.mark.parametrize(
    ("margin", "guarantee"),
    [(0.8, pc.PureDP(1)), (12.0, pc.PureDP(1)), (480.0, pc.PureDP(1)), (0.8, pc.ZCDP(1)), (3.0, pc.ZCDP(1))],
    ids=str,
)
def test_the_budget_against_all_budgets_in_turn(margin: float, guarantee: pc.PureDP | pc.ZCDP) -> None:
    """The slow twin: every budget of two digits from far below on, until one keeps to the target."""
    plan = pc.plan(WORKLOAD, guarantee, "marginals")
    found = least_budget(plan, [Target(("age",), margin)], digits=2)
    for power in range(-6, 4):
        for digits in range(10, 100):
            amount = Fraction(digits) * Fraction(10) ** (power - 1)
            if amount < found.guarantee.amount / 3:
                continue
            bars = ErrorBars(at_budget(plan, amount), [("age",)])
            if bars.errors(("age",)).half_widths(0.95).max() <= margin * (1 + 1e-8):
                assert found.guarantee.amount == amount
                return
    raise AssertionError("no budget")


@pytest.mark.parametrize("name", ["pure", "zcdp"])
def test_targets_are_met_by_the_noise_that_is_drawn(made: pc.Plan, name: str) -> None:
    """95 % of the errors are within the margin, and fewer within 0.7 of it."""
    runs = 600
    drawn = drawn_noise(made, runs)
    units = [recover(made, unit) for unit in np.eye(made.rows)]  # recovery is linear
    for table, margin in TARGETS.items():
        found = np.abs(drawn @ np.array([unit[table].ravel() for unit in units]))
        spread = 4 * (0.05 * 0.95 / runs) ** 0.5  # as if the cells of a run were one
        assert np.mean(found <= margin) > 0.95 - spread
        assert np.mean(found <= 0.7 * margin) < 0.95 - spread / 2


@pytest.mark.parametrize("guarantee", [pc.PureDP(1), pc.ZCDP(1)], ids=["pure", "zcdp"])
def test_each_range_keeps_to_the_margin(guarantee: pc.PureDP | pc.ZCDP) -> None:
    """Ranges have errors of their own; the margin is for the worst."""
    ranges = pc.Workload.ranges(pc.Schema.from_sizes({"age": 8}), ["age"])
    (table,) = ranges
    plan = pc.plan_for(ranges, {table: 40}, guarantee)
    release = pc.release(plan, pd.DataFrame({"age": [1, 2, 3]}))
    assert release.table(table)["std_error"].max() * 1.95 < 40
    assert margins(plan, [table], 0.95)[0] == pytest.approx(40, rel=0.011)
    residual = "residual" if isinstance(guarantee, pc.ZCDP) else "search"
    other = least_budget(pc.plan(ranges, guarantee, residual), [Target(table, 40)])
    assert plan.guarantee.amount <= other.guarantee.amount


def test_targets_of_several_confidences() -> None:
    wanted = [Target(("sex",), 10, 0.95), Target(("sex",), 11, 0.999), Target(("age",), 30, 0.5)]
    plan = planned_for(WORKLOAD, wanted, pc.ZCDP(1), effort="fast")
    reached = [margins(plan, [each.table], each.confidence)[0] / each.margin for each in wanted]
    assert max(reached) <= 1
    assert reached[1] == pytest.approx(1, rel=0.006)
    assert reached[0] < 0.7


def test_bundles_that_could_not_be_drawn_do_not_set_the_budget() -> None:
    """A target that is 30,000 times as wide as another would have noise too wide to be drawn in bundles."""
    plan = pc.plan_for(WORKLOAD, {("sex",): 1e5, ("age",): 3.1}, pc.PureDP(1))
    (reached,) = margins(plan, [("age",)], 0.95)
    assert 3 <= reached <= 3.1


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        ({}, "at least one table"),
        ({("sex", "age"): 5}, "tables of the workload, given 'sex x age'"),
        ({("income",): 5}, "available: sex, age, region"),
        ({"sxe": 5}, "did you mean 'sex'"),
        ({5: 5}, "attribute names such as"),
        ({("sex",): 0}, "margin of sex"),
        ({("sex",): -1}, "margin of sex"),
        ({("sex",): float("nan")}, "margin of sex"),
        ({("sex",): float("inf")}, "from 1e-06 to 1e.15"),
        ({("sex",): True}, "margin of sex"),
        ({("sex",): "5"}, "margin of sex"),
        ({("sex",): 1e-7}, "margin of sex: expected one that some budget reaches, from 1e-06"),
    ],
)
def test_targets_that_are_none(targets: dict[tuple[str, ...], float], says: str) -> None:
    with pytest.raises(PrivcubeError, match=says):
        pc.plan_for(WORKLOAD, targets, pc.PureDP(1))


def test_an_accuracy_that_every_budget_reaches() -> None:
    with pytest.raises(PlanError, match="margin of sex: expected one that some budget reaches, rho from 1e-12 to 1e9"):
        pc.plan_for(WORKLOAD, {("sex",): 1e15}, pc.ZCDP(1))


@pytest.mark.parametrize("guarantee", [pc.PureDP(1), pc.ZCDP(1)], ids=["pure", "zcdp"])
def test_a_margin_below_any_step_is_noise_that_is_seldom_there(guarantee: pc.PureDP | pc.ZCDP) -> None:
    plan = least_budget(pc.plan(WORKLOAD, guarantee, "marginals"), [Target(("sex",), 1e-6)])
    runs = 600
    drawn = drawn_noise(plan, runs)
    found = np.abs(drawn @ np.array([recover(plan, unit)[("sex",)] for unit in np.eye(plan.rows)]))
    assert np.all(np.mean(found > 1e-6, axis=0) <= 0.05 + 5 * (0.05 / runs) ** 0.5)
    assert plan.guarantee.amount < 100  # and not more than it takes


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95, float("nan")])
def test_confidences_that_are_none(confidence: float) -> None:
    with pytest.raises(PlanError, match="confidence"):
        pc.plan_for(WORKLOAD, TARGETS, pc.PureDP(1), confidence=confidence)


def test_arguments_of_the_wrong_kind() -> None:
    with pytest.raises(PlanError, match="workload"):
        pc.plan_for("sex", TARGETS, pc.PureDP(1))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="guarantee"):
        pc.plan_for(WORKLOAD, TARGETS, 1.0)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="effort"):
        pc.plan_for(WORKLOAD, TARGETS, pc.PureDP(1), effort="endless")  # type: ignore[arg-type]


def test_progress_is_told() -> None:
    seen: list[str] = []
    pc.plan_for(
        pc.Workload.tables(SCHEMA, [("sex",)]),
        {("sex",): 10},
        pc.PureDP(1),
        progress=lambda stage, done, total: seen.append(stage),
    )
    assert set(seen) == {"planning"}


def test_the_pure_plan_is_taken_where_it_needs_less_epsilon() -> None:
    workload = pc.Workload.all_kway(pc.Schema.from_sizes({f"a{n}": 2 for n in range(4)}), 1)
    targets = dict.fromkeys(workload, 20.0)
    pure = pc.plan_for(workload, targets, pc.PureDP(1))
    rare, often = (pc.plan_for(workload, targets, pc.ApproxDP(1, d, calibration="exact")) for d in ("1e-6", "0.01"))
    assert rare.guarantee == pure.guarantee
    assert isinstance(often.guarantee, pc.ApproxDP)
    assert often.guarantee.epsilon < pure.guarantee.epsilon
    assert max(margins(often, list(workload), 0.95)) <= 20
