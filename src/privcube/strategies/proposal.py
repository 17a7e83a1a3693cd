"""What a strategy proposes: query groups, and how step 2 would recover the tables from them. Zone: PUBLIC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privcube.algebra.lattice import Incidence
from privcube.model.frame import Frame
from privcube.model.groups import Group, GroupPart, PartKind, QueryGroup, cells_groups, group_rows, product_groups
from privcube.model.workload import Axis, Table, Workload
from privcube.planning.ranges import mean_nodes
from privcube.planning.structure import WorkloadIndex


@dataclass(frozen=True)
class Proposal:
    """Step 1 of the paper with the R of step 2.

    `sources[t]` are the groups that table t is added up from: cells from the cells of one group, ranges from nodes of
    the levels of several. It is None where the groups measure every residual once: R is then unique and the same as
    the optimal one (the paper's observation in section 3.2).
    """

    frame: Frame
    groups: tuple[Group, ...]
    sources: tuple[tuple[int, ...], ...] | None
    index: WorkloadIndex | None = None  # of the workload in this frame, if it was needed


def one_group_per_residual(workload: Workload, frame: Frame, kind: PartKind) -> Proposal:
    """One group of contrasts (if every chain has fan-out 2) or Helmert rows for every residual below the workload."""
    known = WorkloadIndex.of(workload, frame)
    parts = [[GroupPart(axis, level, kind) for level in range(len(sizes))] for axis, sizes in enumerate(frame.sizes)]
    groups = [tuple([parts[axis][level] for axis, level in residual]) for residual in known.residuals.residuals()]
    return Proposal(frame, tuple(groups), None, known)


def recovery_coefficients(
    workload: Workload, frame: Frame, groups: Sequence[Group], sources: Sequence[Sequence[int]]
) -> Incidence:
    """For table t and group g the mean over t's cells of the squared entries of R on g's rows.

    The sum over g of this times v_g is the variance of a cell of t under the direct recovery, and summed over t with
    weights and cells it is the paper's s_r (without its factor 2).
    """
    rows: list[int] = []
    columns: list[int] = []
    factors: list[float] = []
    cells = cells_groups(frame, workload)
    known: dict[tuple[str | Axis, tuple[int, ...]], dict[int, float]] = {}
    for number, (table, used) in enumerate(zip(workload, sources, strict=True)):
        if len(used) == 1 and not any(isinstance(entry, Axis) and entry.queries != "cells" for entry in table):
            added = [group_rows(frame, groups[used[0]]) / group_rows(frame, cells[number])]
        else:
            added = _added_nodes(frame, table, product_groups(groups[source] for source in used), known)
        rows += [number] * len(used)
        columns += used
        factors += added
    shape = (len(workload), len(groups))
    return Incidence(np.array(rows), np.array(columns), np.array(factors, dtype=np.float64), shape)


def _added_nodes(
    frame: Frame,
    table: Table,
    groups: Sequence[QueryGroup],
    known: dict[tuple[str | Axis, tuple[int, ...]], dict[int, float]],
) -> list[float]:
    """How many rows of each group one query of the table adds up, on average."""
    levels_of = [{part.axis: part.level for part in group} for group in groups]
    per_axis: dict[int, dict[int, float]] = {}
    for entry in table:
        name = entry.attribute if isinstance(entry, Axis) else entry
        for axis, level in frame.footprint(frame.schema[name], entry.level if isinstance(entry, Axis) else None):
            levels = tuple(sorted({of_axis.get(axis, 0) for of_axis in levels_of}))
            if (entry, levels) not in known:
                known[entry, levels] = _per_level(frame, entry, axis, level, levels)
            per_axis[axis] = known[entry, levels]
    return [
        math.prod(per_level[of_axis.get(axis, 0)] for axis, per_level in per_axis.items())
        * math.prod(frame.sizes[axis][level] for axis, level in of_axis.items() if axis not in per_axis)
        for of_axis in levels_of
    ]


def _per_level(frame: Frame, entry: str | Axis, axis: int, level: int, levels: tuple[int, ...]) -> dict[int, float]:
    """How many rows of each of these levels one query of the entry adds up, on average."""
    sizes = frame.sizes[axis]
    if isinstance(entry, Axis) and entry.queries != "cells":
        return mean_nodes(entry.queries, frame.schema[entry.attribute].ordered_cells, sizes, levels)
    return {finer: sizes[finer] / sizes[level] for finer in levels}
