"""The plan that a search finds, on natural axes and on trees, with more and more effort. Zone: PUBLIC.

More effort is never worse. A search of normal effort starts from the plan of a fast one, and a thorough one from that
of a normal one; each keeps the earlier plan if it finds none better. More effort may find a better tree, on which a
search may yet end with a worse plan; so the plan on the earlier tree is kept, too.

Where noise is narrow, plans are compared by the variance that is drawn, and one with noise on sections is tried with
max-norm noise as well (`privcube.planning.search.narrow`). This is done after every search: of two plans the worse one
may become the better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, get_args

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.options import Effort, PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Workload
from privcube.planning.bounds.screening import SECONDS, Prices
from privcube.planning.frames import frames
from privcube.planning.search.narrow import judge, narrowed
from privcube.planning.search.ranking import KnownStarts
from privcube.planning.search.search import is_searched, known_starts, search_plan
from privcube.planning.trees import best_tree, branchings, promising
from privcube.progress import Enough, InTurn, Progress, silent

_FOR_TREES: Final = 0.5  # of the time for strategies, for trees of several branchings
_ON_TREES: Final[dict[Effort, float]] = {"fast": 0.5, "normal": 0.9, "thorough": 0.9}  # of the time for a search
LONGER: Final[dict[Effort, int]] = {"fast": 1, "normal": 12, "thorough": 140}  # about how long each takes


def tree_in_time(workload: Workload, guarantee: Guarantee, options: PlanOptions) -> Plan | None:
    """The best tree that can be found in time; None without ranges, or if none can be used."""
    if not branchings(workload) or options.recovery != "optimal" or options.budgets == "uniform":
        return None
    with suppress(PlanError):
        return best_tree(workload, guarantee, options, widths_in_time(workload, guarantee, options.effort))
    return None


def widths_in_time(workload: Workload, guarantee: Guarantee, effort: Effort) -> tuple[int, ...]:
    """The branchings of the trees that are compared in the time of an effort."""
    count = int(_FOR_TREES * SECONDS[effort] / Prices(workload, guarantee).of_tree)
    return tuple(promising(workload, max(1, count)))


class _Stage(NamedTuple):
    """A search of an effort: its axes, plans on them to start from, and its part of the time of the effort."""

    effort: Effort
    frame: Frame
    also: list[Plan]
    part: float


def searched(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress, tree: Plan | None
) -> Plan:
    """The plan that a search finds on the natural axes or, for ranges, also on the best tree."""
    if not isinstance(guarantee, PureDP):
        raise PlanError("strategy", expected="a pure guarantee for a search over bundles", available=["residual"])
    if options.recovery != "optimal" or options.budgets == "uniform":
        raise PlanError("strategy", expected="optimal recovery and budgets for a search over bundles")
    search = partial(_in_stages, workload, guarantee, options)
    efforts = _efforts_up_to(options.effort)
    if tree is None:
        axes = frames(workload, guarantee)
        in_turn, plans = InTurn(progress, [1] * len(axes)), []
        for frame in axes:
            plans.append(search([_Stage(effort, frame, [], 1 / len(axes)) for effort in efforts], in_turn))
            in_turn.next()
        return min(plans, key=judge(guarantee))
    trees = _trees_of(workload, guarantee, options, tree)
    on_trees = [_Stage(effort, trees[effort].frame, [trees[effort]], _ON_TREES[effort]) for effort in efforts]
    flat = _Stage("fast", Frame.unpadded(workload), [], _ON_TREES["fast"])
    return min([search([flat], silent), search(on_trees, progress)], key=judge(guarantee))


def _efforts_up_to(effort: Effort) -> list[Effort]:
    return list(get_args(Effort)[: get_args(Effort).index(effort) + 1])


def _trees_of(workload: Workload, guarantee: Guarantee, options: PlanOptions, tree: Plan) -> dict[Effort, Plan]:
    """The best tree of every effort up to the one asked for, whose tree is given."""
    trees, widths = {options.effort: tree}, {widths_in_time(workload, guarantee, options.effort): tree}
    for effort in _efforts_up_to(options.effort)[:-1]:
        own = widths_in_time(workload, guarantee, effort)
        if own not in widths:
            widths[own] = tree_in_time(workload, guarantee, replace(options, effort=effort)) or tree
        trees[effort] = widths[own]
    return trees


def _in_stages(
    workload: Workload, guarantee: PureDP, options: PlanOptions, stages: Sequence[_Stage], progress: Progress
) -> Plan:
    """The best plan of searches with more and more effort, each from the plan before, if that has the same axes."""
    error = judge(guarantee)
    in_turn = InTurn(progress, [LONGER[stage.effort] for stage in stages])
    plans: list[Plan] = []
    worked_out: dict[Frame, KnownStarts | None] = {}
    for effort, frame, also, part in stages:
        if in_turn.stopped:
            break
        if frame not in worked_out:
            worked_out[frame] = known_starts(workload, guarantee, frame) if is_searched(workload, frame) else None
        known = [*[made for made in plans[-1:] if made.frame == frame], *also]
        try:
            found = search_plan(
                workload,
                guarantee,
                replace(options, effort=effort),
                frame,
                also=known,
                part=part,
                known=worked_out[frame],
                progress=in_turn,
            )
            plans.append(narrowed(found))
        except Enough:
            plans = plans or known
            if not plans:
                raise
        plans = sorted(plans, key=error, reverse=True)
        in_turn.next()
    return replace(plans[-1], options=replace(plans[-1].options, effort=options.effort))
