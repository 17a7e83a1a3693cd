"""The plan with the least total error, of one strategy or of all that "auto" tries. Zone: PUBLIC.

Strategies are left out where they cannot win or would take too long (`planning.bounds.screening`), and more effort
leaves out fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from privcube.errors import Plain, PlanError, PrivcubeError
from privcube.model.frame import Frame
from privcube.model.options import PlanOptions, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Workload
from privcube.planning.bounds.screening import SECONDS, Candidates, Prices, least_error, left_out, seconds
from privcube.planning.frames import asks_for_single_cells, frames, with_cells
from privcube.planning.search.narrow import is_narrow, judge, with_drawn_shares
from privcube.planning.searched import searched, tree_in_time, widths_in_time
from privcube.planning.steps import at_best, plan_of
from privcube.planning.trees import branchings, has_wavelets
from privcube.progress import COMPARING, Enough, Progress, silent
from privcube.strategies import STRATEGIES, matrix, residual

ALL: Final[tuple[Strategy, ...]] = ("search", *STRATEGIES)

_MOST_COMPARED: Final = 10_000  # tables; for more, comparing takes too long and "auto" uses only the search
_MOST_MATRICES: Final = 256  # cells of the domain; for more, matrices for finer tables take too long
_MOST_FINER: Final = 6  # workloads of finer tables whose matrices are compared
_MOST_SEARCHED: Final = 3_000_000  # tables times residuals; beyond, the search starts from few plans
# Compared even after a search that starts from them, wherever that takes at most this part of the time: a search may
# end slightly above a start, with budgets not quite settled.
_SIMPLE: Final[tuple[Strategy, ...]] = ("base_counts", "marginals", "clusters")
_CHEAP: Final = 0.05


def least_total(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress) -> Plan:
    """The plan of a strategy; "auto" picks the candidate with the least weighted total variance."""
    if options.strategy == "auto":
        return candidates(workload, guarantee, options, progress).best
    if options.strategy == "search":
        return searched(workload, guarantee, options, progress, tree_in_time(workload, guarantee, options))
    if options.strategy not in STRATEGIES:
        raise PlanError("strategy", expected="a known strategy", given=options.strategy, available=STRATEGIES)
    if options.strategy == matrix.NAME:
        proposal = matrix.propose(workload, guarantee, options.effort)
    else:
        proposal = STRATEGIES[options.strategy].propose(workload, guarantee)
    return plan_of(workload, guarantee, options, proposal)


def candidates(workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress) -> Candidates:
    """The plans that "auto" chooses from: every strategy that could be best and can answer the workload in time.

    Under a pure guarantee the search goes first. It starts from the paper's strategies on the natural axes (base
    counts, marginals, clusters, and Fourier coefficients of binary attributes), so its plan is at least as good, and
    these are skipped unless noise is so narrow that the prediction for continuous noise may be misleading. For
    tables of single cells under Gaussian noise, residuals are optimal (THEORY section 4). For ranges, matrices and
    blocks are where they fit in memory, if records are added or removed (THEORY sections 12 and 12.1).
    """
    narrow = is_narrow(guarantee)
    tried = Candidates(judge(guarantee), (lambda made: made) if options.budgets == "uniform" else with_drawn_shares)
    best_steps = options.budgets != "uniform" and options.recovery == "optimal"
    pure, ranges = isinstance(guarantee, PureDP), bool(branchings(workload))
    searching = pure and best_steps
    if best_steps and ranges and not pure and guarantee.neighbors == "add_remove":
        tried.attempt(partial(least_total, workload, guarantee, at_best(options, "matrix"), progress))
        if tried.found:  # refused for large domains; else it is the optimum, and nothing else is better
            return tried
    tree = tree_in_time(workload, guarantee, options) if best_steps else None
    if searching:
        tried.attempt(lambda: searched(workload, guarantee, options, progress, tree))
    covered = _covered(workload) if searching and tried.found and not narrow else frozenset[Strategy]()
    cheap, prices = _CHEAP * SECONDS[options.effort], Prices(workload, guarantee)
    covered -= {name for name in _SIMPLE if prices.of(name) < cheap}
    if best_steps and not pure:
        axes = frames(workload, guarantee)
        for frame in axes:
            tried.attempt(partial(_residuals, workload, guarantee, options, frame))
        covered = frozenset({"residual"} if Frame.natural(workload) in axes else ())
        if tried.found and asks_for_single_cells(workload, axes[0]) and guarantee.neighbors == "add_remove":
            return tried
    if tree is not None:
        tried.attempt(lambda: tree)
        if not narrow:
            covered |= {"hierarchy"}  # the tree is the best of these and others
            if has_wavelets(widths_in_time(workload, guarantee, options.effort)):
                covered |= {"wavelet"}
    names = [name for name in STRATEGIES if name != "sketch" and name not in covered]  # base counts beat a sketch
    left = SECONDS[options.effort]
    with suppress(Enough):
        for number, (price, name) in enumerate(
            sorted([(prices.of(name), name) for name in names], key=lambda each: each[0])
        ):
            if tried.found:
                progress(COMPARING, number, len(names))
            refusal = left_out(workload, guarantee, name, price, left, tried.least, narrow)
            if refusal is not None and tried.found:
                tried.left_out[name] = refusal
                continue
            left -= price
            tried.attempt(partial(least_total, workload, guarantee, at_best(options, name), progress))
    if searching and workload.leveled and "matrix" not in covered and workload.schema.domain_size <= _MOST_MATRICES:
        for other in islice(with_cells(workload), _MOST_FINER):  # a matrix may be a better one for finer tables
            tried.attempt(partial(_matrix, workload, guarantee, options, other))
    return tried


def every_strategy(
    workload: Workload,
    guarantee: Guarantee,
    options: PlanOptions,
    progress: Progress = silent,
    names: Sequence[Strategy] = ALL,
) -> dict[Strategy, Plan | PrivcubeError]:
    """For each strategy, its plan for the total or the error that refuses it; optimal steps 2 and 3 are alternated."""
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
        covered |= {"marginals"}
        if len(workload) * sum(2 ** len(table) for table in workload) <= _MOST_SEARCHED:
            covered |= {"base_counts", "clusters"}
    if not branchings(workload):
        if not workload.leveled:
            covered |= {"hierarchy"}  # without ranges it measures every table; levels may be on other axes
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
