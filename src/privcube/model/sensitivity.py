"""How far a neighboring change moves the answers of a group, and the noise that hides it. Zone: PUBLIC.

Formal guarantee. A group of cells or contrasts has rows of entries 0, +1, -1 with disjoint supports, so one record
moves its answers by 1 in L1 and in L2. With at most c rows per person, a neighboring change moves a group by at most
  L1: c (add_remove) or 2c (replace_one);
  L2 squared: c^2 (add_remove); 2c^2 (replace_one, cells); 4c^2 (replace_one, contrasts: both ends may share a row).
Helmert rows overlap. They are for Gaussian noise only, and their L2 is that of the orthonormal rows they are equivalent
to. A matrix group moves by c times its largest column, or difference of columns (`groups.MatrixGroup`), and so do the
columns of all blocks of a block group together (`privcube.model.matrices.block_price`).

Pure: Laplace noise of scale L1 / (epsilon share) on a group costs epsilon times share. So does max-norm noise of that
scale on a whole bundle of groups, since the largest of their L1 norms moves by at most the largest L1, and so does a
separate draw of it for every slice of the bundle (`privcube.model.slices`). Gaussian: variance L2^2 / (2 rho share)
costs rho times share.

See THEORY section 1.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import BlockGroup, Group, MatrixGroup, QueryGroup, SketchGroup
from privcube.model.matrices.block_price import squared_move
from privcube.model.privacy.guarantee import Guarantee, Neighbors, PureDP
from privcube.model.slices import slice_rows


def bundle_factors(frame: Frame, groups: Sequence[Group]) -> list[Fraction]:
    """For each group of a bundle, the variance of its rows relative to Laplace noise of the same scale."""
    if len(groups) == 1:
        return [Fraction(1)]
    _, rows = slice_rows(frame, groups)
    product = (sum(rows) + 1) * (sum(rows) + 2)
    factors = {own: Fraction(product, (own + 1) * (own + 2)) for own in set(rows)}
    return [factors[own] for own in rows]


def largest_l1(guarantee: Guarantee, group: Group) -> int:
    """How far a neighboring change moves the answers of a group, in L1."""
    if isinstance(group, MatrixGroup):
        return guarantee.max_rows_per_person * group.largest_l1(guarantee.neighbors)
    if isinstance(group, BlockGroup):
        raise PlanError("group", expected="Gaussian noise for blocks")
    return guarantee.rows_changed


def squared_l2(guarantee: Guarantee, frame: Frame, group: Group) -> Fraction:
    """How far a neighboring change moves the answers of a group, in L2 squared.

    Helmert rows count as the orthonormal rows they are equivalent to. A record moves them by the product P of (1 - 1/f)
    over the axes; replacing it by another moves them by 2 P - 2 (product of the projector's entries), where an entry is
    1 - 1/f for the same child, -1/f for another child of the same parent, and 0 otherwise. This is largest if the two
    records differ on only one axis.
    """
    if isinstance(group, MatrixGroup):
        return Fraction(guarantee.max_rows_per_person**2 * group.largest_l2(guarantee.neighbors))
    if isinstance(group, BlockGroup):
        return guarantee.max_rows_per_person**2 * squared_move(frame.schema, group, guarantee.neighbors)
    shape = (0,) if isinstance(group, SketchGroup) else _shape(frame, group)
    return _squared_l2(guarantee.neighbors, guarantee.max_rows_per_person, shape)


def _shape(frame: Frame, group: QueryGroup) -> tuple[int, ...]:
    """The fan-outs of a group's Helmert parts, and 0 for contrasts."""
    return tuple([
        frame.fan_outs[axis][level - 1] if kind == "helmert" else 0 for axis, level, kind in group if kind != "cells"
    ])  # fmt: skip


@lru_cache(maxsize=4096)
def _squared_l2(neighbors: Neighbors, rows: int, shape: tuple[int, ...]) -> Fraction:
    kept = [Fraction(fan_out - 1, fan_out) for fan_out in shape if fan_out]
    if kept:
        if len(kept) < len(shape):
            raise PlanError("group", expected="Helmert rows without contrasts")
        own = math.prod(kept, start=Fraction(1))
        if neighbors == "add_remove":
            return rows**2 * own
        largest = max((own / share * (1 - share) for share in kept if share), default=Fraction(0))
        return rows**2 * (2 * own + 2 * largest)
    if neighbors == "add_remove":
        return Fraction(rows**2)
    return Fraction((4 if shape else 2) * rows**2)


def squared_l2_of_all(guarantee: Guarantee, frame: Frame, groups: Sequence[Group]) -> NDArray[np.float64]:
    """How far a neighboring change moves each of many groups, in L2 squared, as floats."""
    neighbors, rows = guarantee.neighbors, guarantee.max_rows_per_person
    known: dict[tuple[int, ...], float] = {}
    found = []
    for group in groups:
        if isinstance(group, SketchGroup | MatrixGroup | BlockGroup):
            found.append(float(squared_l2(guarantee, frame, group)))
            continue
        shape = _shape(frame, group)
        if shape not in known:
            known[shape] = float(_squared_l2(neighbors, rows, shape))
        found.append(known[shape])
    return np.array(found)


def noise_variances(
    guarantee: Guarantee,
    frame: Frame,
    groups: Sequence[Group],
    shares: ArrayLike,
    denominator: int,
    moved: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The noise variances of groups with these shares of the budget, as floats; `Plan.noise_variance` is exact.

    `moved` is `squared_l2_of_all`, if already known.
    """
    part = np.asarray(shares, dtype=np.float64) / denominator
    if isinstance(guarantee, PureDP):
        far = np.array([largest_l1(guarantee, group) for group in groups], dtype=np.float64)
        return np.asarray(2 * (far / (float(guarantee.epsilon) * part)) ** 2)
    if moved is None:
        moved = squared_l2_of_all(guarantee, frame, groups)
    return np.asarray(float(guarantee.unit_noise) * moved / part)
