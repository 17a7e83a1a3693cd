"""Direct recovery: each table summed from its own groups, the R of step 2. Zone: PUBLIC.

This reproduces the paper's S and S+ before step 3. Tables summed from different groups need not agree. Variances are
means over a table, and errors are assumed to have the kurtosis of Laplace noise, the largest possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from privcube.accuracy.intervals import LAPLACE
from privcube.accuracy.moments import exact_noise_variances
from privcube.accuracy.ranges import mean_nodes, nodes
from privcube.algebra.lattice import Floats, Incidence
from privcube.errors import QueryError
from privcube.model.frame import Frame
from privcube.model.groups import Group, QueryGroup, cells_groups, group_rows, product_groups
from privcube.model.plan import Plan
from privcube.model.workload import Axis, Table, Workload, axis_cells
from privcube.progress import RECOVERING, Progress, silent, told


class DirectForm:
    """The predictor (`privcube.accuracy.predictor`) of a plan with direct recovery, for tables of the workload only."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def determines(self, table: Table) -> bool:
        """Whether a table is in the workload."""
        return table in self._mean

    def mean_variances(self) -> Floats:
        """For every table of the workload, the mean variance of its numbers."""
        plan = self._plan
        coefficients = recovery_coefficients(plan.workload, plan.frame, plan.groups, plan.sources or ())
        return coefficients.times(exact_noise_variances(plan))

    def variances(self, table: Table) -> Floats:
        """The mean variance of a table's numbers, repeated for each of them."""
        return np.full([axis_cells(self._plan.workload.schema, entry) for entry in table], self._mean[table])

    def kurtosis(self, table: Table) -> float:
        """The excess kurtosis of Laplace noise."""
        return LAPLACE

    def query_moments(self, table: Table, weights: Floats) -> tuple[float, float]:
        """Variance and excess kurtosis of one number of a table; a sum of several is refused."""
        if np.count_nonzero(weights) != 1:
            raise QueryError("query", expected="a single cell, because direct recovery treats each table separately")
        return self._mean[table], LAPLACE

    def source(self, table: Table) -> Table:
        """The table itself."""
        return table

    def derived(self, table: Table, source: Floats) -> Floats:
        """The table itself."""
        return source

    def recover(self, sources: Sequence[Table], answers: Floats, progress: Progress = silent) -> dict[Table, Floats]:
        """Tables of the workload, each summed from the answers to its own groups."""
        frame, groups = self._plan.frame, product_groups(self._plan.groups)
        ends = np.cumsum([0, *(group_rows(frame, group) for group in groups)]).tolist()
        used_by = dict(zip(self._plan.workload, self._plan.sources or (), strict=True))
        return {
            table: _added_up(
                frame,
                table,
                [groups[number] for number in used_by[table]],
                [answers[ends[number] : ends[number + 1]] for number in used_by[table]],
            )
            for table in told(sources, RECOVERING, progress)
        }

    @cached_property
    def _mean(self) -> dict[Table, float]:
        return dict(zip(self._plan.workload, self.mean_variances().tolist(), strict=True))


def _added_up(frame: Frame, table: Table, groups: Sequence[QueryGroup], answers: Sequence[Floats]) -> Floats:
    axes = [Axis.of(entry) for entry in table]
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
    """The contribution of one level's nodes to every range."""
    moved = np.moveaxis(counts, at, -1)
    running = np.concatenate([np.zeros((*moved.shape[:-1], 1)), np.cumsum(moved, axis=-1)], axis=-1)
    queries = cells if axis.queries == "prefixes" else cells * (cells + 1) // 2
    out = np.zeros((*moved.shape[:-1], queries))
    for query, first, last in nodes(axis.queries, cells, sizes, levels)[level]:
        out[..., query] += running[..., last] - running[..., first]
    return np.moveaxis(out, -1, at)


def recovery_coefficients(
    workload: Workload, frame: Frame, groups: Sequence[Group], sources: Sequence[Sequence[int]]
) -> Incidence:
    """For table t and group g, the mean over t's cells of the sum of squared entries of R on g's rows.

    Times v_g and summed over g, it is the mean variance of a cell of t under direct recovery; times weights and cells
    and summed over t, it is the paper's s_r (without its factor 2).
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
    """How many rows of each group a query of the table sums, on average."""
    levels_of = [{part.axis: part.level for part in group} for group in groups]
    per_axis: dict[int, dict[int, float]] = {}
    for entry in table:
        name = Axis.of(entry).attribute
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
    """How many rows of each of these levels a query of the entry sums, on average."""
    sizes = frame.sizes[axis]
    if isinstance(entry, Axis) and entry.queries != "cells":
        return mean_nodes(entry.queries, frame.schema[entry.attribute].ordered_cells, sizes, levels)
    return {finer: sizes[finer] / sizes[level] for finer in levels}
