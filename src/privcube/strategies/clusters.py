"""C: measure a few larger tables that cover the wanted ones, found by greedy merging (Ding et al. 2011). Zone: PUBLIC.

Every wanted table starts as its own cluster; measuring a cluster means measuring the union of its tables, from which
each is summed. With g clusters and uniform noise the predicted error is 2 (g/epsilon)^2 times the sum over clusters
of (weight of its tables) * (cells of its union). Any merge leads to the same g - 1, so the best one adds least to that
sum; merging continues as long as the error falls. The paper reports hours for this step on 16 attributes; here one
matrix holds the pairwise costs, with the minimum of every row, and a merge changes one row and one column of it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, cells_groups
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Workload
from privcube.strategies.proposal import Proposal

NAME: Final = "clusters"
SYMBOL: Final = "C"

MOST_TABLES: Final = 5_000  # the pairwise costs then take 200 MB


def propose(workload: Workload, guarantee: Guarantee, frame: Frame | None = None) -> Proposal:
    """S = the union tables of the clusters; R sums each table from its cluster."""
    if len(workload) > MOST_TABLES:
        raise PlanError("clusters", expected=f"at most {MOST_TABLES:,} tables to compare in pairs", given=len(workload))
    frame = Frame.natural(workload) if frame is None else frame
    levels = np.zeros((len(workload), len(frame.fan_outs)), dtype=np.int64)
    for number, group in enumerate(cells_groups(frame, workload)):
        for part in group:
            levels[number, part.axis] = part.level
    log_sizes = np.zeros((len(frame.fan_outs), max(map(len, frame.sizes))))
    for axis, sizes in enumerate(frame.sizes):
        log_sizes[axis, : len(sizes)] = np.log(sizes)
    unions, cluster_of = merged(levels, np.array(workload.weights), log_sizes)
    groups = [tuple(GroupPart(axis, int(level)) for axis, level in enumerate(union) if level) for union in unions]
    return Proposal(frame, tuple(groups), tuple((int(cluster),) for cluster in cluster_of))


def merged(levels: Integers, weights: Floats, log_sizes: Floats) -> tuple[Integers, Integers]:
    """Greedy merging of tables given as level vectors; returns the clusters' unions and each table's cluster."""
    unions, weight = levels.copy(), weights.astype(np.float64)
    cluster_of = np.arange(len(levels))
    axes = np.arange(levels.shape[1])

    def cells(rows: Integers) -> Floats:
        return np.asarray(np.exp(log_sizes[axes, rows].sum(axis=-1)))

    def increases(i: int, others: Integers) -> Floats:
        """How much merging cluster i with each of some others adds to the sum."""
        joint = cells(np.maximum(unions[i], unions[others]))
        return np.asarray((weight[i] + weight[others]) * joint - weight[i] * own[i] - weight[others] * own[others])

    own = cells(unions)
    alive = np.ones(len(levels), dtype=bool)
    cost = np.full((len(levels), len(levels)), np.inf)  # each pair once, the smaller index first
    for i in range(len(levels)):
        cost[i, i + 1 :] = increases(i, np.arange(i + 1, len(levels)))
    nearest = np.argmin(cost, axis=1)
    least = cost[np.arange(len(levels)), nearest]
    total = float(weight @ own)
    count = len(levels)
    while count > 1:
        i = int(np.argmin(least))
        j = int(nearest[i])
        if (count - 1) ** 2 * (total + cost[i, j]) >= count**2 * total:
            break
        total += float(cost[i, j])
        unions[i] = np.maximum(unions[i], unions[j])
        weight[i] += weight[j]
        own[i] = cells(unions[i])
        cluster_of[cluster_of == j] = i
        alive[j] = False
        cost[j, :] = cost[:, j] = np.inf
        fresh = np.full(len(levels), np.inf)
        fresh[alive] = increases(i, np.flatnonzero(alive))
        cost[i, i + 1 :] = fresh[i + 1 :]
        cost[:i, i] = fresh[:i]
        stale = np.flatnonzero((nearest == i) | (nearest == j)).tolist()
        closer = np.flatnonzero((fresh[:i] < least[:i]) | ((fresh[:i] == least[:i]) & (i < nearest[:i])))
        nearest[closer], least[closer] = i, fresh[closer]
        for row in (i, j, *stale):
            nearest[row] = np.argmin(cost[row])
            least[row] = cost[row, nearest[row]]
        count -= 1
    kept = np.flatnonzero(alive)
    return unions[kept], np.searchsorted(kept, cluster_of)
