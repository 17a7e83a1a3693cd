"""Plans for the largest error, or ratio of a table's variance to a wanted one, instead of the total. Zone: PUBLIC.

Under Gaussian noise the optimum over residuals is a convex programme, solved with a certificate
(`privcube.planning.minimax`). Under a pure guarantee the largest ratio is the largest weighted total over weights that
sum to 1, so the weights are raised where the ratio is large, steps 2 and 3 are run for them, and so on; the search for
groups and bundles is repeated with the weights that come out. Ratios can always be scaled by the budget, so a plan with
the least largest ratio is also one that reaches wanted accuracies with the least budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from privcube.accuracy.structure import Structure
from privcube.algebra.lattice import Floats
from privcube.model.groups import product_groups
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.sensitivity import noise_variances, squared_l2_of_all
from privcube.model.workload import Table, Workload
from privcube.planning.minimax import largest_ratio_shares
from privcube.planning.search.bundled import plan_of
from privcube.planning.steps import DENOMINATOR, whole_shares
from privcube.strategies import residual

_SEARCHES: Final = 3
_ROUNDS: Final = 60
_SETTLED: Final = 1e-4
_NO_MATTER: Final = 1e6  # times the largest wanted variance: for tables that none is wanted of


def largest_ratio_plan(
    workload: Workload,
    guarantee: Guarantee,
    options: PlanOptions,
    wanted: Floats,
    best_total: Callable[[Workload], Plan],
) -> Plan:
    """The plan with the least largest ratio of a table's mean cell variance to its wanted one.

    `best_total` makes the best plan for a weighted total; under a pure guarantee it is asked for several weights.
    """
    if not isinstance(guarantee, PureDP):
        return _gaussian(workload, guarantee, options, wanted)
    cells = np.array(workload.sizes, dtype=np.float64)
    weights = 1 / (cells * wanted)
    best: Plan | None = None
    for _ in range(_SEARCHES):
        made = best_total(_weighted(workload, weights))
        balanced, weights = _balanced(made, wanted, weights)
        if best is None or largest_ratio(balanced, wanted) < largest_ratio(best, wanted):
            best = balanced
    assert best is not None
    return replace(best, workload=workload, options=replace(best.options, objective="largest"))


def rebalanced(made: Plan, wanted: Mapping[Table, float]) -> Plan:
    """The same groups and bundles, or all residuals, with shares for other wanted variances of some tables."""
    variances = wanted_of_all(made.workload, wanted)
    if not isinstance(made.guarantee, PureDP):
        return _gaussian(made.workload, made.guarantee, made.options, variances)
    weights = 1 / (np.array(made.workload.sizes, dtype=np.float64) * variances)
    balanced, _ = _balanced(made, variances, weights)
    return replace(balanced, workload=made.workload, options=made.options)


def wanted_of_all(workload: Workload, wanted: Mapping[Table, float]) -> Floats:
    """The wanted variance of every table; one that nothing depends on where none is wanted."""
    no_matter = _NO_MATTER * max(wanted.values())
    return np.array([wanted.get(table, no_matter) for table in workload])


def largest_ratio(made: Plan, wanted: Floats) -> float:
    """The largest ratio of a table's predicted variance to its wanted one."""
    return float(np.max(np.array(made.table_variances) / wanted))


def _gaussian(workload: Workload, guarantee: Guarantee, options: PlanOptions, wanted: Floats) -> Plan:
    proposal = residual.propose(workload, guarantee)
    structure = Structure.of(workload, proposal.frame, product_groups(proposal.groups), proposal.index)
    moved = squared_l2_of_all(guarantee, proposal.frame, structure.groups)
    found, _ = largest_ratio_shares(structure, moved, wanted)
    shares = whole_shares(found)
    variances = noise_variances(guarantee, proposal.frame, structure.groups, shares, DENOMINATOR, moved)
    return Plan(
        workload=workload,
        guarantee=guarantee,
        options=replace(options, strategy="residual", objective="largest"),
        frame=proposal.frame,
        groups=structure.groups,
        shares=tuple(shares.tolist()),
        denominator=DENOMINATOR,
        table_variances=tuple(structure.table_variances(variances).tolist()),
    )


def _balanced(made: Plan, wanted: Floats, weights: Floats) -> tuple[Plan, Floats]:
    """The same groups and bundles with budgets for the largest ratio, as far as weights bring it down."""
    best, best_weights = made, weights
    if not all(isinstance(group, tuple) for group in made.groups):
        return best, best_weights
    bundles = [product_groups(made.groups[group] for group in bundle) for bundle in made.noised_together]
    for round_ in range(_ROUNDS):
        ratios = np.array(made.table_variances) / wanted
        if (
            float(ratios.max() / np.average(ratios, weights=weights * wanted * np.array(made.workload.sizes))) - 1
            < _SETTLED
        ):
            break
        weights = weights * (ratios / ratios.max()) ** (1 / (1 + round_ / 20))
        weights = np.maximum(weights, weights.max() * 1e-9)
        workload = _weighted(made.workload, weights)
        assert isinstance(made.guarantee, PureDP)
        made = plan_of(workload, made.guarantee, made.options, made.frame, bundles)
        if largest_ratio(made, wanted) < largest_ratio(best, wanted):
            best, best_weights = made, weights
    return best, best_weights


def _weighted(workload: Workload, weights: Floats) -> Workload:
    return Workload.tables(workload.schema, list(workload), weights=(weights / weights.max()).tolist())
