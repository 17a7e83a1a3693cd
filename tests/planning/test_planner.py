"""The planner: choices, exact budgets, documents, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, Plan, PureDP, Schema, Workload, errors, plan
from privcube.accuracy.privacy import privacy_cost
from privcube.model.sensitivity import largest_l1, squared_l2
from privcube.planning.steps import DENOMINATOR, whole_shares
from privcube.strategies import STRATEGIES
from privcube.strategies.clusters import merged

SCHEMA = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
GUARANTEES = [
    PureDP("0.7"),
    PureDP(1, neighbors="replace_one", max_rows_per_person=3),
    ZCDP("0.3"),
    ApproxDP(2, "1e-5"),
    ApproxDP(2, "1e-5", calibration="zcdp"),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_the_exact_cost_of_a_plan_is_the_guarantee(strategy: str, guarantee) -> None:
    """Summed as fractions from the noise itself: L1/scale, or L2^2/variance, equals epsilon, mu^2 or 2 rho."""
    if strategy == "residual" and isinstance(guarantee, PureDP):
        with pytest.raises(errors.PlanError, match="Gaussian noise or a Gram bundle for Helmert rows"):
            plan(Workload.all_kway(SCHEMA, 2), guarantee, strategy)
        return
    made = plan(Workload.all_kway(SCHEMA, 2), guarantee, strategy)
    numbers = range(len(made.groups))
    if guarantee.neighbors == "replace_one" and strategy in ("fourier", "wavelet"):  # the dearest pair costs it
        assert 1 - Fraction(1, 10**10) < privacy_cost(made) / guarantee.capacity <= 1
    elif isinstance(guarantee, PureDP):
        moved = [largest_l1(guarantee, group) for group in made.groups]
        cost = sum((Fraction(moved[g]) / made.noise_scale(g) for g in numbers), Fraction(0))
        assert cost == guarantee.epsilon
        assert all(made.noise_variance(g) == 2 * made.noise_scale(g) ** 2 for g in numbers)
    else:
        moved = [squared_l2(guarantee, made.frame, group) for group in made.groups]
        mu_squared = sum((Fraction(moved[g]) / made.noise_variance(g) for g in numbers), Fraction(0))
        exact = guarantee.calibration == "exact"
        assert mu_squared == (guarantee.mu_squared if exact else 2 * guarantee.rho)
    np.testing.assert_allclose(made.noise_variances(), [float(made.noise_variance(g)) for g in numbers], rtol=1e-12)


@given(st.lists(st.floats(1e-12, 1e12), min_size=1, max_size=50))
def test_shares_sum_to_the_denominator(shares: list[float]) -> None:
    whole = whole_shares(np.array(shares))
    assert whole.sum() == DENOMINATOR
    assert whole.min() >= 1
    exact = np.array(shares) / np.sum(shares)
    np.testing.assert_allclose(whole / DENOMINATOR, exact, atol=len(shares) / DENOMINATOR * 4, rtol=1e-9)


@pytest.mark.parametrize("shares", [[0.0], [-1.0, 2.0], [np.nan], [np.inf, 1.0]])
def test_shares_that_make_no_sense(shares: list[float]) -> None:
    with pytest.raises(errors.PlanError, match="finite shares"):
        whole_shares(np.array(shares))


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_auto_is_never_worse_than_any_strategy_with_optimal_steps(guarantee) -> None:
    workload = Workload.kway_plus_half(SCHEMA, 1)
    best = plan(workload, guarantee)
    for strategy in STRATEGIES:
        if strategy == "residual" and isinstance(guarantee, PureDP):
            continue
        assert best.weighted_variance <= plan(workload, guarantee, strategy).weighted_variance * (1 + 1e-9)


def test_weights_move_accuracy_to_the_table_that_matters() -> None:
    tables = [("a", "b"), ("b", "c")]
    even = plan(Workload.tables(SCHEMA, tables), PureDP(1), "marginals", recovery="direct")
    heavy = plan(Workload.tables(SCHEMA, tables, weights=[50, 1]), PureDP(1), "marginals", recovery="direct")
    assert heavy.table_variance(("a", "b")) < even.table_variance(("a", "b"))
    assert heavy.table_variance(("b", "c")) > even.table_variance(("b", "c"))
    assert heavy.weighted_variance == pytest.approx(
        50 * 6 * heavy.table_variance(("a", "b")) + 12 * heavy.table_variance(("c", "b"))
    )


def test_variance_scales_with_the_guarantee() -> None:
    workload = Workload.all_kway(SCHEMA, 2)
    one = plan(workload, PureDP(1), "marginals").total_variance
    assert plan(workload, PureDP("0.1"), "marginals").total_variance == pytest.approx(100 * one)
    swapped = PureDP(1, neighbors="replace_one", max_rows_per_person=3)
    assert plan(workload, swapped, "marginals").total_variance == pytest.approx(36 * one)


# Clusters


def slow_clusters(levels: list[tuple[int, ...]], weights: list[float], sizes: list[int]) -> float:
    """Greedy merging as Ding et al. describe it, every pair tried every time; returns the sum it ends with."""
    clusters = [(set(np.flatnonzero(table).tolist()), weight) for table, weight in zip(levels, weights, strict=True)]

    def total(of) -> float:
        return len(of) ** 2 * sum(weight * np.prod([sizes[a] for a in union]) for union, weight in of)

    while len(clusters) > 1:
        tried = []
        for i in range(len(clusters)):
            for j in range(i + 1, len(clusters)):
                (left, w1), (right, w2) = clusters[i], clusters[j]
                rest = [c for n, c in enumerate(clusters) if n not in (i, j)]
                tried.append([*rest, (left | right, w1 + w2)])
        best = min(tried, key=total)
        if total(best) >= total(clusters) * (1 - 1e-12):
            break
        clusters = best
    return total(clusters)


@settings(deadline=None, max_examples=36)
@given(data=st.data())
def test_fast_clustering_equals_the_slow_one(data: st.DataObject) -> None:
    """The same greedy path; sizes and weights that all differ leave no two merges equally good."""
    sizes = data.draw(st.permutations([2, 3, 5, 7]))
    tables = data.draw(st.lists(st.tuples(*[st.integers(0, 1)] * 4).filter(any), min_size=1, max_size=7, unique=True))
    weights = [1 + 0.0137 * n + 0.00173 * n * n for n in range(len(tables))]
    log_sizes = np.log(np.array([[1.0, size] for size in sizes]))
    unions, cluster_of = merged(np.array(tables), np.array(weights), log_sizes)
    for table, cluster in zip(tables, cluster_of, strict=True):
        assert np.all(unions[cluster] >= table)
    weight = np.bincount(cluster_of, weights)
    cells = np.exp((log_sizes[:, 1] * unions).sum(axis=1))
    found = len(unions) ** 2 * float(weight @ cells)
    assert found == pytest.approx(slow_clusters(tables, weights, sizes), rel=1e-9)


# Documents


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("recovery", ["optimal", "direct"])
def test_plans_round_trip_through_json(strategy: str, recovery: str) -> None:
    schema = Schema(
        [
            Attribute("a", values=["é", 'q"'], missing="category"),
            Attribute("b", bins=[0, "0.5", 2], levels=[]),
            Attribute("c", size=3),
        ]
    )
    workload = Workload.tables(schema, [("a", "b"), ("b", "c"), ()], weights=[1, 2.5, 1])
    made = plan(workload, ApproxDP(1, "1e-6", calibration="classic"), strategy, recovery=recovery)
    again = Plan.from_json(made.to_json())
    assert again == made
    assert again.digest == made.digest


def test_the_digest_covers_bins_levels_and_calibration() -> None:
    def digest(edge: int, calibration: str, groups: dict) -> str:
        schema = Schema(
            [
                Attribute("b", bins=[0, edge, 9]),
                Attribute("c", values=["p", "q", "r"], levels=[Level("l", groups=groups)]),
            ]
        )
        workload = Workload.tables(schema, [("b", Axis("c", "l"))])
        return plan(workload, ApproxDP(1, "1e-6", calibration=calibration), "marginals").digest

    one, two = {"x": ["p", "q"], "y": ["r"]}, {"x": ["p"], "y": ["q", "r"]}
    digests = {digest(5, "zcdp", one), digest(6, "zcdp", one), digest(5, "classic", one), digest(5, "zcdp", two)}
    assert len(digests) == 4


@pytest.mark.parametrize("change", ["share", "epsilon", "group", "format", "digest", "junk", "list"])
def test_a_plan_edited_by_hand_is_refused(change: str) -> None:
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    document = json.loads(made.to_json())
    if change == "share":
        document["shares"][0] -= 1
    elif change == "epsilon":
        document["guarantee"]["amounts"]["epsilon"] = "2"
    elif change == "group":
        document["groups"].pop()
    elif change == "format":
        document["format"] = "other"
    elif change == "digest":
        document["digest"] = "0" * 64
    text = {"junk": "{", "list": "[]"}.get(change, json.dumps(document))
    with pytest.raises(errors.PlanError):
        Plan.from_json(text)


@pytest.mark.parametrize("shares", [(1, 1), (2**48, 1, 1), (0, 5, 5), (-5, 10, 10)])
def test_a_plan_that_overspends_cannot_be_built(shares: tuple[int, ...]) -> None:
    made = plan(Workload.all_kway(SCHEMA, 1), PureDP(1), "marginals")
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    with pytest.raises(errors.PlanError, match="share"):
        Plan(**{**fields, "shares": shares})


# Refusals


def test_unknown_names_are_refused_with_what_there_is() -> None:
    workload = Workload.all_kway(SCHEMA, 1)
    with pytest.raises(errors.PlanError, match="did you mean 'fourier'"):
        plan(workload, PureDP(1), "furier")
    for option in ("budgets", "recovery", "effort"):
        with pytest.raises(errors.PlanError, match=f"{option}: expected a known name"):
            plan(workload, PureDP(1), **{option: "best"})
    with pytest.raises(errors.PlanError, match="PureDP"):
        plan(workload, 1.0)
    with pytest.raises(errors.PlanError, match="Workload"):
        plan([("a",)], PureDP(1))


def test_base_counts_say_how_much_they_would_need() -> None:
    big = Schema.from_sizes({f"a{n}": 10 for n in range(12)})
    with pytest.raises(errors.PlanError, match=r"1,000,000,000,000 cells, 7,450 GiB"):
        plan(Workload.all_kway(big, 1), PureDP(1), "base_counts")
    huge = Schema.from_sizes({f"a{n}": 10**8 for n in range(600)})
    with pytest.raises(errors.PlanError, match="about 1e4"):
        plan(Workload.all_kway(huge, 1), PureDP(1), "base_counts")


@pytest.mark.parametrize("strategy", ["fourier", "wavelet", "sketch"])
def test_what_is_too_large_is_refused_at_once(strategy: str, effort: Any) -> None:
    schema = Schema.from_sizes({f"a{n}": 10**8 for n in range(4)})
    refusal = pytest.raises(errors.PlanError, match=r"at most [\d,]+ (residuals|cells)|domain of at most")
    with effort.counted(), refusal:
        plan(Workload.all_kway(schema, 4), PureDP(1), strategy)
    assert effort.calls < 100_000
    assert effort.most_bytes < 2**20


def test_strategies_that_are_too_large_do_not_stop_the_others() -> None:
    """A table of 10^16 cells: whatever lists them finds no memory."""
    schema = Schema.from_sizes({f"a{n}": 10**8 for n in range(2)})
    assert plan(Workload.all_kway(schema, 2), PureDP(1)).options.strategy == "search"


def test_a_strategy_that_cannot_answer_says_so() -> None:
    with pytest.raises(errors.PlanError, match="a strategy that supports ranges"):
        plan(Workload.ranges(SCHEMA, ["c"]), PureDP(1), "fourier")


def test_a_tree_adds_levels_up_from_its_leaves() -> None:
    """Four leaves with noise of variance 2: two of them in one group, and one in the other."""
    leveled = Schema(
        [Attribute("c", values=["p", "q", "r", "s"], levels=[Level("l", groups={"x": ["p", "q", "r"], "y": ["s"]})])]
    )
    made = plan(Workload.tables(leveled, [(Axis("c", "l"),)]), PureDP(1), "hierarchy")
    assert made.frame.kind == "tree"
    assert made.table_variances[0] == pytest.approx((3 + 1) * 2 / 2)


def test_clusters_refuse_more_pairs_than_fit() -> None:
    schema = Schema.from_sizes({f"a{n}": 2 for n in range(33)})
    with pytest.raises(errors.PlanError, match="at most 5,000 tables"):
        plan(Workload.all_kway(schema, 3), PureDP(1), "clusters")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_attributes_of_one_cell_cost_nothing(strategy: str) -> None:
    """An attribute of size 1 changes no error: the same plan as without it."""
    single = Schema.from_sizes({"a": 2, "one": 1, "c": 4})
    guarantee = ZCDP(1) if strategy == "residual" else PureDP(1)
    with_it = plan(Workload.tables(single, [("a", "one"), ("one", "c")]), guarantee, strategy)
    without = plan(Workload.tables(Schema.from_sizes({"a": 2, "c": 4}), [("a",), ("c",)]), guarantee, strategy)
    assert with_it.total_variance == pytest.approx(without.total_variance)


@pytest.mark.parametrize("strategy", ["marginals", "fourier"])
def test_the_work_of_a_plan_grows_with_its_tables(strategy: str, effort: Any) -> None:
    """Three-way tables of many binary attributes; `make bench` has all 161,700 of a hundred attributes."""
    calls = []
    for attributes in (11, 22):
        workload = Workload.all_kway(Schema.from_sizes({f"a{n}": 2 for n in range(attributes)}), 3)
        effort.calls = 0
        with effort.counted():
            made = plan(workload, PureDP(1), strategy)
        assert len(made.groups) >= len(workload) == math.comb(attributes, 3)
        calls.append(effort.calls / len(workload))
    assert calls[1] < 1.3 * calls[0]
    assert effort.most_bytes < 2000 * len(workload)


# Under an exact (epsilon, delta) the best pure plan competes


@pytest.mark.parametrize("objective", ["total", "largest"])
def test_a_pure_plan_is_taken_where_it_is_better(objective: str) -> None:
    """1-way tables of binary attributes: pure noise on one bundle has half the variance."""
    workload = Workload.all_kway(Schema.from_sizes({f"a{n}": 2 for n in range(6)}), 1)
    gaussian = plan(workload, ApproxDP(1, "1e-9", calibration="zcdp"), objective=objective)
    made = plan(workload, ApproxDP(1, "1e-9", calibration="exact"), objective=objective)
    assert made.guarantee == PureDP(1)
    assert made.total_variance < 0.6 * gaussian.total_variance
    named = plan(workload, ApproxDP(1, "1e-9", calibration="exact"), "residual")
    assert isinstance(named.guarantee, ApproxDP)
    assert named.total_variance == pytest.approx(gaussian.total_variance / 1.1058, rel=1e-4)


def test_a_pure_plan_is_not_taken_where_it_is_worse() -> None:
    workload = Workload.all_kway(Schema.from_sizes({f"a{n}": 4 for n in range(5)}), 2)
    guarantee = ApproxDP(1, "0.01", calibration="exact", max_rows_per_person=2)
    made = plan(workload, guarantee)
    assert made.guarantee == guarantee
    assert made.total_variance < plan(workload, PureDP(1, max_rows_per_person=2)).total_variance
    assert isinstance(plan(workload, ApproxDP(1, "1e-6", calibration="zcdp")).guarantee, ApproxDP)


def test_no_pure_plan_is_searched_for_where_it_cannot_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under (epsilon, delta) a search for a pure plan would take minutes for thousands of tables."""

    def search(*given, **named):
        raise AssertionError("searched")

    monkeypatch.setattr("privcube.planning.searched.search_plan", search)
    many = Workload.all_kway(Schema.from_sizes({f"a{i}": 2 for i in range(40)}), 2)
    assert plan(many, ApproxDP(1, "1e-6")).guarantee == ApproxDP(1, "1e-6")
    with pytest.raises(AssertionError, match="searched"):
        plan(Workload.all_kway(SCHEMA, 1), ApproxDP(1, "1e-6"))


@pytest.mark.parametrize("neighbors", ["add_remove", "replace_one"])
@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5"), ApproxDP(1, "1e-6")])
def test_the_total_alone(guarantee: Any, neighbors: Any) -> None:
    """Without attributes there is no domain to measure cell by cell; a public total has hardly any noise."""
    workload = Workload.tables(Schema.from_sizes({"a": 2}), [()])
    made = plan(workload, replace(guarantee, neighbors=neighbors))
    assert (made.weighted_variance < 1e-5) == (neighbors == "replace_one")
    assert plan(workload, replace(guarantee, neighbors=neighbors), recovery="direct").rows == 1
