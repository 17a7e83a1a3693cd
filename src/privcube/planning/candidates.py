"""The plan with the least total error, of one strategy or of all that "auto" tries. Zone: PUBLIC.

More effort is never worse. A search of normal effort starts from the plan of a fast one, and a thorough one from that
of a normal one; each keeps the earlier plan if it finds none better. Strategies are left out where they cannot win or
would take too long (`privcube.planning.screening`), and more effort leaves out fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, get_args

import numpy as np

from privcube.accuracy.predictor import drawn_table_variances
from privcube.errors import Plain, PlanError, PrivcubeError
from privcube.model.frame import Frame
from privcube.model.options import Effort, PlanOptions, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Workload
from privcube.planning.screening import SECONDS, least_error, seconds, tree_seconds
from privcube.planning.search.search import search_plan
from privcube.planning.steps import at_best, plan_of
from privcube.planning.trees import best_tree, branchings, promising
from privcube.progress import COMPARING, Enough, Progress, silent
from privcube.strategies import STRATEGIES

_MOST_COMPARED: Final = 10_000  # tables; for more, comparing takes too long and "auto" uses only the search
_MOST_SEARCHED: Final = 3_000_000  # tables times residuals; beyond, the search starts from few plans
_NARROW: Final = 2  # epsilon per row changed; continuous and whole-number variances differ by 1 % at noise of scale 3
_SIMPLE: Final[tuple[Strategy, ...]] = ("base_counts", "marginals", "clusters")  # compared wherever that is cheap, as
_CHEAP: Final = (
    0.05  # of the time for strategies: a search may end slightly above a start, with budgets not quite settled
)
_FOR_TREES: Final = 0.5  # of the time for strategies, for trees of several branchings
_LONGER: Final[dict[Effort, int]] = {"fast": 1, "normal": 12, "thorough": 140}  # about how long each takes


def least_total(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress) -> Plan:
    """The plan of a strategy; "auto" picks the candidate with the least weighted total variance."""
    if options.strategy == "auto":
        return candidates(workload, guarantee, options, progress).best
    if options.strategy == "search":
        return _searched(workload, guarantee, options, progress, _tree(workload, guarantee, options))
    if options.strategy not in STRATEGIES:
        raise PlanError("strategy", expected="a known strategy", given=options.strategy, available=STRATEGIES)
    return plan_of(workload, guarantee, options, STRATEGIES[options.strategy].propose(workload, guarantee))


@dataclass
class Candidates:
    """The plans that "auto" chooses from, the problems of strategies that cannot be used, and those left out."""

    error: Callable[[Plan], float]
    found: list[tuple[float, Plan]] = field(default_factory=list)
    problems: list[PlanError] = field(default_factory=list)
    left_out: dict[Strategy, PlanError] = field(default_factory=dict)

    def attempt(self, make: Callable[[], Plan]) -> None:
        """Make a plan, or keep the problem."""
        try:
            made = make()
            self.found.append((self.error(made), made))
        except PlanError as problem:
            self.problems.append(problem)

    @property
    def least(self) -> float:
        """The least error so far."""
        return min([error for error, _ in self.found], default=np.inf)

    @property
    def best(self) -> Plan:
        """The plan of least error; the first of several."""
        if not self.found:
            raise self.problems[0]
        return min(self.found, key=lambda each: each[0])[1]


def candidates(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress) -> Candidates:
    """The plans that "auto" chooses from: every strategy that could be best and can answer the workload in time.

    Under a pure guarantee the search goes first. It starts from the paper's strategies on the natural axes (base
    counts, marginals, clusters, and Fourier coefficients of binary attributes), so its plan is at least as good, and
    these are skipped unless noise is so narrow that the prediction for continuous noise may be misleading. For
    tables of cells under Gaussian noise, residuals are optimal if records are added or removed (THEORY section 4).
    """
    narrow = _is_narrow(guarantee)
    tried = Candidates(drawn_error if narrow else _predicted_error)
    best_steps = options.budgets != "uniform" and options.recovery == "optimal"
    pure, ranges = isinstance(guarantee, PureDP), bool(branchings(workload))
    tree = _tree(workload, guarantee, options) if best_steps else None
    searching = pure and best_steps
    if searching:
        tried.attempt(lambda: _searched(workload, guarantee, options, progress, tree))
    covered = _covered(workload) if searching and tried.found and not narrow else frozenset[Strategy]()
    cheap = _CHEAP * SECONDS[options.effort]
    covered -= {name for name in _SIMPLE if seconds(name, workload, guarantee) < cheap}
    alike = not ranges and not Frame.natural(workload).has_padding
    if best_steps and not pure and alike and guarantee.neighbors == "add_remove":
        covered = frozenset(STRATEGIES) - {"residual"}
    if tree is not None:
        tried.attempt(lambda: tree)
        if not narrow:
            covered |= {"hierarchy", "wavelet"}  # the tree is the best of these and others
    names = [name for name in STRATEGIES if name != "sketch" and name not in covered]  # base counts beat a sketch
    left = SECONDS[options.effort]
    with suppress(Enough):
        for number, name in enumerate(sorted(names, key=lambda name: seconds(name, workload, guarantee))):
            if tried.found:
                progress(COMPARING, number, len(names))
            price = seconds(name, workload, guarantee)
            refusal = _left_out(workload, guarantee, name, price, left, tried.least, narrow)
            if refusal is not None and tried.found:
                tried.left_out[name] = refusal
                continue
            left -= price
            tried.attempt(partial(least_total, workload, guarantee, at_best(options, name), progress))
    return tried


def _left_out(
    workload: Workload, guarantee: Guarantee, name: Strategy, price: float, left: float, least: float, narrow: bool
) -> PlanError | None:
    """Why a strategy is not worked out: it cannot win, or there is no time."""
    if price > left:
        work = Plain(f"about {price:,.0f} seconds of work")
        return PlanError(name, expected="a strategy that can be worked out in the time of this effort", given=work)
    bound = least_error(name, workload, guarantee, narrow)
    if bound >= least:
        error = Plain(f"a weighted variance of at least {bound:,.1f}; the best so far has {least:,.1f}")
        return PlanError(name, expected="a strategy that may be best", given=error)
    return None


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
            found[name] = _in_time(workload, guarantee, replace(total, strategy=name))
        except PlanError as problem:
            found[name] = problem
    progress(COMPARING, len(names), len(names))
    return found


def _in_time(workload: Workload, guarantee: Guarantee, options: PlanOptions) -> Plan:
    """The plan of a strategy, if working it out does not take much longer than the effort."""
    price, most = seconds(options.strategy, workload, guarantee), SECONDS[options.effort]
    if options.strategy != "search" and price > most:
        bound = least_error(options.strategy, workload, guarantee)
        least = f"; a weighted variance of at least {bound:,.1f}" if bound else ""
        raise PlanError(
            options.strategy,
            expected=f"at most about {most:,.0f} seconds of work at effort {options.effort}",
            given=Plain(f"about {price:,.0f}{least}"),
        )
    return least_total(workload, guarantee, options, silent)


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
    frame = Frame.natural(workload)
    covered: set[Strategy] = {"marginals", "residual"}
    if len(workload) * sum(2 ** len(table) for table in workload) <= _MOST_SEARCHED:
        covered |= {"base_counts", "clusters"}
    if not branchings(workload):
        covered |= {"hierarchy", "matrix"}  # trees and matrices only help with ranges
        if all(set(chain) <= {2} for chain in frame.fan_outs) and not workload.leveled:
            covered |= {"fourier", "wavelet"}
    return frozenset(covered)


def _tree(workload: Workload, guarantee: Guarantee, options: PlanOptions) -> Plan | None:
    """The best tree that can be found in time; None without ranges, or if none can be used."""
    if not branchings(workload) or options.recovery != "optimal" or options.budgets == "uniform":
        return None
    count = int(_FOR_TREES * SECONDS[options.effort] / tree_seconds(workload))
    with suppress(PlanError):
        return best_tree(workload, guarantee, options, promising(workload, max(1, count)))
    return None


def _searched(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress, tree: Plan | None
) -> Plan:
    """The plan that a search finds on the natural axes or, for ranges, also on the best tree."""
    if not isinstance(guarantee, PureDP):
        raise PlanError("strategy", expected="a pure guarantee for a search over bundles", available=["residual"])
    if options.recovery != "optimal" or options.budgets == "uniform":
        raise PlanError("strategy", expected="optimal recovery and budgets for a search over bundles")
    search = partial(_with_more_effort, workload, guarantee)
    flat = Frame.natural(workload)
    if tree is None:
        return search(options, flat, [], progress)
    plans = [search(replace(options, effort="fast"), flat, [], silent), search(options, tree.frame, [tree], progress)]
    best = min(plans, key=drawn_error if _is_narrow(guarantee) else _predicted_error)
    return replace(best, options=plans[-1].options)


def _with_more_effort(
    workload: Workload, guarantee: PureDP, options: PlanOptions, frame: Frame, also: Sequence[Plan], progress: Progress
) -> Plan:
    """The best plan of searches with more and more effort, each starting from the plan before."""
    error = drawn_error if _is_narrow(guarantee) else _predicted_error
    efforts = get_args(Effort)[: get_args(Effort).index(options.effort) + 1]
    stages = _Stages(progress, [_LONGER[effort] for effort in efforts])
    plans: list[Plan] = []
    for effort in efforts:
        if not stages.stopped:
            again = replace(options, effort=effort)
            known = [*plans[-1:], *also]
            plans.append(search_plan(workload, guarantee, again, frame, also=known, progress=stages))
            plans = sorted(plans, key=error, reverse=True)
            stages.next()
    return replace(plans[-1], options=replace(plans[-1].options, effort=options.effort))


class _Stages:
    """The progress of searches one after another, as that of one; remembers whether it was stopped."""

    def __init__(self, progress: Progress, lengths: Sequence[int]) -> None:
        self._progress, self._lengths, self._stage, self.stopped = progress, lengths, 0, False

    def next(self) -> None:
        """Go on to the next search."""
        self._stage += 1

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        before, own, all_ = sum(self._lengths[: self._stage]), self._lengths[self._stage], sum(self._lengths)
        try:
            if total is None or len(self._lengths) == 1:
                self._progress(stage, done, total)
            else:
                self._progress(stage, before * total + own * done, all_ * total)
        except Enough:
            self.stopped = True
            raise
