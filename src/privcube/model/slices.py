"""Slices: the cells that all groups of a bundle count, each with its own draw of noise. Zone: PUBLIC.

If every group of a bundle counts some attributes at some level or finer, then a record affects only rows below one cell
of that level, in every group. The rows below a cell are a slice of the bundle. Noise of density
exp(-sum over slices of max_g |z_g in the slice|_1 / scale) is an independent draw of max-norm noise for every slice. A
record moves one slice, by 1 in every group, so the total cost is that of a single draw for all rows (replacing a record
moves one slice by 2 or two slices by 1 each). And the noise is smaller: with s slices and m = s m' rows, n = s n' of
which belong to the group, a row has variance 2 (m'+1)(m'+2) / ((n'+1)(n'+2)) instead of 2 (m+1)(m+2) / ((n+1)(n+2)),
never more, since (x+1)(x+2) / ((s x+1)(s x+2)) falls as x grows and m' >= n'. For a single group of cells, every row is
a slice: Laplace noise. So bundles are always noised in as many slices as possible.

See THEORY section 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privcube.model.frame import Frame
from privcube.model.groups import BlockGroup, Group, MatrixGroup, SketchGroup, group_rows, product_groups

_MOST_WEIGHTS: Final = 2_000_000  # of the radius of max-norm noise: a draw visits about scale (60 + 22 sqrt(rows))

Slicing = tuple[tuple[int, int], ...]  # (axis, level) in the order of the axes, levels above 0


def shared_cells(groups: Sequence[Group]) -> Slicing:
    """The finest cells such that each row of every group lies in one; contrasts and Helmert rows need the level above.

    >>> from privcube.model.groups import GroupPart
    >>> shared_cells([(GroupPart(0, 2), GroupPart(1, 1)), (GroupPart(0, 3, "contrast"), GroupPart(2, 1))])
    ((0, 2),)
    """
    levels: dict[int, int] | None = None
    for group in groups:
        if isinstance(group, SketchGroup | MatrixGroup | BlockGroup):
            return ()
        own = {part.axis: part.level - (part.kind != "cells") for part in group}
        levels = own if levels is None else {axis: min(own[axis], levels[axis]) for axis in own.keys() & levels.keys()}
    return tuple(sorted((axis, level) for axis, level in (levels or {}).items() if level))


def slice_count(frame: Frame, slicing: Slicing) -> int:
    """How many slices there are."""
    return prod([frame.sizes[axis][level] for axis, level in slicing])


def slice_rows(frame: Frame, groups: Sequence[Group]) -> tuple[int, list[int]]:
    """How many slices a bundle of these groups has, and how many rows each group has in one."""
    count = slice_count(frame, shared_cells(groups))
    return count, [group_rows(frame, group) // count for group in groups]


def joined(frame: Frame, group: Group, slicing: Slicing, rows: NDArray[Any]) -> NDArray[Any]:
    """The rows of a group in order, from an array of shape (slices, rows per slice).

    >>> from privcube.model.groups import GroupPart
    >>> from privcube.model.schema import Schema
    >>> frame = Frame(Schema.from_sizes({"a": 2, "b": 3}), "natural")
    >>> joined(frame, (GroupPart(0, 1), GroupPart(1, 1)), ((1, 1),), np.arange(6).reshape(3, 2)).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    if not slicing:
        return rows.reshape(-1)
    (parts,) = product_groups([group])
    level_of = dict(slicing)
    above = [frame.sizes[part.axis][level_of.get(part.axis, 0)] for part in parts]
    below = [group_rows(frame, (part,)) // count for part, count in zip(parts, above, strict=True)]
    order = [axis for at in range(len(parts)) for axis in (at, len(parts) + at)]
    return np.ascontiguousarray(rows.reshape(*above, *below).transpose(order)).reshape(-1)


def largest_scale(rows: int) -> int:
    """The largest scale of max-norm noise on a given number of rows that can be drawn exactly in reasonable time.

    >>> largest_scale(100)
    6622
    """
    return _MOST_WEIGHTS // (60 + 22 * (isqrt(rows) + 1))
