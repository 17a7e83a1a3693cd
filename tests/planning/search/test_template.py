"""The template: its error against plans of the same groups, its slope against differences, its worth as a start."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.model.frame import Frame
from privcube.model.options import PlanOptions
from privcube.planning.search.closed_form import Choices
from privcube.planning.search.template import Template, _above, _below, is_small, lbfgs, template
from privcube.planning.steps import plan_of
from privcube.strategies.proposal import Proposal

SIZES = (2, 3, 5, 8, 10, 2, 16, 101, 7, 4)


def kway(sizes: tuple[int, ...], k: int) -> pc.Workload:
    return pc.Workload.all_kway(pc.Schema.from_sizes({f"a{at:02d}": size for at, size in enumerate(sizes)}), k)


def choices_of(workload: pc.Workload) -> Choices:
    return Choices(workload, Frame.natural(workload))


def made_of(workload: pc.Workload, bundles) -> pc.Plan:
    proposal = Proposal.of_bundles(Frame.natural(workload), bundles)
    return plan_of(workload, pc.PureDP(1), PlanOptions(strategy="search", budgets="iterated"), proposal)


@settings(max_examples=10)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 99))
def test_sums_above_and_below(shape: list[int], seed: int) -> None:
    values = np.random.default_rng(seed).random(shape)
    places = list(itertools.product(*map(range, shape)))
    for at in places:
        above = [values[to] for to in places if all(a <= b for a, b in zip(at, to, strict=True))]
        below = [values[to] for to in places if all(a >= b for a, b in zip(at, to, strict=True))]
        assert _above(values)[at] == pytest.approx(sum(above))
        assert _below(values)[at] == pytest.approx(sum(below))


def test_the_error_is_that_of_a_plan_of_these_tables() -> None:
    """Shares of a plan, entered into the template, have the error that the plan predicts."""
    workload = kway((2, 3, 4), 2)
    made = pc.plan(workload, pc.PureDP(1), "marginals", budgets="iterated")
    task = Template(choices_of(workload))
    shares = np.zeros(task.needs.shape)
    for share, group in zip(made.shares, made.groups, strict=True):
        place = [0, 0, 0]
        for part in group:
            place[part.axis] = part.level
        shares[tuple(place)] = share
    assert task.error(shares) == pytest.approx(made.weighted_variance)
    assert task.error(np.where(shares == shares.max(), 0.0, shares)) == np.inf


def test_the_slope_is_that_of_differences() -> None:
    task = Template(choices_of(kway((2, 3, 4), 2)))
    shares = np.random.default_rng(5).random(task.needs.shape)
    value, slope = task._logarithm(shares)
    assert value == pytest.approx(np.log(task.error(shares)))
    for at in itertools.product(range(2), repeat=3):
        moved = shares.copy()
        moved[at] += 1e-6
        assert (task._logarithm(moved)[0] - value) / 1e-6 == pytest.approx(slope[at], abs=1e-4)


def test_the_minimizer_on_a_function_with_a_valley() -> None:
    def rosenbrock(x):
        value = float((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)
        return value, np.array([-2 * (1 - x[0]) - 400 * x[0] * (x[1] - x[0] ** 2), 200 * (x[1] - x[0] ** 2)])

    assert lbfgs(rosenbrock, np.array([-1.2, 1.0]), 400) == pytest.approx([1, 1], abs=1e-2)


@pytest.mark.parametrize("k", [3])
def test_it_is_ahead_of_simple_plans_and_the_search_is_not_behind_it(k: int) -> None:
    workload = kway(SIZES, k)
    (bundles,) = template(choices_of(workload), 0.15)
    made = made_of(workload, bundles)
    for strategy in ("marginals", "clusters"):
        simple = pc.plan(workload, pc.PureDP(1), strategy, budgets="iterated")
        assert made.weighted_variance < 0.95 * simple.weighted_variance
    assert pc.plan(workload, pc.PureDP(1), "search").weighted_variance <= made.weighted_variance * 1.001


def test_more_time_is_not_worse_and_no_time_gives_nothing() -> None:
    workload = kway(SIZES, 3)
    found = [made_of(workload, *template(choices_of(workload), seconds)) for seconds in (0.05, 0.2)]
    assert found[1].weighted_variance <= found[0].weighted_variance * (1 + 1e-9)
    assert template(choices_of(workload), 1e-4) == []
    wide = kway((2,) * 15, 1)
    assert not is_small(Frame.natural(wide))
    assert template(choices_of(wide), 10.0) == []


def test_levels_and_tables_too_large_to_search() -> None:
    area = pc.Attribute(
        "area", values=list("uvwx"), levels=[pc.Level("part", groups={"n": list("uv"), "s": list("wx")})]
    )
    schema = pc.Schema([area, pc.Attribute("sex", size=2), pc.Attribute("age", size=5)])
    workload = pc.Workload.tables(schema, [(pc.Axis("area", "part"), "sex"), ("area", "age"), ("sex", "age")])
    (bundles,) = template(choices_of(workload), 0.1)
    simple = pc.plan(workload, pc.PureDP(1), "marginals", budgets="iterated")
    assert made_of(workload, bundles).weighted_variance <= simple.weighted_variance * (1 + 1e-6)
