"""The plan that a search finds, on natural axes and on trees, with more and more effort. Zone: PUBLIC.

More effort is never worse. A search of normal effort starts from the plan of a fast one, and a thorough one from that
of a normal one; each keeps the earlier plan if it finds none better.

Where noise is narrow, plans are compared by the variance that is drawn, and one with noise on sections is tried with
max-norm noise as well (`privcube.planning.search.narrow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, get_args

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.options import Effort, PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Workload
from privcube.planning.bounds.screening import SECONDS, Prices
from privcube.planning.frames import frames
from privcube.planning.search.narrow import is_narrow, judge, off_sections
from privcube.planning.search.search import is_searched, known_starts, search_plan
from privcube.planning.trees import best_tree, branchings, promising
from privcube.progress import Enough, InTurn, Progress, silent

_FOR_TREES: Final = 0.5  # of the time for strategies, for trees of several branchings
LONGER: Final[dict[Effort, int]] = {"fast": 1, "normal": 12, "thorough": 140}  # about how long each takes


def tree_in_time(workload: Workload, guarantee: Guarantee, options: PlanOptions) -> Plan | None:
    """The best tree that can be found in time; None without ranges, or if none can be used."""
    if not branchings(workload) or options.recovery != "optimal" or options.budgets == "uniform":
        return None
    with suppress(PlanError):
        return best_tree(workload, guarantee, options, widths_in_time(workload, guarantee, options.effort))
    return None


def widths_in_time(workload: Workload, guarantee: Guarantee, effort: Effort) -> list[int]:
    """The branchings of the trees that are compared in the time of an effort."""
    count = int(_FOR_TREES * SECONDS[effort] / Prices(workload, guarantee).of_tree)
    return promising(workload, max(1, count))


def searched(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, progress: Progress, tree: Plan | None
) -> Plan:
    """The plan that a search finds on the natural axes or, for ranges, also on the best tree."""
    if not isinstance(guarantee, PureDP):
        raise PlanError("strategy", expected="a pure guarantee for a search over bundles", available=["residual"])
    if options.recovery != "optimal" or options.budgets == "uniform":
        raise PlanError("strategy", expected="optimal recovery and budgets for a search over bundles")
    search = partial(_with_more_effort, workload, guarantee)
    if tree is None:
        axes = frames(workload, guarantee)
        in_turn, plans = InTurn(progress, [1] * len(axes)), []
        for frame in axes:
            plans.append(search(options, frame, [], 1 / len(axes), in_turn))
            in_turn.next()
        return min(plans, key=judge(guarantee))
    flat, part = Frame.unpadded(workload), 0.5 if options.effort == "fast" else 0.9
    plans = [
        search(replace(options, effort="fast"), flat, [], 0.5, silent),
        search(options, tree.frame, [tree], part, progress),
    ]
    best = min(plans, key=judge(guarantee))
    return replace(best, options=plans[-1].options)


def _with_more_effort(
    workload: Workload,
    guarantee: PureDP,
    options: PlanOptions,
    frame: Frame,
    also: Sequence[Plan],
    part: float,
    progress: Progress,
) -> Plan:
    """The best plan of searches with more and more effort, each from the plan before, in a part of their time."""
    error = judge(guarantee)
    efforts = get_args(Effort)[: get_args(Effort).index(options.effort) + 1]
    in_turn = InTurn(progress, [LONGER[effort] for effort in efforts])
    plans: list[Plan] = []
    worked_out = known_starts(workload, guarantee, frame) if is_searched(workload, frame) else None
    for effort in efforts:
        if not in_turn.stopped:
            again = replace(options, effort=effort)
            known = [*plans[-1:], *also]
            try:
                found = search_plan(
                    workload, guarantee, again, frame, also=known, part=part, known=worked_out, progress=in_turn
                )
                plans.append(found)
            except Enough:
                if not known:
                    raise
                plans = plans or known
            plans = sorted(plans, key=error, reverse=True)
            in_turn.next()
    if is_narrow(guarantee) and "section" in plans[-1].noise_laws:
        with suppress(PlanError):
            plans = sorted([*plans, off_sections(plans[-1])], key=error, reverse=True)
    return replace(plans[-1], options=replace(plans[-1].options, effort=options.effort))
