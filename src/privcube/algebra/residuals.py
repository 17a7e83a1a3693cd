"""Residual transforms: split a table into what each level adds, axis by axis, and reassemble it. Zone: PUBLIC.

Along an axis with fan-outs (f_1, ..., f_m) the s_m counts of a table become s_m residual coordinates: first the total,
then for each level l = 1..m the amounts by which the cells of that level differ from an even share of their parent.
The differences of the f_l cells of one parent sum to zero, so the last is omitted: level l has s_l - s_(l-1)
coordinates, in counts of level l. Tables that agree have the same coordinates, whichever table they are computed
from; this is what lets recovery proceed residual by residual (THEORY section 2).

See THEORY sections 4 and 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from privcube.algebra.lattice import Floats, Integers


def level_slice(fan_outs: Sequence[int], level: int) -> slice:
    """The positions of a level's coordinates along a transformed axis.

    >>> level_slice((3, 2), 0), level_slice((3, 2), 1), level_slice((3, 2), 2)
    (slice(0, 1, None), slice(1, 3, None), slice(3, 6, None))
    """
    return slice(prod(fan_outs[: level - 1]) if level else 0, prod(fan_outs[:level]))


def real_shares(fan_outs: Sequence[int], positions: Sequence[int]) -> list[Floats]:
    """Even shares among the real cells; padded cells, and everything below them, get nothing.

    >>> [share.tolist() for share in real_shares((2, 2), [0, 1, 2])]
    [[[0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]]
    """
    leaves = prod(fan_outs)
    shares = []
    for level in range(1, len(fan_outs) + 1):
        exists = np.zeros(prod(fan_outs[:level]))
        exists[np.asarray(positions, dtype=np.int64) // (leaves // len(exists))] = 1.0
        blocks = exists.reshape(-1, fan_outs[level - 1])
        shares.append(blocks / np.maximum(blocks.sum(axis=1, keepdims=True), 1.0))
    return shares


def to_residuals(table: Floats, axis: int, fan_outs: Sequence[int], shares: Sequence[Floats] | None = None) -> Floats:
    """Turn counts along an axis into residual coordinates: differences from `shares` of the parent, even by default.

    >>> to_residuals(np.array([5.0, 1.0, 3.0]), 0, (3,)).tolist()
    [9.0, 2.0, -2.0]
    """
    moved = np.moveaxis(table, axis, -1)
    lead = moved.shape[:-1]
    out = np.empty(moved.shape)
    sums = moved
    for level in range(len(fan_outs), 0, -1):
        parents, fan_out = prod(fan_outs[: level - 1]), fan_outs[level - 1]
        blocks = sums.reshape(*lead, parents, fan_out)
        sums = blocks.sum(axis=-1)
        expected = sums[..., None] * shares[level - 1][:, :-1] if shares else (sums / fan_out)[..., None]
        differences = blocks[..., :-1] - expected
        out[..., level_slice(fan_outs, level)] = differences.reshape(*lead, parents * (fan_out - 1))
    out[..., :1] = sums
    return np.moveaxis(out, -1, axis)


def from_residuals(
    coordinates: Floats, axis: int, fan_outs: Sequence[int], shares: Sequence[Floats] | None = None
) -> Floats:
    """Turn residual coordinates along an axis back into counts.

    >>> from_residuals(np.array([9.0, 2.0, -2.0]), 0, (3,)).tolist()
    [5.0, 1.0, 3.0]
    """
    moved = np.moveaxis(coordinates, axis, -1)
    lead = moved.shape[:-1]
    counts = moved[..., :1]
    for level in range(1, len(fan_outs) + 1):
        parents, fan_out = prod(fan_outs[: level - 1]), fan_outs[level - 1]
        differences = moved[..., level_slice(fan_outs, level)].reshape(*lead, parents, fan_out - 1)
        cells = np.empty((*lead, parents, fan_out))
        cells[..., :-1] = differences
        cells[..., -1] = -differences.sum(axis=-1)
        cells += counts[..., None] * shares[level - 1] if shares else (counts / fan_out)[..., None]
        counts = cells.reshape(*lead, parents * fan_out)
    return np.moveaxis(counts, -1, axis)


@lru_cache(maxsize=256)
def helmert_rows(size: int) -> Integers:
    """The integer rows (1, ..., 1, -j, 0, ..., 0) for j = 1..size-1, as a read-only array.

    >>> helmert_rows(3).tolist()
    [[1, -1, 0], [1, 1, -2]]
    """
    rows = np.tril(np.ones((size, size), dtype=np.int64), -1) - np.diag(np.arange(size))
    rows.setflags(write=False)
    return rows[1:]


def helmert_to_residuals(answers: Floats, axis: int, fan_out: int) -> Floats:
    """Turn answers to the Helmert rows of every parent along an axis into residual coordinates of their level.

    The rows h_j are orthogonal with squared norm j (j+1): differences from even shares are sum_j y_j h_j / (j (j+1)).
    """
    rows = helmert_rows(fan_out)
    back = (rows / (rows**2).sum(axis=1, keepdims=True))[:, :-1]
    moved = np.moveaxis(answers, axis, -1)
    blocks = moved.reshape(*moved.shape[:-1], -1, fan_out - 1)
    return np.moveaxis((blocks @ back).reshape(moved.shape), -1, axis)


@lru_cache(maxsize=256)
def square_rows(size: int) -> Integers:
    """The entrywise products of Helmert rows j <= k, in lexicographic order, as a read-only array.

    For j < k the product is row j itself, as row k is 1 wherever row j is not 0.

    >>> square_rows(3).tolist()
    [[1, 1, 0], [1, -1, 0], [1, 1, 4]]
    """
    rows = helmert_rows(size)
    first, second = np.triu_indices(size - 1)
    products = rows[first] * rows[second]
    products.setflags(write=False)
    return products


def squares_to_cells(answers: Floats, axis: int, fan_out: int) -> Floats:
    """The least-squares counts of the children of every parent along an axis, from products of Helmert rows.

    Row i has noise of its weight w_i (`groups.row_weights`). Then sum_i row_i row_i' / w_i is 1/2 (1 - 1/f)^2 on the
    diagonal and 1 / (2 f^2) elsewhere: (f - 1) / (2 f) on equal counts, (1 - 2/f) / 2 on differences between children.
    """
    rows = square_rows(fan_out).astype(np.float64)
    norms = np.arange(1.0, fan_out) * np.arange(2.0, fan_out + 1)
    first, second = np.triu_indices(fan_out - 1)
    weights = norms[first] * norms[second] * (1 + (first == second))
    sums = (rows / weights[:, None]).T  # what a row says of each child
    mean = np.broadcast_to(sums.mean(axis=0), sums.shape)
    back = mean * 2 * fan_out / (fan_out - 1)
    if fan_out > 2:
        back = back + (sums - mean) * 2 / (1 - 2 / fan_out)
    moved = np.moveaxis(answers, axis, -1)
    blocks = moved.reshape(*moved.shape[:-1], -1, len(rows)) @ back.T
    return np.moveaxis(blocks.reshape(*moved.shape[:-1], -1), -1, axis)
