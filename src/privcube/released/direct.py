"""Direct recovery: each table added up from its sources, the R of step 2. Zone: RELEASED.

This reproduces the paper's S and S+ before step 3. Tables added up from different groups need not agree.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.model.frame import Frame
from privcube.model.groups import QueryGroup
from privcube.model.workload import Axis, Table
from privcube.planning.ranges import nodes
from privcube.progress import RECOVERING, Progress, silent, told


def add_up(
    frame: Frame,
    tables: Sequence[Table],
    groups: Sequence[QueryGroup],
    sources: Sequence[Sequence[int]],
    answers: Sequence[Floats],
    progress: Progress = silent,
) -> dict[Table, Floats]:
    """Every table from the answers to its source groups; frames with one axis per attribute."""
    return {
        table: _added_up(frame, table, [groups[number] for number in used], [answers[number] for number in used])
        for table, used in told(list(zip(tables, sources, strict=True)), RECOVERING, progress)
    }


def _added_up(frame: Frame, table: Table, groups: Sequence[QueryGroup], answers: Sequence[Floats]) -> Floats:
    axes = [entry if isinstance(entry, Axis) else Axis(entry) for entry in table]
    spots = [frame.footprint(frame.schema[axis.attribute], axis.level)[0] for axis in axes]
    levels = [sorted({_level(group, number) for group in groups}) for number, _ in spots]
    total: Floats | None = None
    for group, values in zip(groups, answers, strict=True):
        counts = np.asarray(values, dtype=np.float64).reshape([frame.sizes[p.axis][p.level] for p in group])
        own = {number for number, _ in spots}
        counts = counts.sum(axis=tuple(at for at, part in enumerate(group) if part.axis not in own))
        present = {part.axis for part in group}
        for at, (number, _) in enumerate(spots):
            if number not in present:
                counts = np.expand_dims(counts, at)
        for at, (axis, (number, level), available) in enumerate(zip(axes, spots, levels, strict=True)):
            here = _level(group, number)
            attribute = frame.schema[axis.attribute]
            if axis.queries == "cells":
                size = frame.sizes[number][level]
                counts = counts.reshape(*counts.shape[:at], size, -1, *counts.shape[at + 1 :]).sum(axis=at + 1)
                counts = np.take(counts, np.asarray(frame.positions(attribute, axis.level)), axis=at)
            else:
                counts = _from_nodes(counts, at, axis, attribute.ordered_cells, frame.sizes[number], available, here)
        total = counts if total is None else total + counts
    assert total is not None
    return total


def _level(group: QueryGroup, axis: int) -> int:
    return next((part.level for part in group if part.axis == axis), 0)


def _from_nodes(
    counts: Floats, at: int, axis: Axis, cells: int, sizes: Sequence[int], levels: Sequence[int], level: int
) -> Floats:
    """What the nodes of one level contribute to every range."""
    moved = np.moveaxis(counts, at, -1)
    running = np.concatenate([np.zeros((*moved.shape[:-1], 1)), np.cumsum(moved, axis=-1)], axis=-1)
    queries = cells if axis.queries == "prefixes" else cells * (cells + 1) // 2
    out = np.zeros((*moved.shape[:-1], queries))
    for query, first, last in nodes(axis.queries, cells, sizes, levels)[level]:
        out[..., query] += running[..., last] - running[..., first]
    return np.moveaxis(out, -1, at)
