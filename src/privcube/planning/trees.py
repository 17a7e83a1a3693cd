"""The best tree for ranges: hierarchies of many branchings, Haar wavelets, and bundles of their levels. Zone: PUBLIC.

The paper's H has branching 2; with least squares and budgets per level, wider trees are usually better (Qardaji, Yang
and Li 2013). A tree of one level, the leaves alone, is the strategy "marginals".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import ceil, log, prod

import numpy as np

from privcube.accuracy.structure import Structure
from privcube.errors import PlanError
from privcube.model.groups import group_rows, product_groups
from privcube.model.options import PlanOptions, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Workload
from privcube.planning.steps import at_best, plan_of, with_bundles
from privcube.strategies import hierarchy, wavelet
from privcube.strategies.proposal import Proposal


def branchings(workload: Workload) -> list[int]:
    """The branchings to try: 2 to 16, and those that give trees of two to four levels; none without ranges.

    >>> from privcube.model.schema import Schema
    >>> branchings(Workload.ranges(Schema.from_sizes({"a": 6}), ["a"]))
    [2, 3, 4, 5]
    """
    cells = [workload.schema[name].cells for name in sorted(hierarchy.ranged(workload))]
    exact = {ceil(count ** (1 / levels) - 1e-9) for count in cells for levels in (2, 3, 4)}
    return sorted(each for each in {*range(2, 17), *exact} if 2 <= each < max(cells, default=0))


def best_tree(
    workload: Workload, guarantee: Guarantee, options: PlanOptions, widths: Sequence[int] | None = None
) -> Plan:
    """The plan of least weighted error among all trees; under a pure guarantee, levels are also bundled.

    `widths` are the branchings to try, all by default; with one of them there is no time for wavelets.
    """
    plans: list[Plan] = []
    for strategy, proposal in _trees(workload, guarantee, branchings(workload) if widths is None else widths):
        try:
            single = plan_of(workload, guarantee, at_best(options, strategy), proposal)
        except PlanError:  # too much padding, for instance: another branching may have less
            continue
        plans.append(single)
        if isinstance(guarantee, PureDP) and single.sources is None and len(single.groups) > 1:
            with suppress(PlanError):  # raised if noise is too wide to be drawn
                plans.append(with_bundles(single, bundles_by_weight(single)))
    if not plans:
        raise PlanError("tree", expected="a table of ranges or prefixes")
    return min(plans, key=lambda made: made.weighted_variance)


def promising(workload: Workload, count: int) -> list[int]:
    """The given number of branchings that are tried first: 2, then those that pad least.

    >>> from privcube.model.schema import Schema
    >>> promising(Workload.ranges(Schema.from_sizes({"a": 1000}), ["a"]), 3)
    [2, 10, 4]
    """
    cells = [workload.schema[name].cells for name in sorted(hierarchy.ranged(workload))]

    def padding(width: int) -> tuple[bool, float]:
        padded = [width ** max(1, ceil(log(count) / log(width) - 1e-9)) / count for count in cells]
        return width > 2, prod(padded)

    return sorted(branchings(workload), key=padding)[:count]


def has_wavelets(widths: Sequence[int]) -> bool:
    """Whether wavelets are among the trees of these branchings: with one of them there is no time for these."""
    return len(widths) > 1


def _trees(workload: Workload, guarantee: Guarantee, widths: Sequence[int]) -> Iterator[tuple[Strategy, Proposal]]:
    """Trees of these branchings for a workload of ranges, each with its strategy; refused ones are skipped."""
    for branching in widths:
        with suppress(PlanError):
            yield hierarchy.NAME, hierarchy.propose(workload, guarantee, branching)
    if has_wavelets(widths):
        with suppress(PlanError):
            yield wavelet.NAME, wavelet.propose(workload, guarantee)


def bundles_by_weight(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """The best bundles of groups that are adjacent when sorted by weight, by dynamic programming.

    Groups of the same weight and number of rows stay together; runs of such classes are merged to minimize the sum over
    bundles of (sum of c_g K_g)^(1/3), the cube root of the predicted error.
    """
    structure = Structure.of(plan.workload, plan.frame, product_groups(plan.groups))
    weights = structure.group_coefficients(np.ones(len(plan.groups)))
    rows = np.array([group_rows(plan.frame, group) for group in plan.groups], dtype=np.float64)
    classes: defaultdict[tuple[float, float], list[int]] = defaultdict(list)
    for group, (weight, count) in enumerate(zip(weights.tolist(), rows.tolist(), strict=True)):
        classes[float(f"{weight:.6e}"), count].append(group)
    ordered = [classes[key] for key in sorted(classes)]
    # A bundle from class i to class j has m rows and c K = 2 (m+1)(m+2) sum of c_g / ((n_g+1)(n_g+2)).
    part = [float(np.sum(weights[c] / ((rows[c] + 1) * (rows[c] + 2)))) for c in ordered]
    total = np.concatenate([[0.0], np.cumsum(part)])
    count = np.concatenate([[0.0], np.cumsum([rows[c].sum() for c in ordered])])
    best, cut = [0.0], [0]
    for stop in range(1, len(ordered) + 1):
        m = count[stop] - count[:stop]
        cost = np.array(best) + np.cbrt(2 * (m + 1) * (m + 2) * (total[stop] - total[:stop]))
        if len(ordered[stop - 1]) == 1:  # a bundle of a single group has Laplace noise
            cost[-1] = best[-1] + np.cbrt(2 * weights[ordered[stop - 1][0]])
        cut.append(int(np.argmin(cost)))
        best.append(float(cost.min()))
    bundles: list[tuple[int, ...]] = []
    stop = len(ordered)
    while stop:
        bundles.append(tuple(group for each in ordered[cut[stop] : stop] for group in each))
        stop = cut[stop]
    return tuple(reversed(bundles))
