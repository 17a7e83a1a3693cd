"""The best bundles that a search finds, as a plan (THEORY section 3 and what comes after it). Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final

from privcube.accuracy.structure import Structure, WorkloadIndex
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import QueryGroup, product_groups
from privcube.model.options import Effort, PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.slices import largest_scale, slice_rows
from privcube.model.workload import Workload
from privcube.planning.bundles import bundle_shares
from privcube.planning.search.annealing import ranked, searched
from privcube.planning.search.choices import Choices
from privcube.planning.search.large import bundlings
from privcube.planning.search.starts import starts
from privcube.planning.steps import DENOMINATOR
from privcube.progress import PLANNING, Enough, Progress, silent
from privcube.strategies import clusters

_COVERINGS: Final[dict[Effort, int]] = {"fast": 2, "normal": 16, "thorough": 48}
_BUNDLINGS: Final[dict[Effort, int]] = {"fast": 1, "normal": 4, "thorough": 8}  # of a workload too large to search
_MANY_TABLES: Final = 600  # greedy coverings of more take longer than a fast search
_MOST_SPOKEN: Final = 3_000_000  # groups times residuals that a search may hold
_LEAST_SHARE: Final = 1e-6


def bundled_plan(
    workload: Workload,
    guarantee: PureDP,
    options: PlanOptions,
    frame: Frame,
    *,
    also: Sequence[Plan] = (),
    progress: Progress = silent,
) -> Plan:
    """The best plan that a search in a frame finds; where there is too much to search, the best of a few bundlings.

    The search also starts from the groups and bundles of given plans in the same frame.
    """
    known_index = WorkloadIndex.of(workload, frame)
    if len(workload) * len(known_index.residuals) > _MOST_SPOKEN:
        return _best_of_few(workload, guarantee, options, frame, known_index, progress)
    choices = Choices(workload, frame, known_index)
    known = [
        [product_groups(made.groups[group] for group in bundle) for bundle in made.noised_together] for made in also
    ]
    if frame.kind == "natural":
        with suppress(PlanError):
            known.append([[union] for union in product_groups(clusters.propose(workload, guarantee).groups)])
    quick = options.effort == "fast" and len(workload) > _MANY_TABLES
    coverings = 0 if quick else _COVERINGS[options.effort]
    candidates = ranked(choices, starts(choices, workload, coverings, known))
    found = searched(choices, candidates, options.effort, progress)
    bundles = [[choices.group(choice) for choice in bundle] for bundle in found.bundles]
    return plan_of(workload, guarantee, options, frame, bundles)


def plan_of(
    workload: Workload,
    guarantee: PureDP,
    options: PlanOptions,
    frame: Frame,
    bundles: list[list[QueryGroup]],
    index: WorkloadIndex | None = None,
) -> Plan:
    """A plan with these bundles, budgets and recovery iterated; bundles that get next to nothing are left out."""
    while True:
        groups = tuple(group for bundle in bundles for group in bundle)
        structure = Structure.of(workload, frame, groups, index)
        ends = accumulate((len(bundle) for bundle in bundles), initial=0)
        together = tuple(tuple(range(start, end)) for start, end in pairwise(ends))
        shares, variances = bundle_shares(structure, guarantee, together)
        worth = [at for at, share in enumerate(shares.tolist()) if share > DENOMINATOR * _LEAST_SHARE]
        if len(worth) == len(bundles):
            break
        bundles = [bundles[at] for at in worth]
    made = Plan(
        workload=workload,
        guarantee=guarantee,
        options=replace(options, strategy="search", budgets="iterated"),
        frame=frame,
        groups=groups,
        shares=tuple(shares.tolist()),
        denominator=DENOMINATOR,
        table_variances=tuple(structure.table_variances(variances).tolist()),
        bundles=together if max(map(len, together)) > 1 else None,
    )
    _require_drawable(made)
    return made


def is_drawable(made: Plan) -> bool:
    """Whether the noise of all bundles is narrow enough to be drawn exactly."""
    try:
        _require_drawable(made)
    except PlanError:
        return False
    return True


def _best_of_few(
    workload: Workload,
    guarantee: PureDP,
    options: PlanOptions,
    frame: Frame,
    index: WorkloadIndex,
    progress: Progress,
) -> Plan:
    """The best of a few bundlings (`privcube.planning.search.large`), each worked out exactly."""
    progress(PLANNING, 0, None)
    candidates = bundlings(workload, guarantee, frame, index, _BUNDLINGS[options.effort])
    plans: list[Plan] = []
    with suppress(Enough):
        for number, bundles in enumerate(candidates):
            if plans:
                progress(PLANNING, number, len(candidates))
            with suppress(PlanError):
                plans.append(plan_of(workload, guarantee, options, frame, bundles, index))
    return min(plans, key=lambda made: made.weighted_variance)


def _require_drawable(made: Plan) -> None:
    """Refuse bundles whose noise is too wide to be drawn exactly; single groups have no such limit."""
    for bundle in made.bundles or ():
        if len(bundle) > 1:
            _, rows = slice_rows(made.frame, [made.groups[group] for group in bundle])
            if made.noise_scale(bundle[0]) > largest_scale(sum(rows)):
                raise PlanError(
                    "bundle",
                    expected=f"noise of a scale of at most {largest_scale(sum(rows)):,} for so many rows",
                    given=f"{float(made.noise_scale(bundle[0])):,.0f}; ask for more epsilon or another strategy",
                )
