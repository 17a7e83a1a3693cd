"""Ranges, prefixes and groups of cells on a chain: their energy at each level, and the nodes of ranges. Zone: PUBLIC.

See THEORY sections 2 and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.model.workload import Queries


def bounds(queries: Queries, cells: int) -> tuple[Integers, Integers]:
    """The first cell of every query and the cell after its last; prefixes by end, ranges by first cell, then by end.

    >>> [ends.tolist() for ends in bounds("ranges", 2)]
    [[0, 0, 1], [1, 2, 2]]
    """
    if queries == "prefixes":
        return np.zeros(cells, dtype=np.int64), np.arange(1, cells + 1)
    first, last = np.triu_indices(cells)
    return first.astype(np.int64), last.astype(np.int64) + 1


def gram(queries: Queries, cells: int) -> Floats:
    """Q'Q of all prefixes or all ranges over the given number of ordered cells.

    >>> gram("prefixes", 3).tolist()
    [[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]]
    """
    place = np.arange(cells)
    earlier, later = np.minimum.outer(place, place), np.maximum.outer(place, place)
    both = (cells - later) if queries == "prefixes" else (earlier + 1) * (cells - later)
    return both.astype(np.float64)


def energies(queries: Queries, sizes: Sequence[int], positions: Sequence[int]) -> tuple[float, ...]:
    """For every level l of a chain, the mean of |Pi_l q|^2 over the queries q, divided by the number of leaves.

    `positions` are the leaves of the ordered cells; |P_l q|^2 is the sum over the blocks of level l of the squared
    block sums divided by the block length, and Pi_l = P_l - P_(l-1).
    """
    cells, leaves = len(positions), sizes[-1]
    products = gram(queries, cells)
    queries_in_all = cells if queries == "prefixes" else cells * (cells + 1) // 2
    kept = []
    for size in sizes:
        block = np.asarray(positions) // (leaves // size)
        total = float(products[block[:, None] == block].sum())
        kept.append(total * size / leaves**2 / queries_in_all)
    return tuple(float(energy) for energy in np.diff([0.0, *kept]))


def group_energies(sizes: Sequence[int], group_of: Integers) -> Floats:
    """|Pi_l q|^2 for every group q of the leaves of a chain and every level l.

    |P_l q|^2 is the sum over the blocks of level l of the squared number of leaves of q in them, divided by the length.

    >>> group_energies((1, 4), np.array([0, 0, 0, 1])).tolist()  # 3^2 / 4 and 1^2 / 4; in all, 3 and 1
    [[2.25, 0.75], [0.25, 0.75]]
    """
    leaves, groups = sizes[-1], int(group_of.max()) + 1
    kept = np.zeros((groups, len(sizes)))
    for level, size in enumerate(sizes):
        block = np.arange(leaves) // (leaves // size)
        pairs, inside = np.unique(block * groups + group_of, return_counts=True)
        np.add.at(kept[:, level], pairs % groups, inside.astype(np.float64) ** 2 * size / leaves)
    return np.diff(kept, axis=1, prepend=0)


def nodes(
    queries: Queries, cells: int, sizes: Sequence[int], levels: Sequence[int]
) -> dict[int, list[tuple[Integers, Integers, Integers]]]:
    """The fewest nodes of the given levels of a tree that add up to each query, from the leaves upward.

    Per level, (query, first node, node after the last) for the stretch to the left and to the right. `levels` must
    include the leaves; with all levels this is the greedy decomposition of a range into nodes of a tree.
    """
    first, last = bounds(queries, cells)
    used: dict[int, list[tuple[Integers, Integers, Integers]]] = {}
    descending = sorted(levels, reverse=True)
    for level, coarser in zip(descending, [*descending[1:], None], strict=True):
        step = sizes[level] // sizes[coarser] if coarser is not None else 1
        if coarser is None:
            left, right = last, last
        else:
            left = np.minimum(-(-first // step) * step, last)
            right = np.maximum(last // step * step, left)
        used[level] = [
            (hit, start[hit], stop[hit])
            for start, stop in ((first, left), (right, last))
            for hit in [np.flatnonzero(stop > start)]
        ]
        first, last = left // step, right // step
    return used


def node_counts(queries: Queries, cells: int, sizes: Sequence[int], levels: Sequence[int]) -> dict[int, Integers]:
    """For each level, how many of its nodes every query uses.

    >>> {level: counts.tolist() for level, counts in node_counts("prefixes", 4, (1, 2, 4), (0, 1, 2)).items()}
    {2: [1, 0, 1, 0], 1: [0, 1, 1, 0], 0: [0, 0, 0, 1]}
    """
    in_all = cells if queries == "prefixes" else cells * (cells + 1) // 2
    counts = {}
    for level, stretches in nodes(queries, cells, sizes, levels).items():
        counts[level] = np.zeros(in_all, dtype=np.int64)
        for query, start, stop in stretches:
            counts[level][query] += stop - start
    return counts
