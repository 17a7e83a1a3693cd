"""Predicted accuracy of query groups for a workload, in closed form. Zone: PUBLIC.

With noise of variance v_g on every row of group g, generalized least squares gives the counts the covariance
sum_b Pi_b / p_b over the residuals b, with p_b = sum_g f_gb / v_g (THEORY section 2; the paper's equation (nonunifR)
in section 3.2 for structured S). A query q then has variance sum_b |Pi_b q|^2 / p_b. Both f and |Pi_b q|^2 are products
over axes. Each axis is normalized by its number of leaves, so the size N of the domain never appears:
  f of cells(m) = 1/s_m on levels 0..m, of contrast(m) = 2/s_m and of helmert(m) = 1/s_m on level m;
  f of squares(m), with f' children per node: (1 - 1/f')/(2 s_m) on levels 0..m-1, (1 - 2/f')/(2 s_m) on level m;
  |Pi_l q|^2 of a cell at level m = (s_l - s_(l-1)) / s_m^2 on levels l = 0..m (with s_(-1) = 0).
Queries are the published numbers. Where an axis is padded, or lacks the level of a table, these are not single cells
(`privcube.accuracy.published`), and the axes of an attribute are handled together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.published import groups_in_place, has_single_cells, is_padded, mean_energies
from privcube.accuracy.ranges import energies, group_energies
from privcube.algebra.lattice import Family, Floats, Incidence, Integers, Part, ResidualIndex, silenced
from privcube.errors import Plain, PlanError, counted
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup
from privcube.model.workload import Axis, Workload, table_name

# Residuals below one table, and summed over all tables, to bound time and memory.
MOST_BELOW_A_TABLE: Final = 200_000
MOST_BELOW_ALL: Final = 50_000_000
_NOTHING: Final = 1e-12  # relative; energies below this are rounding errors


class WorkloadIndex(NamedTuple):
    """The residuals below the tables of a workload, and how strongly each table depends on them."""

    residuals: ResidualIndex
    asks: Incidence  # table x residual: |Pi_b q|^2, the mean over the table's queries q

    @classmethod
    def of(cls, workload: Workload, frame: Frame) -> WorkloadIndex:
        """Number the residuals; refuse a workload with more of them than fit in memory."""
        wanted = table_family(workload, frame)
        refuse_too_large(wanted)
        residuals = ResidualIndex([len(chain) for chain in frame.fan_outs], wanted)
        asks = residuals.incidence(wanted)
        return cls(residuals, _on_padded_bits(workload, frame, residuals, asks) if frame.kind == "binary" else asks)


@dataclass(frozen=True)
class Structure:
    """How strongly the groups measure each residual, and how strongly the workload depends on it."""

    workload: Workload
    frame: Frame
    groups: tuple[QueryGroup, ...]
    index: ResidualIndex
    says: Incidence  # group x residual: f
    asks: Incidence  # table x residual: |Pi_b q|^2, the mean over the table's queries q
    cells: Floats  # per table
    weights: Floats  # per table

    @classmethod
    def of(
        cls,
        workload: Workload,
        frame: Frame,
        groups: Sequence[QueryGroup],
        index: WorkloadIndex | None = None,
        told_by: Integers | None = None,
    ) -> Structure:
        """Compute the incidences without enumerating cells; `index` is the workload's, if already known.

        `told_by` is that of the plan (`Plan.told_by`).
        """
        residuals, asks = WorkloadIndex.of(workload, frame) if index is None else index
        return cls(
            workload=workload,
            frame=frame,
            groups=tuple(groups),
            index=residuals,
            says=silenced(residuals.incidence(replace(group_family(frame, groups), kinds=None)), told_by),
            asks=asks,
            cells=np.array(workload.sizes, dtype=np.float64),
            weights=np.array(workload.weights),
        )

    def precisions(self, variances: Floats) -> Floats:
        """p_b for every residual."""
        return self.says.transposed_times(1.0 / variances)

    def table_variances(self, variances: Floats) -> Floats:
        """The mean variance of a cell of every table after optimal recovery, given every group's noise variance."""
        precisions = self.precisions(variances)
        self.require_answerable(precisions > 0)
        return self.asks.times(1.0 / precisions)

    def drawn_variances(self, weighted_by: Floats, drawn: Floats) -> Floats:
        """The mean cell variance of every table if recovery assumes variances v but the noise drawn has variances u.

        With the recovery weights (f_gb / v_g) / p_b, residual b has variance (sum_g f_gb u_g / v_g^2) / p_b^2.
        """
        precisions = self.precisions(weighted_by)
        self.require_answerable(precisions > 0)
        return self.asks.times(self.says.transposed_times(drawn / weighted_by**2) / precisions**2)

    def require_answerable(self, known: np.ndarray) -> None:
        """Refuse groups that leave a residual of some table unmeasured, naming the table."""
        if not known.all():
            missed = self.asks.row[~known[self.asks.column]].min()
            table = list(self.workload)[int(missed)]
            raise PlanError(
                "strategy",
                expected="measurements that determine every table",
                given=Plain(f"none for {table_name(table)}"),
            )

    def importance(self) -> Floats:
        """k_b: how much the variance of a residual adds to the weighted total variance."""
        return self.asks.transposed_times(self.weights * self.cells)

    def group_coefficients(self, variances: Floats) -> Floats:
        """The paper's sum of b_i over each group (without its factor 2) for the optimal R of these variances.

        The recovery weight of group g on residual b is (f_gb / v_g) / p_b, so the weighted total variance is
        sum_g c_g v_g with c_g = sum_b k_b f_gb / (v_g p_b)^2.
        """
        precisions = self.precisions(variances)
        self.require_answerable(precisions > 0)
        return self.says.times(self.importance() / precisions**2) / variances**2


def refuse_too_large(tables: Family) -> None:
    """Refuse a workload with more residuals below its tables than fit in memory, before listing them."""
    choices = [sum(1 for factor in part.factors if factor) for part in tables.parts]
    below = [math.prod([choices[part] for part in member]) for member in tables.members]
    for count, most, what in ((max(below), MOST_BELOW_A_TABLE, "a table"), (sum(below), MOST_BELOW_ALL, "all tables")):
        if count > most:
            raise PlanError(
                "strategy",
                expected=f"at most {most:,} residuals below {what} in its frame",
                given=Plain(counted(count)),
            )


def cells_part(frame: Frame, axis: int, level: int) -> Part:
    """How strongly the cells of a level depend on each level."""
    sizes = frame.sizes[axis]
    finest = sizes[level]
    below = (0, *sizes)
    return Part(axis, tuple((sizes[at] - below[at]) / finest**2 for at in range(level + 1)))


def entry_parts(frame: Frame, entry: str | Axis) -> tuple[Part, ...]:
    """How strongly one axis of a table depends on the levels of the frame's axes."""
    axis = Axis.of(entry)
    attribute = frame.schema[axis.attribute]
    if not axis.is_ranged and (frame.kind == "binary" or has_single_cells(frame, axis)):
        return tuple(cells_part(frame, number, level) for number, level in frame.footprint(attribute, axis.level))
    if frame.kind == "binary":
        raise PlanError(
            f"{axis.queries} of {axis.attribute!r}",
            expected="a strategy that supports ranges",
            available=["hierarchy", "wavelet", "base_counts", "auto"],
        )
    ((number, level),) = frame.footprint(attribute, axis.level)
    if is_padded(frame, axis) or axis.is_measured:
        return (Part(number, tuple((mean_energies(frame, entry) / frame.sizes[number][level]).tolist())),)
    group_of = groups_in_place(frame, entry)
    if group_of is not None:
        sizes = frame.sizes[number][: level + 1]
        means = np.mean(group_energies(sizes, group_of), axis=0) / sizes[-1]
        return (Part(number, tuple(np.where(means > _NOTHING * means.sum(), means, 0.0).tolist())),)
    positions = frame.positions(attribute)[: attribute.ordered_cells]
    return (Part(number, energies(axis.queries, frame.sizes[number], positions)),)


def _on_padded_bits(workload: Workload, frame: Frame, residuals: ResidualIndex, asks: Incidence) -> Incidence:
    """Correct `asks` for attributes whose published numbers are not single cells, and hence no products over bits."""
    factor = asks.factor.copy()
    vectors: Integers | None = None
    for entry in dict.fromkeys(entry for table in workload for entry in table):
        axis = Axis.of(entry)
        attribute = frame.schema[axis.attribute]
        if not has_single_cells(frame, axis):
            vectors = residuals.level_vectors() if vectors is None else vectors
            energy = mean_energies(frame, entry)
            bits = vectors[:, [number for number, _ in frame.footprint(attribute, axis.level)]]
            over_product = energy[tuple(bits.T)] * energy.size  # a single cell has energy 1 / size in each
            over_product = np.broadcast_to(over_product, len(vectors))  # a level of one group has no bits
            asking = np.array([entry in table for table in workload])[asks.row]
            factor[asking] *= over_product[asks.column[asking]]
    return replace(asks, factor=factor)


def table_family(workload: Workload, frame: Frame) -> Family:
    """The tables of a workload as products over axes."""
    parts: list[Part] = []
    numbers: dict[str | Axis, tuple[int, ...]] = {}
    for table in workload:
        for entry in table:
            if entry not in numbers:
                found = entry_parts(frame, entry)
                numbers[entry] = tuple(range(len(parts), len(parts) + len(found)))
                parts.extend(found)
    return Family(parts, [sum([numbers[entry] for entry in table], ()) for table in workload])


def group_family(frame: Frame, groups: Sequence[QueryGroup]) -> Family:
    """Groups as products over axes; groups of equal shape are of one kind."""
    numbers: dict[GroupPart, int] = {}
    members = []
    for group in groups:
        for part in group:
            numbers.setdefault(part, len(numbers))
        members.append(tuple([numbers[part] for part in group]))
    parts, kinds = [], []
    for axis, level, kind in numbers:
        sizes = (0, *frame.sizes[axis][: level + 1])
        if kind == "squares":
            factors = _squares_factors(sizes)
        elif kind != "cells":
            factors = [0.0] * level + [(2 if kind == "contrast" else 1) / sizes[-1] if sizes[-1] > sizes[-2] else 0.0]
        else:  # a level with as many cells as the one above it adds no residual
            factors = [1 / sizes[-1] if here > above else 0.0 for above, here in pairwise(sizes)]
        parts.append(Part(axis, tuple(factors)))
        kinds.append((frame.fan_outs[axis][:level], kind))
    return Family(parts, members, kinds)


def _squares_factors(sizes: Sequence[int]) -> list[float]:
    """How strongly products of Helmert rows speak about each level (`algebra.residuals.squares_to_cells`)."""
    children = sizes[-1] // sizes[-2]
    above = [(1 - 1 / children) / (2 * sizes[-1]) if here > before else 0.0 for before, here in pairwise(sizes[:-1])]
    return [*above, max(1 - 2 / children, 0.0) / (2 * sizes[-1])]
