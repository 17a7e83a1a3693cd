"""Few blocks of attributes that contain all wanted tables, each with few cells. Zone: RELEASED.

Whatever is done to all tables is done block by block: counting the records, and looking up a function of them. So the
fewer blocks the better, as long as the cells of a block stay in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

Places = tuple[int, ...]

_MOST_CELLS: Final = 4096  # of a block, unless a single table has more: empirically a good size
_NEARLY: Final = 1e-3  # what a table counts that lacks two attributes, next to one that lacks one


def cover(sizes: Sequence[int], tables: Sequence[Places], columns: Sequence[int] | None = None) -> list[Places]:
    """Blocks that contain all tables; from each table not yet contained, grow one by what completes most others.

    No block has two that are of one column of the records.

    >>> cover([2, 3, 300], [(0, 1), (0, 2), (1, 2)])
    [(0, 1, 2)]
    """
    if not sizes:  # the total alone
        return [()]
    wanted = sorted({frozenset(table) for table in tables}, key=lambda table: (-len(table), sorted(table)))
    inside = np.zeros((len(wanted), len(sizes)))
    for row, table in enumerate(wanted):
        inside[row, list(table)] = 1.0
    column = np.arange(len(sizes)) if columns is None else np.asarray(columns)
    lengths, logs = inside.sum(axis=1), np.log(np.maximum(np.asarray(sizes, dtype=np.float64), 1.5))
    blocks: list[Places] = []
    while len(inside):
        block = inside[0].astype(bool)
        covered = inside @ block
        while True:
            missing = lengths - covered
            gain = (missing == 1).astype(float) @ inside + _NEARLY * ((missing == 2).astype(float) @ inside)
            room = np.log(_MOST_CELLS) + 1e-9 - logs[block].sum()
            gain = np.where(np.isin(column, column[block]) | (logs > room), 0.0, gain / logs)
            best = int(gain.argmax())
            if gain[best] <= 0:
                break
            block[best] = True
            covered += inside[:, best]
        left = covered < lengths
        inside, lengths = inside[left], lengths[left]
        blocks.append(tuple(np.flatnonzero(block).tolist()))
    return blocks
