"""The weights that optimal recovery gives to the rows of groups, and the energies of published numbers. Zone: PUBLIC.

A published number q is answered by sum_g r_g . z_g with r_g = S_g C q / v_g (`privcube.accuracy.error_bars`). What is
worked out here are the r_g of one group from C q, before they are divided by v_g.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privcube.accuracy.layout import recovered_table
from privcube.accuracy.published import groups_in_place, padded_cells, published_rows
from privcube.accuracy.ranges import group_energies
from privcube.algebra.lattice import Floats
from privcube.algebra.residuals import helmert_rows, square_rows
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup, cells_groups, square_weights
from privcube.model.groups import row_weights as noise_weights
from privcube.model.workload import Axis


def row_norms(frame: Frame, footprint: QueryGroup, inside: Sequence[GroupPart]) -> Floats:
    """The norm of every Helmert row of a group, by which `row_weights` divides; 1 for all other rows.

    It is 1, too, for a group that tells only about finer levels than the table has, and so nothing about it.
    """
    part_of = {part.axis: part for part in inside}
    norms = np.ones((1,) * len(footprint))
    if any(
        part_of[axis].level > level and part_of[axis].kind != "cells" for axis, level, _ in footprint if axis in part_of
    ):
        return norms
    for at, (axis, level, _) in enumerate(footprint):
        part = part_of.get(axis, GroupPart(axis, 0))
        if part.kind in ("helmert", "squares") and part.level <= level:
            own = np.sqrt(noise_weights(frame, (part,)))
            norms = norms * own.reshape([-1 if axis_at == at else 1 for axis_at in range(len(footprint))])
    return norms


def squares_in_slices(
    frame: Frame, footprint: QueryGroup, weights: tuple[Floats, int], level_of: dict[int, int]
) -> Floats:
    """The sums of r^2 over rows in the same slice; slices that the table cannot distinguish are combined."""
    rows, repeats = weights
    squares = rows**2 * repeats
    for at, (axis, level, _) in enumerate(footprint):
        kept = frame.sizes[axis][min(level_of.get(axis, 0), level)]
        squares = squares.reshape(*squares.shape[:at], kept, -1, *squares.shape[at + 1 :]).sum(axis=at + 1)
    return np.asarray(squares.reshape(-1))


def row_weights(
    frame: Frame, footprint: QueryGroup, smoothed: Floats, inside: Sequence[GroupPart], told: Sequence[int]
) -> tuple[Floats, int]:
    """The recovery weights r of the rows of a group, and how many rows share each weight.

    Cells of a table are averaged over axes that the group lacks, summed to the group's level on axes it has, and
    repeated for all their children where the group is finer; contrast and Helmert rows are differences of these sums.
    If another group tells the sums of some cells, the levels of which are `told`, the weights sum to 0 in each of them.
    """
    part_of = {part.axis: part for part in inside}
    answers, repeats = smoothed, 1
    for at, (axis, level, _) in enumerate(footprint):
        sizes = frame.sizes[axis]
        part = part_of.get(axis, GroupPart(axis, 0))
        if part.level > level:
            if part.kind != "cells":
                return np.zeros_like(smoothed), 1
            repeats *= sizes[part.level] // sizes[level]
            answers = answers / sizes[part.level]
            continue
        lead, tail = answers.shape[:at], answers.shape[at + 1 :]
        answers = answers.reshape(*lead, sizes[part.level], -1, *tail).sum(axis=at + 1) / sizes[level]
        if part.kind != "cells":
            children = frame.fan_outs[axis][part.level - 1]
            rows = helmert_rows(children).astype(np.float64)
            if part.kind == "helmert":
                rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
            elif part.kind == "squares":
                rows = square_rows(children) / np.sqrt(square_weights(children))[:, None]
            families = np.moveaxis(answers, at, -1).reshape(*lead, *tail, -1, rows.shape[1]) @ rows.T
            answers = np.moveaxis(families.reshape(*lead, *tail, -1), -1, at)
    return (answers - _means(frame, footprint, answers, told) if told[-1] else answers), repeats


def _means(frame: Frame, footprint: QueryGroup, rows: Floats, told: Sequence[int]) -> Floats:
    """The mean of the rows in every cell of the told levels, in the place of each of them."""
    means = rows
    for at, (axis, level, _) in enumerate(footprint):
        kept = min(frame.sizes[axis][min(told[axis], level)], rows.shape[at])
        blocks = means.reshape(*means.shape[:at], kept, -1, *means.shape[at + 1 :])
        means = np.broadcast_to(blocks.mean(axis=at + 1, keepdims=True), blocks.shape).reshape(rows.shape)
    return means


def energies(frame: Frame, entry: str | Axis) -> tuple[Floats, int]:
    """|Pi_b q|^2 for every published number q of an entry and all levels b of its axes, and the number of axes."""
    (footprint,) = cells_groups(frame, [recovered_table(frame, (entry,))])
    sizes = [frame.sizes[part.axis][: part.level + 1] for part in footprint]
    group_of = groups_in_place(frame, entry)
    if group_of is not None:
        return group_energies(sizes[0], group_of), 1
    rows = published_rows(frame, entry)
    if rows is None:  # single cells, all with the same energies
        own = np.ones(())
        for chain in sizes:
            own = np.multiply.outer(own, np.diff(np.array(chain), prepend=0) / chain[-1])
        return np.broadcast_to(own, (padded_cells(frame, entry), *own.shape)), len(footprint)
    means = np.zeros((len(rows), *(len(chain) for chain in sizes)))
    for levels in np.ndindex(*means.shape[1:]):
        averaged = rows.reshape(len(rows), *(chain[-1] for chain in sizes))
        width = 1
        for at, (chain, level) in enumerate(zip(sizes, levels, strict=True), start=1):
            share = chain[-1] // chain[level]
            blocks = averaged.reshape(*averaged.shape[:at], chain[level], share, *averaged.shape[at + 1 :])
            averaged, width = blocks.mean(axis=at + 1), width * share
        means[(slice(None), *levels)] = width * np.sum(averaged.reshape(len(rows), -1) ** 2, axis=1)
    for axis in range(1, means.ndim):
        means = np.diff(means, axis=axis, prepend=0)
    return means, len(footprint)
