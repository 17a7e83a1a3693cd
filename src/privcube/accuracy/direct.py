"""Direct recovery: each table summed from its own groups, the R of step 2. Zone: PUBLIC.

This reproduces the paper's S and S+ before step 3. Tables summed from different groups need not agree. A
number is a plain sum of rows, so its law needs only how many of each group there are. Numbers of one table that are
not by ranges have no row in common. So what is asked of several of them, such as a share of their sum, has a law as
well; for a mean, the cells of a measure are added up from the groups of its sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.intervals import ErrorLaw, TableErrors
from privcube.accuracy.moments import exact_noise_variances
from privcube.accuracy.published import group_of_cells, grouped
from privcube.accuracy.ranges import mean_node_counts, node_counts, nodes
from privcube.algebra.lattice import Floats, Incidence
from privcube.errors import QueryError
from privcube.model.frame import Frame
from privcube.model.groups import Group, QueryGroup, cells_groups, group_rows, product_groups
from privcube.model.measures.asked import cells_of, measured_axis
from privcube.model.measures.measure import cell_weights
from privcube.model.plan import Plan
from privcube.model.workload import Axis, Table, Workload, axis_cells
from privcube.progress import RECOVERING, Progress, silent, told

PerLevel = Mapping[int, NDArray[Any]]  # per level, how many of its rows every query of an entry sums


class DirectForm:
    """The predictor (`privcube.accuracy.predictor`) of a plan with direct recovery, for tables of the workload only.

    Beside each table of sums it knows the cells of the measure and their count, from the same groups.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def determines(self, table: Table) -> bool:
        """Whether a table is in the workload, or has the cells of a measure of which one of the workload has sums."""
        return table in self._used_by or cells_of(table) in self._used_by

    def mean_variances(self) -> Floats:
        """For every table of the workload, the mean variance of its numbers."""
        plan = self._plan
        coefficients = recovery_coefficients(plan.workload, plan.frame, plan.groups, plan.sources or ())
        return coefficients.times(exact_noise_variances(plan))

    def variances(self, table: Table) -> Floats:
        """The variance of every number of a table."""
        used = self._used(table)
        return np.asarray(
            sum(rows * self._drawn[group] for group, rows in zip(used, self._rows(table, used), strict=True))
        )

    def margin_errors(self, table: Table, margin: Table) -> tuple[Floats, Floats]:
        """The variances of sums over numbers of this table, and the covariances with them: variances, without ranges.

        A table of the workload that has such sums is added up from groups of its own, and has other errors.
        """
        own = self.variances(table)
        over = tuple(at for at, entry in enumerate(table) if entry not in margin)
        return np.asarray(own.sum(axis=over)), own

    def errors(self, table: Table) -> TableErrors:
        """The errors of the numbers of a table."""
        used = self._used(table)
        alike = all(np.ptp(rows) == 0 for rows in self._rows(table, used))
        variances = self.variances(table)

        def law_of(number: int) -> ErrorLaw:
            chosen = np.zeros(variances.shape)
            chosen.flat[number] = 1.0
            return self.query_law(table, chosen)

        return TableErrors.of(variances, law_of, alike=alike)

    def query_law(self, table: Table, weights: Floats) -> ErrorLaw:
        """The law of the error of a sum of weights times the numbers of a table; no two of different ranges."""
        used, frame = self._used(table), self._plan.frame
        others = tuple(at for at, entry in enumerate(table) if not (isinstance(entry, Axis) and entry.is_ranged))
        if np.count_nonzero(np.any(weights != 0, axis=others)) > 1:
            raise QueryError("query", expected="numbers of a single range, because direct recovery adds up each alone")
        cells, own = _in_cells(frame, table, weights)
        chosen = np.flatnonzero(own)
        rows = np.array([each.ravel()[chosen] for each in self._rows(cells, used)])  # of each group, per cell
        each = np.multiply.outer(1 / np.array([self._plan.parts[group] for group in used]), own.flat[chosen])
        parameters = np.repeat(self._plan.drawn_variances()[list(used)], len(chosen))
        return ErrorLaw.of(self._plan.guarantee.noise, (np.sign(rows) * each).ravel(), rows.ravel(), parameters)

    def source(self, table: Table) -> Table:
        """The table itself."""
        return table

    def derived(self, table: Table, source: Floats) -> Floats:
        """The table itself."""
        return source

    def recover(self, sources: Sequence[Table], answers: Floats, progress: Progress = silent) -> dict[Table, Floats]:
        """Tables of the workload, each summed from the answers to its own groups."""
        frame, groups = self._plan.frame, self._groups
        ends = np.cumsum([0, *(group_rows(frame, group) for group in groups)]).tolist()
        return {
            table: _added_up(
                frame,
                table,
                [groups[number] for number in self._used(table)],
                [answers[ends[number] : ends[number + 1]] for number in self._used(table)],
            )
            for table in told(sources, RECOVERING, progress)
        }

    def _rows(self, table: Table, used: Sequence[int]) -> list[Floats]:
        """For each of these groups, how many of its rows each number of a table adds up."""
        return _added_rows(self._plan.frame, table, [self._groups[number] for number in used], {})

    def _used(self, table: Table) -> Sequence[int]:
        """The groups that a table is added up from."""
        return self._used_by[table if table in self._used_by else cells_of(table)]

    @cached_property
    def _used_by(self) -> dict[Table, Sequence[int]]:
        own: dict[Table, Sequence[int]] = dict(zip(self._plan.workload, self._plan.sources or (), strict=True))
        return {cells_of(table): used for table, used in own.items() if measured_axis(table) is not None} | own

    @cached_property
    def _groups(self) -> list[QueryGroup]:
        return product_groups(self._plan.groups)

    @cached_property
    def _drawn(self) -> Floats:
        return exact_noise_variances(self._plan)


def _in_cells(frame: Frame, table: Table, weights: Floats) -> tuple[Table, Floats]:
    """A table with the cells of its measure in place of their sum, and weights on them in place of those on the sum."""
    axis = measured_axis(table)
    if axis is None:
        return table, weights
    at = table.index(axis)
    own = cell_weights(frame.schema[axis.attribute], axis.queries)
    return cells_of(table), np.moveaxis(np.multiply.outer(np.squeeze(weights, axis=at), own), -1, at)


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
            if not axis.is_ranged:
                size = frame.sizes[number][level]
                counts = counts.reshape(*counts.shape[:at], size, -1, *counts.shape[at + 1 :]).sum(axis=at + 1)
                known = frame.source(attribute, axis.level)
                counts = np.take(counts, np.asarray(frame.positions(attribute, known)), axis=at)
                group_of = group_of_cells(frame, axis)
                counts = counts if group_of is None else grouped(counts, at, group_of)
                if axis.is_measured:
                    weights = cell_weights(attribute, axis.queries)
                    counts = np.expand_dims(np.tensordot(counts, weights, axes=(at, 0)), at)
            else:
                if available == [len(frame.fan_outs[number])]:  # leaves alone, which padding may have moved apart
                    counts = np.take(counts, np.asarray(frame.positions(attribute)), axis=at)
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
    known: dict[tuple[str | Axis, tuple[int, ...]], Mapping[int, float]] = {}
    for number, (table, used) in enumerate(zip(workload, sources, strict=True)):
        single = not any(isinstance(entry, Axis) and not _is_kept(frame, entry) for entry in table)
        if len(used) == 1 and single:
            added = [group_rows(frame, groups[used[0]]) / group_rows(frame, cells[number])]
        else:
            own = product_groups(groups[source] for source in used)
            added = _mean_added_rows(frame, table, own, known)
        rows += [number] * len(used)
        columns += used
        factors += added
    shape = (len(workload), len(groups))
    return Incidence(np.array(rows), np.array(columns), np.array(factors, dtype=np.float64), shape)


def _is_kept(frame: Frame, axis: Axis) -> bool:
    """Whether an axis of a table asks for cells of a level of the frame, each a sum of equally many finer ones."""
    return axis.queries == "cells" and group_of_cells(frame, axis) is None


def _mean_added_rows(
    frame: Frame,
    table: Table,
    groups: Sequence[QueryGroup],
    known: dict[tuple[str | Axis, tuple[int, ...]], Mapping[int, float]],
) -> list[float]:
    """For each group, how many of its rows a query sums in the mean, with weights squared: a product over axes."""
    added = [1.0] * len(groups)
    levels_of = [{part.axis: part.level for part in group} for group in groups]
    own_axes = set()
    for entry in table:
        name = Axis.of(entry).attribute
        for axis, level in frame.footprint(frame.schema[name], entry.level if isinstance(entry, Axis) else None):
            own_axes.add(axis)
            levels = tuple(sorted({of_axis.get(axis, 0) for of_axis in levels_of}))
            if (entry, levels) not in known:
                sizes = frame.sizes[axis]
                if isinstance(entry, Axis) and entry.is_ranged:
                    cells = frame.schema[entry.attribute].ordered_cells
                    known[entry, levels] = mean_node_counts(entry.queries, cells, sizes, levels)
                else:
                    group_of = group_of_cells(frame, entry)
                    cells_each = 1.0 if group_of is None else len(group_of) / axis_cells(frame.schema, entry)
                    if isinstance(entry, Axis) and entry.is_measured:
                        cells_each = float(np.sum(cell_weights(frame.schema[entry.attribute], entry.queries) ** 2))
                    known[entry, levels] = {finer: cells_each * sizes[finer] / sizes[level] for finer in levels}
            added = [rows * known[entry, levels][own.get(axis, 0)] for rows, own in zip(added, levels_of, strict=True)]
    return [
        rows * math.prod(frame.sizes[axis][level] for axis, level in own.items() if axis not in own_axes)
        for rows, own in zip(added, levels_of, strict=True)
    ]


def _added_rows(
    frame: Frame, table: Table, groups: Sequence[QueryGroup], known: dict[tuple[str | Axis, tuple[int, ...]], PerLevel]
) -> list[Floats]:
    """For each group, how many of its rows every query of the table sums."""
    factors_of = _added_factors(frame, table, groups, known)
    return [reduce(np.multiply.outer, parts, np.ones(())) * times for parts, times in factors_of]


def _added_factors(
    frame: Frame, table: Table, groups: Sequence[QueryGroup], known: dict[tuple[str | Axis, tuple[int, ...]], PerLevel]
) -> list[tuple[list[Floats], int]]:
    """For each group, the factors of `_added_rows`: one per entry of the table, and a number."""
    levels_of = [{part.axis: part.level for part in group} for group in groups]
    added: list[list[Floats]] = [[] for _ in groups]
    own_axes = set()
    for entry in table:
        per_entry = [np.ones(axis_cells(frame.schema, entry)) for _ in groups]
        name = Axis.of(entry).attribute
        for axis, level in frame.footprint(frame.schema[name], entry.level if isinstance(entry, Axis) else None):
            own_axes.add(axis)
            levels = tuple(sorted({of_axis.get(axis, 0) for of_axis in levels_of}))
            if (entry, levels) not in known:
                known[entry, levels] = _per_level(frame, entry, axis, level, levels)
            for at, of_axis in enumerate(levels_of):
                per_entry[at] = per_entry[at] * known[entry, levels][of_axis.get(axis, 0)]
        added = [[*so_far, own] for so_far, own in zip(added, per_entry, strict=True)]
    beyond = [
        math.prod(frame.sizes[axis][level] for axis, level in of_axis.items() if axis not in own_axes)
        for of_axis in levels_of
    ]
    return list(zip(added, beyond, strict=True))


def _per_level(frame: Frame, entry: str | Axis, axis: int, level: int, levels: tuple[int, ...]) -> PerLevel:
    """How many rows of each of these levels every query of the entry sums; in a sum of a measure, squared weights."""
    sizes = frame.sizes[axis]
    if isinstance(entry, Axis) and entry.is_measured:
        squares = float(np.sum(cell_weights(frame.schema[entry.attribute], entry.queries) ** 2))
        return {finer: np.full(1, squares * sizes[finer] / sizes[level]) for finer in levels}
    if isinstance(entry, Axis) and entry.is_ranged:
        return node_counts(entry.queries, frame.schema[entry.attribute].ordered_cells, sizes, levels)
    group_of = group_of_cells(frame, entry)
    cells = np.ones(axis_cells(frame.schema, entry)) if group_of is None else np.bincount(group_of)
    return {finer: cells * (sizes[finer] / sizes[level]) for finer in levels}
