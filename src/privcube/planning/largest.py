"""Plans for the largest error, or ratio of a table's variance to a wanted one, instead of the total. Zone: PUBLIC.

Under Gaussian noise the optimum over residuals is a convex program, solved with a certificate
(`privcube.planning.minimax`, THEORY section 4.1). Under a pure guarantee the largest ratio is the largest weighted
total over weights that sum to 1. So the weights are raised where the ratio is large, steps 2 and 3 are run for them,
and so on; the search for groups and bundles is repeated with the weights that come out. Ratios can always be scaled by
the budget, so a plan with the least largest ratio is also one that reaches wanted accuracies with the least budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from privcube.accuracy.structure import Structure
from privcube.algebra.lattice import Floats
from privcube.errors import PlanError
from privcube.model.groups import is_structured, product_groups
from privcube.model.options import PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.sensitivity import noise_variances, squared_l2_of_all
from privcube.model.workload import Entry, Table, Workload, canonical, table_name
from privcube.planning.candidates import least_total
from privcube.planning.minimax import largest_ratio_shares
from privcube.planning.steps import DENOMINATOR, plan_of, whole_shares
from privcube.progress import Progress
from privcube.strategies import residual
from privcube.strategies.proposal import Proposal

_SEARCHES: Final = 3  # each for the weights that the one before came to
_ROUNDS: Final = 60  # of weights, for one set of groups
_SETTLED: Final = 1e-4  # the largest ratio over the weighted mean, less 1: what is left to gain at most
_DAMPING: Final = 20  # rounds after which the steps of the weights have half their size, so that they settle
_LEAST_WEIGHT: Final = 1e-9  # of the largest, so that a table may come back
_NO_MATTER: Final = 1e6  # times the largest wanted variance: for tables that have no wanted one


def least_largest(
    workload: Workload,
    guarantee: Guarantee,
    options: PlanOptions,
    wanted: Mapping[Sequence[Entry], float] | None,
    progress: Progress,
) -> Plan:
    """The plan with the least largest ratio of a table's mean cell variance to its wanted one, or to 1."""
    best = "search" if isinstance(guarantee, PureDP) else "residual"
    if options.strategy not in ("auto", best) or options.recovery != "optimal":
        raise PlanError("objective", expected=f"strategy auto or {best}, and optimal recovery, for the largest error")
    variances = np.ones(len(workload)) if wanted is None else wanted_of_all(workload, _squares(workload, wanted))
    if isinstance(guarantee, PureDP):
        return _pure(workload, guarantee, options, variances, progress)
    return _gaussian(workload, guarantee, options, variances)


def rebalanced(made: Plan, wanted: Mapping[Table, float]) -> Plan:
    """The same groups and bundles, or all residuals, with shares for other wanted variances of some tables."""
    variances = wanted_of_all(made.workload, wanted)
    if not isinstance(made.guarantee, PureDP):
        return _gaussian(made.workload, made.guarantee, made.options, variances)
    balanced, _ = _balanced(made, variances, _first_weights(made.workload, variances))
    return replace(balanced, workload=made.workload, options=made.options)


def wanted_of_all(workload: Workload, wanted: Mapping[Table, float]) -> Floats:
    """The wanted variance of every table; where none is wanted, one so large that nothing depends on it."""
    no_matter = _NO_MATTER * max(wanted.values())
    return np.array([wanted.get(table, no_matter) for table in workload])


def largest_ratio(made: Plan, wanted: Floats) -> float:
    """The largest ratio of a table's predicted variance to its wanted one."""
    return float(np.max(np.array(made.table_variances) / wanted))


def _squares(workload: Workload, wanted: Mapping[Sequence[Entry], float]) -> dict[Table, float]:
    """Wanted standard errors as variances, by table of the workload."""
    asked = {canonical(workload.schema, table): error for table, error in wanted.items()}
    for table, error in asked.items():
        if table not in workload:
            available = [table_name(each) for each in workload]
            raise PlanError("wanted", expected="tables of the workload", given=table_name(table), available=available)
        if not 0 < float(error) < np.inf:
            raise PlanError(f"wanted of {table_name(table)}", expected="a number above 0", given=error)
    if not asked:
        raise PlanError("wanted", expected="a standard error for at least one table")
    return {table: float(error) ** 2 for table, error in asked.items()}


# Gaussian noise


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


# Pure noise


def _pure(workload: Workload, guarantee: PureDP, options: PlanOptions, wanted: Floats, progress: Progress) -> Plan:
    options, weights = replace(options, strategy="search"), _first_weights(workload, wanted)
    best: Plan | None = None
    for _ in range(_SEARCHES):
        made = least_total(_weighted(workload, weights), guarantee, options, progress)
        balanced, weights = _balanced(made, wanted, weights)
        if best is None or largest_ratio(balanced, wanted) < largest_ratio(best, wanted):
            best = balanced
    assert best is not None
    return replace(best, workload=workload, options=replace(best.options, objective="largest"))


def _first_weights(workload: Workload, wanted: Floats) -> Floats:
    """Weights under which every table counts by its ratio, however many cells it has."""
    return 1 / (np.array(workload.sizes, dtype=np.float64) * wanted)


def _balanced(made: Plan, wanted: Floats, weights: Floats) -> tuple[Plan, Floats]:
    """The same groups and bundles with budgets for the largest ratio, as far as weights bring it down."""
    best, best_weights = made, weights
    if not is_structured(made.groups):
        return best, best_weights
    proposal = Proposal(made.frame, made.groups, None, bundles=made.noised_together)
    options = replace(made.options, strategy="search", budgets="iterated")
    for round_ in range(_ROUNDS):
        ratios = np.array(made.table_variances) / wanted
        mean = np.average(ratios, weights=weights * wanted * np.array(made.workload.sizes))
        if float(ratios.max() / mean) - 1 < _SETTLED:
            break
        weights = weights * (ratios / ratios.max()) ** (1 / (1 + round_ / _DAMPING))
        weights = np.maximum(weights, weights.max() * _LEAST_WEIGHT)
        made = plan_of(_weighted(made.workload, weights), made.guarantee, options, proposal)
        if largest_ratio(made, wanted) < largest_ratio(best, wanted):
            best, best_weights = made, weights
    return best, best_weights


def _weighted(workload: Workload, weights: Floats) -> Workload:
    return Workload.tables(workload.schema, list(workload), weights=(weights / weights.max()).tolist())
