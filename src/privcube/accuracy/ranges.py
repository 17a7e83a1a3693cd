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
    if np.array_equal(positions, np.arange(cells)):
        found = chain_energies(queries, cells, leaves, sizes) / leaves
        return tuple(found.tolist())
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


def chain_energies(queries: Queries, cells: int, real: int, sizes: Sequence[int]) -> Floats:
    """For every level l of a tree, the mean of |Pi_l q|^2 over the published queries q of the first `cells` leaves.

    The first `real` leaves are values. The others are padding, and what is found there is published as part of all
    values, evenly: with weights u = 1/real. With G = Q'Q, a block of leaves that is all values adds the sum of G over
    it, one of padding alone its squared width times u'Gu, and the one with both z'Gz, z its values plus its padding
    times u. All of it takes time in proportion to the leaves, per level.

    >>> chain_energies("prefixes", 3, 3, (1, 2, 4)).round(4).tolist()
    [2.0741, 0.1852, 0.2593]
    """
    leaves = sizes[-1]
    asked = real if queries == "cells" else cells
    in_all = cells * (cells + 1) // 2 if queries == "ranges" else asked
    even = np.full(real, 1 / real)

    def energy(weights: Floats) -> float:
        return float(weights[:asked] @ gram_times(queries, weights[:asked]))

    kept = []
    for size in sizes:
        width = leaves // size
        values = real // width * width
        total = _block_sums(queries, min(asked, values), asked, width) / width
        if real % width:
            both = even * (width - real % width)
            both[values:] += 1
            total += energy(both) / width
        total += (leaves - -(-real // width) * width) * energy(even)
        kept.append(total / in_all)
    return np.diff(np.array(kept), prepend=0.0)


def gram_times(queries: Queries, weights: Floats) -> Floats:
    """Q'Q times weights on the ordered cells, along the last axis, without forming Q'Q; for "cells", the weights.

    >>> gram_times("prefixes", np.array([1.0, 0.0, 2.0])).tolist()
    [5.0, 4.0, 3.0]
    """
    cells = weights.shape[-1]
    if queries == "cells":
        return weights
    after = np.arange(cells, 0, -1.0)  # cells - i
    before = np.arange(1.0, cells + 1) if queries == "ranges" else np.ones(cells)
    up_to, so_far = np.cumsum(before * weights, axis=-1), np.cumsum(after * weights, axis=-1)
    up_to *= after
    beyond = so_far[..., -1:] - so_far
    beyond *= before
    up_to += beyond
    return np.asarray(up_to)


def _block_sums(queries: Queries, first: int, cells: int, width: int) -> float:
    """The sum of the entries of Q'Q of all cells within blocks of this width, over the first cells."""
    if queries == "cells":
        return float(first)
    place = np.arange(first)
    after = (cells - place).astype(np.float64)
    before = place + 1.0 if queries == "ranges" else np.ones(first)
    running = np.concatenate([[0.0], np.cumsum(before)])
    earlier = running[place] - running[place // width * width]  # of the cells before this one in its block
    return float(np.sum(after * (before + 2 * earlier)))


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


def mean_node_counts(queries: Queries, cells: int, sizes: Sequence[int], levels: Sequence[int]) -> dict[int, float]:
    """For each level, how many of its nodes a query uses in the mean, without listing the queries.

    A level that has a coarser one, of nodes s times as wide, gets of a range from a to b (exclusive) the nodes from a
    up to the next multiple of s, and those from the last multiple of s up to b, or all if none lies between.
    The coarser level gets the rest. How many queries come to start at a node and how many to end at one are independent
    of each other, as any that start before they end are queries; so sums over starts and ends are enough.

    >>> mean_node_counts("prefixes", 4, (1, 2, 4), (0, 1, 2))
    {2: 0.5, 1: 0.5, 0: 0.25}
    """
    starts: Floats = np.zeros(cells + 1) if queries == "prefixes" else np.ones(cells + 1)
    starts[0], starts[-1] = 1.0, 0.0
    ends: Floats = np.ones(cells + 1)
    ends[0] = 0.0
    in_all = cells if queries == "prefixes" else cells * (cells + 1) // 2
    descending = sorted(levels, reverse=True)
    found = {}
    for level, coarser in zip(descending, [*descending[1:], None], strict=True):
        place = np.arange(len(starts))
        if coarser is None:
            before, moments = np.cumsum(starts), np.cumsum(starts * place)
            found[level] = float(np.sum(ends[1:] * (place[1:] * before[:-1] - moments[:-1]))) / in_all
            break
        step = sizes[level] // sizes[coarser]
        up = -(-place // step) * step
        beyond = np.minimum(np.maximum(up, place + 1), len(place))  # the first end behind the next multiple
        count, parts, sums = (_suffix(ends * each) for each in (np.ones(len(place)), place % step, place))
        within = (sums[place + 1] - sums[beyond]) - place * (count[place + 1] - count[beyond])
        per_start = (up - place) * count[beyond] + parts[beyond] + within
        found[level] = float(np.sum(starts * per_start)) / in_all
        nodes_above = -(-(len(place) - 1) // step) + 1
        starts = np.bincount(up // step, starts, minlength=nodes_above).astype(np.float64)
        ends = np.bincount(place // step, ends, minlength=nodes_above).astype(np.float64)
    return found


def _suffix(values: Floats) -> Floats:
    """The sums of all values from each place on, and 0 beyond the last."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)
