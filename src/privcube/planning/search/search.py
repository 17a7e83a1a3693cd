"""The best groups and bundles that a search finds, as a plan (THEORY section 3.2). Zone: PUBLIC.

`starts` proposes plans that are good for some workloads, `annealing` changes them step by step, and `exchange` rebuilds
bundles of the best one. All three judge plans by the data-independent closed form of `closed_form`. If a workload is
too large for that, the best of a few bundlings is used (`large`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from privcube.accuracy.structure import WorkloadIndex
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import QueryGroup, product_groups
from privcube.model.options import Effort, PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.workload import Workload
from privcube.planning.search.annealing import annealed, ranked, seconds_of
from privcube.planning.search.closed_form import Choices
from privcube.planning.search.large import bundlings
from privcube.planning.search.starts import starts
from privcube.planning.search.template import is_small, template
from privcube.planning.steps import plan_of
from privcube.progress import PLANNING, Enough, Progress, silent
from privcube.strategies import clusters
from privcube.strategies.proposal import Proposal

_COVERINGS: Final[dict[Effort, int]] = {"fast": 2, "normal": 16, "thorough": 48}  # greedy starts, as time allows
_BUNDLINGS: Final[dict[Effort, int]] = {"fast": 1, "normal": 4, "thorough": 8}  # for workloads too large to search
_TEMPLATE: Final = 0.35  # time for the template, as a part of the time of a run
_MANY_TABLES: Final = 600  # greedy coverings of more take longer than a fast search
_MOST_SPOKEN: Final = 3_000_000  # tables times residuals: limits the size of the arrays of a search


def search_plan(
    workload: Workload,
    guarantee: PureDP,
    options: PlanOptions,
    frame: Frame,
    *,
    also: Sequence[Plan] = (),
    progress: Progress = silent,
) -> Plan:
    """The best plan that a search in a frame finds; `also` are plans in that frame to start from as well."""
    index = WorkloadIndex.of(workload, frame)
    options = replace(options, strategy="search", budgets="iterated")
    if len(workload) * len(index.residuals) > _MOST_SPOKEN:
        return _best_of_few(workload, guarantee, options, frame, index, progress)
    choices = Choices(workload, frame, index)
    quick = options.effort == "fast" and len(workload) > _MANY_TABLES
    coverings = 0 if quick else _COVERINGS[options.effort]
    known = [_bundles_of(made) for made in also] + _clusters(workload, guarantee, frame)
    known += template(choices, _TEMPLATE * seconds_of(options.effort))
    found = annealed(choices, ranked(choices, starts(choices, workload, coverings, known)), options.effort, progress)
    bundles = [[choices.group(choice) for choice in bundle] for bundle in found.bundles]
    return plan_of(workload, guarantee, options, Proposal.of_bundles(frame, bundles, index))


def _bundles_of(made: Plan) -> list[list[QueryGroup]]:
    return [product_groups(made.groups[group] for group in bundle) for bundle in made.noised_together]


def _clusters(workload: Workload, guarantee: PureDP, frame: Frame) -> list[list[list[QueryGroup]]]:
    """The paper's clusters, one bundle each, if the frame is natural and the workload is not too large."""
    if frame.kind == "natural":
        with suppress(PlanError):
            return [[[union] for union in product_groups(clusters.propose(workload, guarantee).groups)]]
    return []


def _best_of_few(
    workload: Workload,
    guarantee: PureDP,
    options: PlanOptions,
    frame: Frame,
    index: WorkloadIndex,
    progress: Progress,
) -> Plan:
    """The best of a few bundlings and, for few attributes, the template; each is evaluated exactly."""
    progress(PLANNING, 0, None)
    candidates = bundlings(workload, guarantee, frame, index, _BUNDLINGS[options.effort])
    if is_small(frame):
        candidates += template(Choices(workload, frame, index), _TEMPLATE * seconds_of(options.effort))
    plans: list[Plan] = []
    with suppress(Enough):
        for number, bundles in enumerate(candidates):
            if plans:
                progress(PLANNING, number, len(candidates))
            with suppress(PlanError):
                plans.append(plan_of(workload, guarantee, options, Proposal.of_bundles(frame, bundles, index)))
    return min(plans, key=lambda made: made.weighted_variance)
