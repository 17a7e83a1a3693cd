"""The best tree for ranges: hierarchies of every branching, Haar wavelets, and bundles of their levels. Zone: PUBLIC.

The paper's H has branching 2; with least squares and budgets per level, wider trees are better as a rule (Qardaji, Yang
and Li 2013). Leaves alone, a tree of one level, are the strategy "marginals".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from math import ceil

from privcube.errors import PlanError
from privcube.model.options import Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.model.workload import Workload
from privcube.planning.bundles import bundles_by_weight, with_bundles
from privcube.strategies import hierarchy, wavelet
from privcube.strategies.proposal import Proposal


def branchings(workload: Workload) -> list[int]:
    """From 2 to 16, and those that make trees of two to four levels; none without ranges.

    >>> from privcube.model.schema import Schema
    >>> branchings(Workload.ranges(Schema.from_sizes({"a": 6}), ["a"]))
    [2, 3, 4, 5]
    """
    cells = [workload.schema[name].cells for name in sorted(hierarchy.ranged(workload))]
    exact = {ceil(count ** (1 / levels) - 1e-9) for count in cells for levels in (2, 3, 4)}
    return sorted(each for each in {*range(2, 17), *exact} if 2 <= each < max(cells, default=0))


def tree_proposals(workload: Workload, guarantee: Guarantee) -> Iterator[tuple[Strategy, Proposal]]:
    """All trees that suit a workload of ranges, with the strategies they are of; a tree that is refused is left out."""
    widths = branchings(workload)
    for branching in widths:
        with suppress(PlanError):
            yield hierarchy.NAME, hierarchy.propose(workload, guarantee, branching)
    if widths:
        with suppress(PlanError):
            yield wavelet.NAME, wavelet.propose(workload, guarantee)


def best_tree(workload: Workload, guarantee: Guarantee, planned: Callable[[Strategy, Proposal], Plan]) -> Plan:
    """The plan of least weighted error among the trees; under a pure guarantee also with levels in bundles.

    `planned` makes a plan of what a strategy proposes, with optimal recovery where bundles are to be tried.
    """
    best: Plan | None = None
    for strategy, proposal in tree_proposals(workload, guarantee):
        single = planned(strategy, proposal)
        plans = [single]
        if isinstance(guarantee, PureDP) and single.sources is None and len(single.groups) > 1:
            plans.append(with_bundles(single, bundles_by_weight(single)))
        best = min([*plans, *([best] if best else [])], key=lambda each: each.weighted_variance)
    if best is None:
        raise PlanError("tree", expected="a table of ranges or prefixes")
    return best
