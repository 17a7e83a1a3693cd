"""The plan with the least total error, of one strategy or of all that "auto" tries. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from privcube.accuracy.predictor import drawn_table_variances
from privcube.errors import PlanError, PrivcubeError
from privcube.model.frame import Frame
from privcube.model.options import PlanOptions, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Workload
from privcube.planning.frames import asks_for_single_cells, frames, with_cells
from privcube.planning.search.search import search_plan
from privcube.planning.steps import at_best, plan_of
from privcube.planning.trees import best_tree, branchings
from privcube.progress import COMPARING, Progress, silent
from privcube.strategies import STRATEGIES, matrix, residual

_MOST_COMPARED: Final = 10_000  # tables; for more, comparing takes too long and "auto" uses only the search
_MOST_MATRICES: Final = 256  # cells of the domain; for more, matrices for finer tables take too long
_MOST_FINER: Final = 6  # workloads of finer tables whose matrices are compared
_NARROW: Final = 2  # epsilon per row changed; continuous and whole-number variances differ by 1 % at noise of scale 3


def least_total(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress) -> Plan:
    """The plan of a strategy; "auto" picks the candidate with the least weighted total variance."""
    if options.strategy == "auto":
        error = drawn_error if _is_narrow(guarantee) else _predicted_error
        return min(candidates(workload, guarantee, options, progress), key=error)
    if options.strategy == "search":
        return _searched(workload, guarantee, options, progress)
    if options.strategy not in STRATEGIES:
        raise PlanError("strategy", expected="a known strategy", given=options.strategy, available=STRATEGIES)
    if options.strategy == matrix.NAME:
        proposal = matrix.propose(workload, guarantee, options.effort)
    else:
        proposal = STRATEGIES[options.strategy].propose(workload, guarantee)
    return plan_of(workload, guarantee, options, proposal)


def candidates(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress) -> list[Plan]:
    """The plans that "auto" chooses from: every strategy that could be best and can answer the workload.

    Under a pure guarantee the search goes first. It starts from the paper's strategies on the natural axes (base
    counts, marginals, clusters, and Fourier coefficients of binary attributes), so its plan is at least as good, and
    these are skipped unless noise is so narrow that the prediction for continuous noise may be misleading. For
    tables of single cells under Gaussian noise, residuals are optimal (THEORY section 4). For ranges, matrices and
    blocks are where they fit in memory, if records are added or removed (THEORY sections 12 and 12.1).
    """
    found: list[Plan] = []
    problems: list[PlanError] = []

    def attempt(make: Callable[[], Plan]) -> None:
        try:
            found.append(make())
        except PlanError as problem:
            problems.append(problem)

    best_steps = options.budgets != "uniform" and options.recovery == "optimal"
    pure, ranges = isinstance(guarantee, PureDP), bool(branchings(workload))
    searching = pure and best_steps
    if best_steps and ranges and not pure and guarantee.neighbors == "add_remove":
        with suppress(PlanError):  # raised for large domains; else it is the optimum, and nothing else is better
            return [least_total(workload, guarantee, at_best(options, "matrix"), progress)]
    tree: Plan | None = None
    if best_steps and ranges:
        with suppress(PlanError):
            tree = best_tree(workload, guarantee, options)
    if searching:
        attempt(lambda: _searched(workload, guarantee, options, progress, tree))
    covered = _covered(workload) if searching and found and not _is_narrow(guarantee) else frozenset[Strategy]()
    if best_steps and not pure:
        axes = frames(workload, guarantee)
        for frame in axes:
            attempt(partial(_residuals, workload, guarantee, options, frame))
        covered = frozenset({"residual"} if Frame.natural(workload) in axes else ())
        if found and asks_for_single_cells(workload, axes[0]):
            covered = frozenset(STRATEGIES)
    for name in STRATEGIES:
        if name == "sketch" or name in covered:  # a sketch is never better than the base counts it projects
            continue
        attempt(partial(least_total, workload, guarantee, at_best(options, name), progress))
    found += [] if tree is None else [tree]
    if searching and workload.leveled and "matrix" not in covered and workload.schema.domain_size <= _MOST_MATRICES:
        for other in islice(with_cells(workload), _MOST_FINER):  # a matrix may be a better one for finer tables
            attempt(partial(_matrix, workload, guarantee, options, other))
    if not found:
        raise problems[0]
    return found


def every_strategy(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress = silent
) -> dict[Strategy, Plan | PrivcubeError]:
    """For each strategy, its plan for the total or the error that refuses it; optimal steps 2 and 3 are alternated."""
    names: tuple[Strategy, ...] = ("search", *STRATEGIES)
    total = compared_as(options)
    found: dict[Strategy, Plan | PrivcubeError] = {}
    for number, name in enumerate(names):
        progress(COMPARING, number, len(names))
        try:
            found[name] = least_total(workload, guarantee, replace(total, strategy=name), silent)
        except PlanError as problem:
            found[name] = problem
    progress(COMPARING, len(names), len(names))
    return found


def compared_as(options: PlanOptions) -> PlanOptions:
    """The options that strategies are compared with: those of "auto", for the total error."""
    in_turn = options.budgets != "uniform" and options.recovery == "optimal"
    return replace(options, objective="total", budgets="iterated" if in_turn else options.budgets)


def _is_narrow(guarantee: Guarantee) -> bool:
    """Whether whole-number noise may be mostly 0, and hence below the prediction, in groups with much budget."""
    return isinstance(guarantee, PureDP) and guarantee.epsilon >= _NARROW * guarantee.rows_changed


def _predicted_error(made: Plan) -> float:
    return made.weighted_variance


def drawn_error(made: Plan) -> float:
    """The sum of all cell variances as drawn, each times the weight of its table."""
    weights = np.array(made.workload.weights) * np.array(made.workload.sizes)
    return float(weights @ drawn_table_variances(made))


def _covered(workload: Workload) -> frozenset[Strategy]:
    """The strategies that need not be tried after a search on the natural axes, which starts from them.

    For very many tables these are all strategies, as Fourier coefficients, wavelets and trees of attributes with more
    than two values would be millions of groups.
    """
    if len(workload) > _MOST_COMPARED:
        return frozenset(STRATEGIES)
    frame = Frame.unpadded(workload)
    covered: set[Strategy] = {"residual"}
    if not Frame.natural(workload).has_padding:
        covered |= {"base_counts", "marginals", "clusters"}
    if not branchings(workload):
        covered |= {"hierarchy"}  # trees only help with ranges
        if all(set(chain) <= {2} for chain in frame.fan_outs) and not workload.leveled:
            covered |= {"fourier", "wavelet"}
    if asks_for_single_cells(workload, frame):
        covered |= {"matrix"}  # matrices only help with ranges and groups of unequal size
    return frozenset(covered)


def _matrix(workload: Workload, guarantee: Guarantee, options: PlanOptions, other: Workload) -> Plan:
    """The plan that measures the matrix for another workload."""
    return plan_of(workload, guarantee, at_best(options, "matrix"), matrix.propose(other, guarantee))


def _residuals(workload: Workload, guarantee: Guarantee, options: PlanOptions, frame: Frame) -> Plan:
    proposal = residual.propose(workload, guarantee, frame)
    return plan_of(workload, guarantee, at_best(options, "residual"), proposal)


def _searched(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress, tree: Plan | None = None
) -> Plan:
    """The plan that a search finds on the natural axes, with and without padding, or, for ranges, on the best tree."""
    if not isinstance(guarantee, PureDP):
        raise PlanError("strategy", expected="a pure guarantee for a search over bundles", available=["residual"])
    if options.recovery != "optimal" or options.budgets == "uniform":
        raise PlanError("strategy", expected="optimal recovery and budgets for a search over bundles")
    if branchings(workload):
        with suppress(PlanError):
            tree = tree or best_tree(workload, guarantee, options)
            flat = search_plan(workload, guarantee, replace(options, effort="fast"), Frame.unpadded(workload))
            better = search_plan(workload, guarantee, options, tree.frame, also=[tree], progress=progress)
            return min(flat, better, key=_predicted_error)
    axes = frames(workload, guarantee)
    plans = [
        search_plan(workload, guarantee, options, frame, progress=_part(progress, number, len(axes)))
        for number, frame in enumerate(axes)
    ]
    return min(plans, key=_predicted_error)


def _part(progress: Progress, number: int, count: int) -> Progress:
    """The progress of one search out of several."""

    def told(stage: str, done: int, total: int | None) -> None:
        if total is None:
            progress(stage, done, None)
        else:
            progress(stage, number * total + done, count * total)

    return told
