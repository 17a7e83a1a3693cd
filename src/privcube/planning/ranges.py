"""Range and prefix queries on a chain: how strongly they ask about each level. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.model.workload import Queries


def gram(queries: Queries, cells: int) -> Floats:
    """Q'Q of all prefixes or all ranges over so many cells in order.

    >>> gram("prefixes", 3).tolist()
    [[3.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]]
    """
    place = np.arange(cells)
    earlier, later = np.minimum.outer(place, place), np.maximum.outer(place, place)
    both = (cells - later) if queries == "prefixes" else (earlier + 1) * (cells - later)
    return both.astype(np.float64)


def energies(queries: Queries, sizes: Sequence[int], positions: Sequence[int]) -> tuple[float, ...]:
    """The mean of |Pi_l q|^2 over the queries q for every level l of a chain, divided by its leaves.

    `positions` are the leaves that the ordered cells occupy; |P_l q|^2 is the sum over the blocks of level l of the
    squared block sums, over the block length, and Pi_l = P_l - P_(l-1).
    """
    cells, leaves = len(positions), sizes[-1]
    products = gram(queries, cells)
    queries_in_all = cells if queries == "prefixes" else cells * (cells + 1) // 2
    kept = []
    for size in sizes:
        block = np.asarray(positions) // (leaves // size)
        same = block[:, None] == block[None, :]
        kept.append(float(products[same].sum()) * size / leaves**2 / queries_in_all)
    return tuple(float(energy) for energy in np.diff([0.0, *kept]))
