"""Plans that minimize the largest ratio of a table's variance to a wanted one, instead of the total. Zone: PUBLIC.

Under Gaussian noise the optimum over residuals is a convex program, solved with a certificate
(`privcube.planning.minimax`, THEORY section 4.1). Under a pure guarantee the largest ratio is the largest weighted
total over weights that sum to 1. So weights are repeatedly raised where the ratio is large and steps 2 and 3 are run
for them; the search for groups and bundles is then repeated with the resulting weights. The budget scales all ratios,
so a plan with the least largest ratio also reaches the wanted accuracies with the least budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, get_args

import numpy as np

from privcube.accuracy.structure import Structure, WorkloadIndex
from privcube.algebra.lattice import Floats
from privcube.errors import Plain, PlanError
from privcube.model.frame import Frame
from privcube.model.groups import is_structured, product_groups
from privcube.model.options import Effort, PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.sensitivity import squared_l2_of_all
from privcube.model.workload import Entry, Table, Workload, canonical, table_name
from privcube.planning.candidates import least_total
from privcube.planning.frames import frames
from privcube.planning.minimax import largest_ratio_shares
from privcube.planning.searched import LONGER
from privcube.planning.steps import DENOMINATOR, Noise, plan_of
from privcube.progress import Enough, InTurn, Progress, silent
from privcube.strategies import residual
from privcube.strategies.proposal import Proposal

_SEARCHES: Final = 3  # each with the weights that resulted from the one before; chosen empirically
_ROUNDS: Final = 60  # of adapting weights for one set of groups: a safeguard, as `_SETTLED` may end them earlier
_PAIRS: Final = 60  # rounds of weighting pairs of records that are replaced, each with a program of its own
_SETTLED: Final = 1e-4  # largest ratio over the weighted mean, minus 1: an upper bound on what is left to gain
_DAMPING: Final = 20  # rounds after which steps of the weights are half as large, so that they settle
_LEAST_WEIGHT: Final = 1e-9  # relative to the largest, so that the weight of a table can rise again
_MOST_ALONE: Final = 2_000  # tables, for which rebuilding budgets takes about a second
_NO_MATTER: Final = 1e6  # wanted variance of tables without one, in units of the largest: too large to matter


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
    """A plan with its shares rebuilt for wanted variances of some tables; if Gaussian, it measures all residuals."""
    variances = wanted_of_all(made.workload, wanted)
    if not isinstance(made.guarantee, PureDP):
        return _gaussian(made.workload, made.guarantee, made.options, variances)
    balanced, _ = _balanced(made, variances, _first_weights(made.workload, variances))
    return replace(balanced, workload=made.workload, options=made.options)


def wanted_of_all(workload: Workload, wanted: Mapping[Table, float]) -> Floats:
    """The wanted variance of every table; tables without one get a variance too large to matter."""
    no_matter = _NO_MATTER * max(wanted.values())
    return np.array([wanted.get(table, no_matter) for table in workload])


def largest_ratio(made: Plan, wanted: Floats) -> float:
    """The largest ratio of a table's predicted variance to its wanted one."""
    return float(np.max(np.array(made.table_variances) / wanted))


def _squares(workload: Workload, wanted: Mapping[Sequence[Entry], float]) -> dict[Table, float]:
    """The variances of wanted standard errors, by table of the workload."""
    asked = {canonical(workload.schema, table): error for table, error in wanted.items()}
    for table, error in asked.items():
        if table not in workload:
            available = [table_name(each) for each in workload]
            raise PlanError("wanted", expected="tables of the workload", given=table_name(table), available=available)
        if not 0 < float(error) < np.inf:
            raise PlanError(f"wanted of {table_name(table)}", expected="a number above 0", given=error)
    if not asked:
        raise PlanError("wanted", expected="a standard error for at least one table", given=Plain("none"))
    return {table: float(error) ** 2 for table, error in asked.items()}


# Gaussian noise


def _gaussian(workload: Workload, guarantee: Guarantee, options: PlanOptions, wanted: Floats) -> Plan:
    plans = [_residuals(workload, guarantee, options, wanted, frame) for frame in frames(workload, guarantee)]
    return min(plans, key=lambda made: largest_ratio(made, wanted))


def _residuals(workload: Workload, guarantee: Guarantee, options: PlanOptions, wanted: Floats, frame: Frame) -> Plan:
    proposal = residual.propose(workload, guarantee, frame)
    structure = Structure.of(workload, proposal.frame, product_groups(proposal.groups), proposal.index)
    alone = tuple((group,) for group in range(len(structure.groups)))
    noise = Noise.of(guarantee, proposal.frame, structure.groups, alone)
    moved = squared_l2_of_all(guarantee, proposal.frame, structure.groups)
    parts = (
        None if noise.replaced is None else noise.replaced.solved(partial(_relaxed, structure, moved, wanted), _PAIRS)
    )
    if parts is None:
        parts, _ = largest_ratio_shares(structure, moved, wanted)
    shares = noise.whole_shares(parts)
    return Plan(
        workload=workload,
        guarantee=guarantee,
        options=replace(options, strategy="residual", objective="largest"),
        frame=proposal.frame,
        groups=structure.groups,
        shares=noise.shares_of_plan(shares),
        denominator=DENOMINATOR,
        table_variances=tuple(structure.table_variances(noise.variances(shares)).tolist()),
    )


def _relaxed(structure: Structure, moved: Floats, wanted: Floats, means: Floats) -> tuple[Floats, float]:
    """The best parts of the budget if means times parts sum to at most 1, and a lower bound on the largest ratio.

    With s = means times parts, a part of the budget is s / means: as if the group moved by means times as much.
    """
    shares, gap = largest_ratio_shares(structure, moved * means, wanted)
    ratio = float(np.max(structure.table_variances(moved * means / shares) / wanted))
    return shares / means, ratio / (1 + gap)


# Pure noise


def _pure(workload: Workload, guarantee: PureDP, options: PlanOptions, wanted: Floats, progress: Progress) -> Plan:
    options, weights = replace(options, strategy="search"), _first_weights(workload, wanted)
    best = _tables_alone(workload, guarantee, options, wanted, weights)
    more = get_args(Effort)[1 : get_args(Effort).index(options.effort) + 1]
    efforts = ("fast",) * _SEARCHES + more  # more effort goes on from what less effort found
    in_turn = InTurn(progress, [LONGER[effort] for effort in efforts])
    for effort in efforts:
        try:
            made = least_total(_weighted(workload, weights), guarantee, replace(options, effort=effort), in_turn)
        except Enough:
            if best is None:
                raise
            break
        balanced, weights = _balanced(made, wanted, weights)
        if best is None or largest_ratio(balanced, wanted) < largest_ratio(best, wanted):
            best = balanced
        if in_turn.stopped:
            break
        in_turn.next()
    assert best is not None
    return replace(best, workload=workload, options=replace(best.options, objective="largest", effort=options.effort))


def _tables_alone(
    workload: Workload, guarantee: PureDP, options: PlanOptions, wanted: Floats, weights: Floats
) -> Plan | None:
    """Every table in a group of its own: budgets then reach any ratio of their errors, which bundles do not."""
    if len(workload) > _MOST_ALONE:
        return None
    alone = replace(options, strategy="marginals", budgets="iterated", objective="total")
    with suppress(PlanError):
        return _balanced(least_total(_weighted(workload, weights), guarantee, alone, silent), wanted, weights)[0]
    return None


def _first_weights(workload: Workload, wanted: Floats) -> Floats:
    """Weights under which every table counts by its ratio, regardless of its number of cells."""
    return 1 / (np.array(workload.sizes, dtype=np.float64) * wanted)


def _balanced(made: Plan, wanted: Floats, weights: Floats) -> tuple[Plan, Floats]:
    """A plan with its budgets rebuilt to lower the largest ratio by adapting weights, and the weights reached."""
    best, best_weights = made, weights
    if not is_structured(made.groups):
        return best, best_weights
    index = WorkloadIndex.of(made.workload, made.frame)  # weights do not change it
    proposal = Proposal(made.frame, made.groups, None, index=index, bundles=made.noised_together, laws=made.laws)
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
    return Workload.exactly(workload.schema, list(workload), weights=(weights / weights.max()).tolist())
