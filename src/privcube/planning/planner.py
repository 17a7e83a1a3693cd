"""From a workload and a guarantee to a plan: steps 1 to 3 of the paper's framework. Zone: PUBLIC."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Final, get_args

import numpy as np
from threadpoolctl import ThreadpoolController

from privcube.accuracy.direct import recovery_coefficients
from privcube.accuracy.drawn import drawn_table_variances
from privcube.accuracy.matrix_structure import ExplicitStructure
from privcube.accuracy.structure import Structure
from privcube.algebra.budgets import gaussian_budgets, laplace_budgets
from privcube.algebra.lattice import Floats, Incidence, Integers
from privcube.errors import MissingExtraError, PlanError, PrivcubeError
from privcube.model.frame import Frame
from privcube.model.groups import Group, is_structured, product_groups
from privcube.model.options import Budgets, Effort, Objective, PlanOptions, Recovery, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.sensitivity import noise_variances, squared_l2_of_all
from privcube.model.workload import Entry, Workload, canonical, table_name
from privcube.planning.largest import largest_ratio_plan, wanted_of_all
from privcube.planning.search.bundled import bundled_plan
from privcube.planning.steps import DENOMINATOR, whole_shares
from privcube.planning.trees import best_tree, branchings
from privcube.progress import COMPARING, Progress, silent
from privcube.strategies import STRATEGIES
from privcube.strategies.proposal import Proposal

_Structure = Structure | ExplicitStructure

_MOST_ROUNDS: Final = 500
_LEAST_SHARE: Final = 1e-6  # of the budget; iteration takes from groups that say little, and never quite ends
_LEAST_GAIN: Final = 1e-9
_MOST_COMPARED: Final = 10_000  # tables; for more, "auto" takes what the search finds
_NARROW: Final = 2  # epsilon per row changed; continuous and whole-number variances differ by 1 % at noise of scale 3


def plan(
    workload: Workload,
    guarantee: Guarantee,
    strategy: Strategy = "auto",
    *,
    budgets: Budgets = "optimal",
    recovery: Recovery = "optimal",
    effort: Effort = "fast",
    objective: Objective = "total",
    wanted: Mapping[Sequence[Entry], float] | None = None,
    progress: Progress = silent,
) -> Plan:
    """Decide what to measure and with how much noise; no data is needed or seen.

    The weighted total of all variances is made small, or the largest variance of a cell (`objective="largest"`): with
    `wanted` standard errors per table, the largest ratio to them, over the tables that have one.

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
    options = PlanOptions(strategy=strategy, budgets=budgets, recovery=recovery, effort=effort, objective=objective)
    # Small matrices: more threads get in each other's way, and change last digits.
    with _blas("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        if options.objective == "largest" or wanted is not None:
            return _least_largest(workload, guarantee, options, wanted, progress)
        return _least_total(workload, guarantee, options, progress)


@lru_cache
def _blas(scipy_is_loaded: bool) -> ThreadpoolController:
    """The libraries of linear algebra; looking for them takes milliseconds, so once, and again with those of scipy."""
    return ThreadpoolController()


def plan_as(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress = silent) -> Plan:
    """The plan with these options, as a spec has them."""
    return plan(
        workload,
        guarantee,
        options.strategy,
        budgets=options.budgets,
        recovery=options.recovery,
        effort=options.effort,
        objective=options.objective,
        progress=progress,
    )


def _least_largest(
    workload: Workload,
    guarantee: Guarantee,
    options: PlanOptions,
    wanted: Mapping[Sequence[Entry], float] | None,
    progress: Progress,
) -> Plan:
    best = "search" if isinstance(guarantee, PureDP) else "residual"
    if options.strategy not in ("auto", best) or options.recovery != "optimal":
        raise PlanError("objective", expected=f"strategy auto or {best}, and optimal recovery, for the largest error")
    variances = np.ones(len(workload))
    if wanted is not None:
        asked = {canonical(workload.schema, table): error for table, error in wanted.items()}
        for table, error in asked.items():
            if table not in workload:
                available = [table_name(each) for each in workload]
                raise PlanError(
                    "wanted", expected="tables of the workload", given=table_name(table), available=available
                )
            if not 0 < float(error) < np.inf:
                raise PlanError(f"wanted of {table_name(table)}", expected="a number above 0", given=error)
        if not asked:
            raise PlanError("wanted", expected="a standard error for at least one table")
        variances = wanted_of_all(workload, {table: float(error) ** 2 for table, error in asked.items()})
    total = partial(_least_total, guarantee=guarantee, options=replace(options, strategy="search"), progress=progress)
    return largest_ratio_plan(workload, guarantee, options, variances, total)


def _least_total(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress) -> Plan:
    if options.strategy == "search":
        return _searched(workload, guarantee, options, progress)
    if options.strategy != "auto":
        return _plan_with(workload, guarantee, options)
    error = _drawn_error if _is_narrow(guarantee) else _predicted_error
    return min(tried(workload, guarantee, options, progress), key=error)


def _is_narrow(guarantee: Guarantee) -> bool:
    """Whether whole-number noise may be mostly 0, and so smaller than predicted where a group gets much budget."""
    return isinstance(guarantee, PureDP) and guarantee.epsilon >= _NARROW * guarantee.rows_changed


def _predicted_error(made: Plan) -> float:
    return made.weighted_variance


def _drawn_error(made: Plan) -> float:
    weights = np.array(made.workload.weights) * np.array(made.workload.sizes)
    return float(weights @ drawn_table_variances(made))


def tried(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress = silent) -> list[Plan]:
    """The plans that "auto" chooses from: all that may be best, or are named in the paper, and can be made.

    Under a pure guarantee the search goes first. It starts from the paper's strategies on the natural axes (base
    counts, marginals, clusters, and Fourier coefficients of binary attributes), so its plan is no worse than those, and
    only others are made besides; unless noise is so narrow that the prediction for continuous noise may mislead. For
    tables of cells under Gaussian noise the residuals are optimal, whatever else there is (THEORY section 4).
    """
    found: list[Plan] = []
    problems: list[Exception] = []

    def attempt(make: Callable[[], Plan]) -> None:
        try:
            found.append(make())
        except (PlanError, MissingExtraError) as problem:
            problems.append(problem)

    best_steps = options.budgets != "uniform" and options.recovery == "optimal"
    pure, ranges = isinstance(guarantee, PureDP), bool(branchings(workload))
    searching = pure and best_steps
    if searching:
        attempt(lambda: _searched(workload, guarantee, options, progress))
    covered = _covered(workload) if searching and found and not _is_narrow(guarantee) else frozenset[Strategy]()
    if best_steps and not pure and not ranges and not Frame.natural(workload).has_padding:
        covered = frozenset(STRATEGIES) - {"residual"}
    for name in STRATEGIES:
        if name == "sketch" or name in covered:  # sketches are never better than the base counts they project
            continue
        attempt(partial(_plan_with, workload, guarantee, _best_effort(options, name)))
    if best_steps and ranges:
        attempt(lambda: best_tree(workload, guarantee, partial(_planned_as, workload, guarantee, options)))
    if not found:
        raise problems[0]
    return found


def every_strategy(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress = silent
) -> dict[Strategy, Plan | PrivcubeError]:
    """The plan of each strategy for the total, or why there is none; steps that are both optimal are iterated."""
    names: tuple[Strategy, ...] = ("search", *STRATEGIES)
    iterated = options.budgets != "uniform" and options.recovery == "optimal"
    total = replace(options, objective="total", budgets="iterated" if iterated else options.budgets)
    found: dict[Strategy, Plan | PrivcubeError] = {}
    for number, name in enumerate(names):
        progress(COMPARING, number, len(names))
        try:
            found[name] = _least_total(workload, guarantee, replace(total, strategy=name), silent)
        except (PlanError, MissingExtraError) as problem:
            found[name] = problem
    progress(COMPARING, len(names), len(names))
    return found


def _covered(workload: Workload) -> frozenset[Strategy]:
    """The strategies that a search on the natural axes starts from, and so is no worse than; for very many tables all.

    Then Fourier coefficients, wavelets and trees of attributes with more than two values would be millions of groups.
    """
    if len(workload) > _MOST_COMPARED:
        return frozenset(STRATEGIES)
    frame = Frame.natural(workload)
    covered: set[Strategy] = {"base_counts", "marginals", "clusters", "residual"}
    if not branchings(workload):
        covered |= {"hierarchy", "matrix"}  # trees and matrices are for ranges; without any, these are marginals
        if all(set(chain) <= {2} for chain in frame.fan_outs) and not workload.leveled:
            covered |= {"fourier", "wavelet"}
    return frozenset(covered)


def _searched(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress) -> Plan:
    """The best groups and bundles found, on the natural axes or, for ranges, on the best tree."""
    if not isinstance(guarantee, PureDP):
        raise PlanError("strategy", expected="a pure guarantee for a search over bundles", available=["residual"])
    if options.recovery != "optimal" or options.budgets == "uniform":
        raise PlanError("strategy", expected="optimal recovery and budgets for a search over bundles")
    if branchings(workload):
        with suppress(PlanError):
            tree = best_tree(workload, guarantee, partial(_planned_as, workload, guarantee, options))
            flat = bundled_plan(workload, guarantee, replace(options, effort="fast"), Frame.natural(workload))
            better = bundled_plan(workload, guarantee, options, tree.frame, also=[tree], progress=progress)
            return min(flat, better, key=lambda candidate: candidate.weighted_variance)
    return bundled_plan(workload, guarantee, options, Frame.natural(workload), progress=progress)


def _planned_as(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, strategy: Strategy, proposal: Proposal
) -> Plan:
    return _planned(workload, guarantee, _best_effort(options, strategy), proposal)


def _best_effort(options: PlanOptions, strategy: Strategy) -> PlanOptions:
    """What "auto" tries of a strategy: with both steps optimal, they are iterated as well, unless once is enough."""
    iterated = options.budgets == "optimal" and options.recovery == "optimal" and strategy != "residual"
    return replace(options, strategy=strategy, budgets="iterated" if iterated else options.budgets)


def _plan_with(workload: Workload, guarantee: Guarantee, options: PlanOptions) -> Plan:
    if options.strategy not in STRATEGIES:
        raise PlanError("strategy", expected="one that is built in", given=options.strategy, available=STRATEGIES)
    return _planned(workload, guarantee, options, STRATEGIES[options.strategy].propose(workload, guarantee))


def _planned(workload: Workload, guarantee: Guarantee, options: PlanOptions, proposal: Proposal) -> Plan:
    """Steps 2 and 3 for what a strategy proposes."""
    structure = _structure(workload, proposal, proposal.groups)
    direct = _direct(workload, proposal)
    coefficients = _first_coefficients(structure, direct)
    used = np.flatnonzero(coefficients > 0)
    if len(used) < len(proposal.groups):
        groups = tuple(proposal.groups[i] for i in used)
        structure = _structure(workload, proposal, groups)
    frame = proposal.frame
    moved = squared_l2_of_all(guarantee, proposal.frame, structure.groups)
    shares = _shares(guarantee, options, coefficients[used], moved)
    variances = noise_variances(guarantee, frame, structure.groups, shares, DENOMINATOR, moved)
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
        return Structure.of(workload, proposal.frame, product_groups(groups), proposal.index)
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
    variances = noise_variances(guarantee, frame, structure.groups, shares, DENOMINATOR, moved)
    error = _weighted_error(structure, variances)
    for _ in range(_MOST_ROUNDS):
        tried = _shares(guarantee, options, structure.group_coefficients(variances), moved)
        tried_variances = noise_variances(guarantee, frame, structure.groups, tried, DENOMINATOR, moved)
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
