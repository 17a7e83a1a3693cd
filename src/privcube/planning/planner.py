"""From a workload and a guarantee to a plan: steps 1 to 3 of the paper's framework. Zone: PUBLIC."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, get_args

import numpy as np

from privcube.algebra.lattice import Floats, Incidence, Integers
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import Group, is_structured, product_groups
from privcube.model.guarantee import Guarantee, PureDP
from privcube.model.options import Budgets, Effort, PlanOptions, Recovery, Strategy
from privcube.model.plan import Plan, noise_variances, squared_l2
from privcube.model.workload import Workload
from privcube.planning.budgets import DENOMINATOR, gaussian_budgets, laplace_budgets, whole_shares
from privcube.planning.explicit import ExplicitStructure
from privcube.planning.structure import Structure
from privcube.strategies import STRATEGIES
from privcube.strategies.proposal import Proposal, recovery_coefficients

_Structure = Structure | ExplicitStructure

_MOST_ROUNDS: Final = 500
_LEAST_SHARE: Final = 1e-6  # of the budget; iteration takes from groups that say little, and never quite ends
_LEAST_GAIN: Final = 1e-9


def plan(
    workload: Workload,
    guarantee: Guarantee,
    strategy: Strategy = "auto",
    *,
    budgets: Budgets = "optimal",
    recovery: Recovery = "optimal",
    effort: Effort = "normal",
) -> Plan:
    """Decide what to measure and with how much noise; no data is needed or seen.

    >>> from privcube import PureDP, Schema, Workload
    >>> schema = Schema.from_sizes({"A": 2, "B": 2, "C": 2})
    >>> workload = Workload.tables(schema, [("A",), ("A", "B")])
    >>> [round(plan(workload, PureDP(1), "marginals", budgets=b, recovery=r).total_variance, 2)
    ...  for b, r in [("uniform", "direct"), ("optimal", "direct"), ("optimal", "optimal")]]
    [48.0, 46.17, 29.95]
    """
    if not isinstance(guarantee, get_args(Guarantee)):
        raise PlanError("guarantee", expected="PureDP, ApproxDP or ZCDP", given=guarantee)
    if not isinstance(workload, Workload):
        raise PlanError("workload", expected="a privcube.Workload", given=workload)
    options = PlanOptions(strategy=strategy, budgets=budgets, recovery=recovery, effort=effort)
    if options.strategy != "auto":
        return _plan_with(workload, guarantee, options)
    plans, problems = [], []
    for name in STRATEGIES:
        if name == "sketch":  # dense least squares, and never better than the base counts it projects
            continue
        try:
            plans.append(_plan_with(workload, guarantee, _best_effort(options, name)))
        except PlanError as problem:
            problems.append(problem)
    if not plans:
        raise problems[0]
    return min(plans, key=lambda candidate: candidate.weighted_variance)


def _best_effort(options: PlanOptions, strategy: Strategy) -> PlanOptions:
    """What "auto" tries of a strategy: with both steps optimal, they are iterated as well."""
    iterated = options.budgets == "optimal" and options.recovery == "optimal"
    return replace(options, strategy=strategy, budgets="iterated" if iterated else options.budgets)


def _plan_with(workload: Workload, guarantee: Guarantee, options: PlanOptions) -> Plan:
    if options.strategy not in STRATEGIES:
        raise PlanError("strategy", expected="one that is built in", given=options.strategy, available=STRATEGIES)
    proposal = STRATEGIES[options.strategy].propose(workload)
    structure = _structure(workload, proposal, proposal.groups)
    direct = _direct(workload, proposal)
    coefficients = _first_coefficients(structure, direct)
    used = np.flatnonzero(coefficients > 0)
    if len(used) < len(proposal.groups):
        groups = tuple(proposal.groups[i] for i in used)
        structure = _structure(workload, proposal, groups)
    frame = proposal.frame
    moved = np.array([float(squared_l2(guarantee, proposal.frame, group)) for group in structure.groups])
    shares = _shares(guarantee, options, coefficients[used], moved)
    variances = noise_variances(guarantee, frame, structure.groups, shares, DENOMINATOR)
    if options.budgets == "iterated":
        shares, variances = _iterated(structure, guarantee, frame, shares, moved)
        worth = np.flatnonzero(shares > DENOMINATOR * _LEAST_SHARE)
        if options.recovery == "optimal" and len(worth) < len(shares):
            smaller = _structure(workload, proposal, tuple(structure.groups[i] for i in worth))
            if _answers(smaller, variances[worth]):
                structure, moved = smaller, moved[worth]
                shares, variances = _iterated(
                    structure, guarantee, frame, whole_shares(shares[worth].astype(np.float64)), moved
                )
    if options.recovery == "direct" and direct is not None:
        of_group = np.zeros(len(proposal.groups))
        of_group[used] = variances
        table_variances = direct.times(of_group)
    else:
        table_variances = structure.table_variances(variances)
    return Plan(
        workload=workload,
        guarantee=guarantee,
        options=options,
        frame=proposal.frame,
        groups=structure.groups,
        shares=tuple(shares.tolist()),
        denominator=DENOMINATOR,
        table_variances=tuple(table_variances.tolist()),
        sources=_kept_sources(proposal, used) if options.recovery == "direct" else None,
    )


def _structure(workload: Workload, proposal: Proposal, groups: tuple[Group, ...]) -> _Structure:
    if is_structured(groups):
        return Structure.of(workload, proposal.frame, product_groups(groups))
    return ExplicitStructure.of(workload, proposal.frame, groups)


def _kept_sources(proposal: Proposal, used: Integers) -> tuple[tuple[int, ...], ...] | None:
    """The sources of every table, numbered as in the plan; groups that no table uses are gone."""
    if proposal.sources is None:
        return None
    number = {int(group): place for place, group in enumerate(used)}
    return tuple(tuple([number[g] for g in table if g in number]) for table in proposal.sources)


def _direct(workload: Workload, proposal: Proposal) -> Incidence | None:
    if proposal.sources is None:
        return None
    return recovery_coefficients(workload, proposal.frame, proposal.groups, proposal.sources)


def _first_coefficients(structure: _Structure, direct: Incidence | None) -> Floats:
    """The paper's s_r (without its factor 2) for the recovery of step 2."""
    if direct is None:
        return structure.group_coefficients(np.ones(len(structure.groups)))
    return direct.transposed_times(structure.weights * structure.cells)


def _shares(guarantee: Guarantee, options: PlanOptions, coefficients: Floats, moved: Floats) -> Integers:
    if isinstance(guarantee, PureDP):
        if options.budgets == "uniform":
            return whole_shares(np.ones(len(coefficients)))
        return whole_shares(laplace_budgets(coefficients, np.ones(len(coefficients))))
    if options.budgets == "uniform":
        return whole_shares(moved)
    return whole_shares(moved * gaussian_budgets(coefficients, np.sqrt(moved)) ** 2)


def _iterated(
    structure: _Structure, guarantee: Guarantee, frame: Frame, shares: Integers, moved: Floats
) -> tuple[Integers, Floats]:
    """Alternate step 2 (budgets for the recovery at hand) and step 3 (recovery for the budgets at hand).

    Each step minimises the same objective in one of its two arguments, so the error never rises (THEORY section 2).
    """
    options = PlanOptions(budgets="optimal")
    variances = noise_variances(guarantee, frame, structure.groups, shares, DENOMINATOR)
    error = _weighted_error(structure, variances)
    for _ in range(_MOST_ROUNDS):
        tried = _shares(guarantee, options, structure.group_coefficients(variances), moved)
        tried_variances = noise_variances(guarantee, frame, structure.groups, tried, DENOMINATOR)
        tried_error = _weighted_error(structure, tried_variances)
        if tried_error >= error:
            break
        gain, shares, variances, error = error - tried_error, tried, tried_variances, tried_error
        if gain <= _LEAST_GAIN * error:
            break
    return shares, variances


def _answers(structure: _Structure, variances: Floats) -> bool:
    """Whether the groups determine every table."""
    try:
        structure.table_variances(variances)
    except PlanError:
        return False
    return True


def _weighted_error(structure: _Structure, variances: Floats) -> float:
    return float(np.sum(structure.weights * structure.cells * structure.table_variances(variances)))
