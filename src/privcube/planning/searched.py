"""The plan that a search finds, on natural axes and on trees, with more and more effort. Zone: PUBLIC.

More effort is never worse. A search of normal effort starts from the plan of a fast one, and a thorough one from that
of a normal one; each keeps the earlier plan if it finds none better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, get_args

import numpy as np

from privcube.accuracy.predictor import drawn_table_variances
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.options import Effort, PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Workload
from privcube.planning.bounds.screening import SECONDS, tree_seconds
from privcube.planning.frames import frames
from privcube.planning.search.search import search_plan
from privcube.planning.trees import best_tree, branchings, promising
from privcube.progress import Enough, Progress, silent

_NARROW: Final = 2  # epsilon per row changed; continuous and whole-number variances differ by 1 % at noise of scale 3
_FOR_TREES: Final = 0.5  # of the time for strategies, for trees of several branchings
_LONGER: Final[dict[Effort, int]] = {"fast": 1, "normal": 12, "thorough": 140}  # about how long each takes


def judge(guarantee: Guarantee) -> Callable[[Plan], float]:
    """The error that plans are compared by: as drawn where noise is narrow, else as predicted."""
    return drawn_error if is_narrow(guarantee) else _predicted_error


def is_narrow(guarantee: Guarantee) -> bool:
    """Whether whole-number noise may be mostly 0, and hence below the prediction, in groups with much budget."""
    return isinstance(guarantee, PureDP) and guarantee.epsilon >= _NARROW * guarantee.rows_changed


def drawn_error(made: Plan) -> float:
    """The sum of all cell variances as drawn, each times the weight of its table."""
    weights = np.array(made.workload.weights) * np.array(made.workload.sizes)
    return float(weights @ drawn_table_variances(made))


def _predicted_error(made: Plan) -> float:
    return made.weighted_variance


def tree_in_time(workload: Workload, guarantee: Guarantee, options: PlanOptions) -> Plan | None:
    """The best tree that can be found in time; None without ranges, or if none can be used."""
    if not branchings(workload) or options.recovery != "optimal" or options.budgets == "uniform":
        return None
    count = int(_FOR_TREES * SECONDS[options.effort] / tree_seconds(workload))
    with suppress(PlanError):
        return best_tree(workload, guarantee, options, promising(workload, max(1, count)))
    return None


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
        part = 1 / len(axes)  # of the time
        plans = [
            search(options, frame, [], part, _part(progress, number, len(axes))) for number, frame in enumerate(axes)
        ]
        return min(plans, key=judge(guarantee))
    flat, part = Frame.unpadded(workload), 0.5 if options.effort == "fast" else 0.9
    plans = [
        search(replace(options, effort="fast"), flat, [], 0.5, silent),
        search(options, tree.frame, [tree], part, progress),
    ]
    best = min(plans, key=judge(guarantee))
    return replace(best, options=plans[-1].options)


def _part(progress: Progress, number: int, count: int) -> Progress:
    """The progress of one search out of several."""

    def told(stage: str, done: int, total: int | None) -> None:
        if total is None:
            progress(stage, done, None)
        else:
            progress(stage, number * total + done, count * total)

    return told


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
    stages = _Stages(progress, [_LONGER[effort] for effort in efforts])
    plans: list[Plan] = []
    for effort in efforts:
        if not stages.stopped:
            again = replace(options, effort=effort)
            known = [*plans[-1:], *also]
            try:
                plans.append(search_plan(workload, guarantee, again, frame, also=known, part=part, progress=stages))
            except Enough:
                if not known:
                    raise
                plans = plans or known
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
