"""Trees for ranges: every branching, Haar, bundles; the best of them."""

from __future__ import annotations

import numpy as np
import pytest

from privcube import ZCDP, Axis, Plan, PureDP, Schema, Workload, errors, plan
from privcube.accuracy.predictor import recover
from privcube.accuracy.privacy import privacy_cost
from privcube.model.groups import group_rows
from privcube.model.options import PlanOptions
from privcube.planning import searched
from privcube.planning.steps import plan_of, with_bundles
from privcube.planning.trees import best_tree, branchings
from privcube.strategies import hierarchy


def best(workload: Workload, guarantee, recovery: str = "optimal") -> Plan:
    return best_tree(workload, guarantee, PlanOptions(recovery=recovery))


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5")], ids=str)
@pytest.mark.parametrize("queries", ["ranges", "prefixes"])
def test_no_tree_is_better(guarantee, queries: str) -> None:
    workload = Workload.tables(Schema.from_sizes({"x": 16}), [(Axis("x", queries=queries),)])
    found = best(workload, guarantee)
    assert privacy_cost(found) == found.guarantee.capacity
    for strategy in ("hierarchy", "wavelet"):
        assert found.weighted_variance <= plan(workload, guarantee, strategy, budgets="iterated").weighted_variance
    assert found.options.strategy in ("hierarchy", "wavelet")


def test_wavelets_are_compared_where_trees_leave_no_time_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "_FOR_TREES", 0.0)  # the binary tree alone
    ranges = [(Axis("x", queries="ranges"),), (Axis("y", queries="ranges"),), ("x", "y")]
    workload = Workload.tables(Schema.from_sizes({"x": 40, "y": 40}), ranges)
    made, tree, haar = (plan(workload, ZCDP(1), name, budgets="iterated") for name in ("auto", "hierarchy", "wavelet"))
    assert made.weighted_variance <= haar.weighted_variance < 0.97 * tree.weighted_variance


def test_wider_trees_than_the_papers_win_under_laplace_noise() -> None:
    """Qardaji et al. 2013; the reference has 77,112.9 for the best uniform tree over 64 cells, all ranges."""
    found = best(Workload.ranges(Schema.from_sizes({"x": 64}), ["x"]), PureDP(1))
    assert len(found.groups) < 5  # of the seven levels of the binary tree, or of a wider one
    assert found.total_variance < 77112.9


def test_products_and_direct_recovery() -> None:
    schema = Schema.from_sizes({"sex": 2, "x": 9, "y": 3})
    workload = Workload.tables(schema, [("sex", Axis("x", queries="ranges")), (Axis("y", queries="prefixes"),)])
    assert best(workload, PureDP(1)).weighted_variance <= best(workload, PureDP(1), "direct").weighted_variance


def test_bundles_are_tried_under_pure_guarantees_only() -> None:
    workload = Workload.ranges(Schema.from_sizes({"x": 4}), ["x"])
    single = plan(workload, PureDP(1), "wavelet", budgets="iterated")
    together = with_bundles(single, [range(len(single.groups))])
    assert best(workload, PureDP(1)).weighted_variance <= together.weighted_variance * (1 + 1e-9)
    assert best(workload, ZCDP(1)).bundles is None


def test_branchings_suit_the_attributes() -> None:
    wide = Workload.ranges(Schema.from_sizes({"x": 400}), ["x"])
    assert branchings(wide) == [*range(2, 17), 20]
    cells = Workload.all_kway(Schema.from_sizes({"x": 400}), 1)
    assert branchings(cells) == []
    with pytest.raises(errors.PlanError, match="ranges or prefixes"):
        best(cells, PureDP(1))


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(1)], ids=str)
@pytest.mark.parametrize("branching", [2, 3, 5, 6])
def test_trees_with_more_leaves_than_cells_have_the_error_they_predict(branching: int, guarantee) -> None:
    """What is found in leaves that are no cells is shared out; the prediction knows."""
    workload = Workload.ranges(Schema.from_sizes({"x": 12}), ["x"])
    options = PlanOptions(strategy="hierarchy", budgets="iterated")
    made = plan_of(workload, guarantee, options, hierarchy.propose(workload, guarantee, branching))
    assert made.frame.has_padding
    (table,) = workload
    recovery = np.stack([recover(made, unit)[table] for unit in np.eye(made.rows)], axis=-1)
    noise = np.repeat(made.noise_variances(), [group_rows(made.frame, group) for group in made.groups])
    assert made.mean_cell_variance == pytest.approx((recovery**2 @ noise).mean(), rel=1e-9)
