"""Predicted accuracy of query groups for a workload, in closed form. Zone: PUBLIC.

With noise of variance v_g on every row of group g, generalized least squares gives the counts the covariance
sum_b Pi_b / p_b over the residuals b, with p_b = sum_g f_gb / v_g (THEORY section 2; the paper's equation (nonunifR)
in section 3.2 for structured S). A query q then has variance sum_b |Pi_b q|^2 / p_b. Both f and |Pi_b q|^2 are products
over axes. Here every axis is divided by its number of leaves, so that the size N of the domain never appears:
  f of cells(m) = 1/s_m on levels 0..m, of contrast(m) = 2/s_m and of helmert(m) = 1/s_m on level m;
  |Pi_l q|^2 of a cell at level m = (s_l - s_(l-1)) / s_m^2 on levels l = 0..m (with s_(-1) = 0).
Queries are the numbers that are published. Where an axis is padded these are not single cells
(`privcube.accuracy.published`), and what they ask of the axes of an attribute is worked out together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.published import is_padded, mean_energies
from privcube.accuracy.ranges import energies
from privcube.algebra.lattice import Family, Floats, Incidence, Integers, Part, ResidualIndex
from privcube.errors import Plain, PlanError, counted
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup
from privcube.model.workload import Axis, Workload, table_name

MOST_BELOW_A_TABLE: Final = 200_000
MOST_BELOW_ALL: Final = 50_000_000


class WorkloadIndex(NamedTuple):
    """The residuals below the tables of a workload, and what each table asks of them."""

    residuals: ResidualIndex
    asks: Incidence  # table x residual: |Pi_b q|^2, the mean over the table's queries q

    @classmethod
    def of(cls, workload: Workload, frame: Frame) -> WorkloadIndex:
        """Number the residuals; refused if there are more than fit in memory."""
        wanted = table_family(workload, frame)
        refuse_too_large(wanted)
        residuals = ResidualIndex([len(chain) for chain in frame.fan_outs], wanted)
        asks = residuals.incidence(wanted)
        return cls(residuals, _on_padded_bits(workload, frame, residuals, asks) if frame.kind == "binary" else asks)


@dataclass(frozen=True)
class Structure:
    """What the groups say and what the workload asks, residual by residual."""

    workload: Workload
    frame: Frame
    groups: tuple[QueryGroup, ...]
    index: ResidualIndex
    says: Incidence  # group x residual: f
    asks: Incidence  # table x residual, as above
    cells: Floats  # per table
    weights: Floats  # per table

    @classmethod
    def of(
        cls, workload: Workload, frame: Frame, groups: Sequence[QueryGroup], index: WorkloadIndex | None = None
    ) -> Structure:
        """Work out the incidences; no cell is enumerated. `index` is that of the workload, where it is known."""
        residuals, asks = WorkloadIndex.of(workload, frame) if index is None else index
        return cls(
            workload=workload,
            frame=frame,
            groups=tuple(groups),
            index=residuals,
            says=residuals.incidence(replace(group_family(frame, groups), kinds=None)),
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
        """The same if recovery is optimal for some variances v and the noise that is drawn has others, u.

        With the recovery weights (f_gb / v_g) / p_b residual b has variance sum_g f_gb u_g / v_g^2, over p_b^2.
        """
        precisions = self.precisions(weighted_by)
        self.require_answerable(precisions > 0)
        return self.asks.times(self.says.transposed_times(drawn / weighted_by**2) / precisions**2)

    def require_answerable(self, known: np.ndarray) -> None:
        """Refuse groups that say nothing about some residual a table needs, naming the table."""
        if not known.all():
            missed = self.asks.row[~known[self.asks.column]].min()
            table = list(self.workload)[int(missed)]
            raise PlanError(
                "strategy",
                expected="measurements that determine every table",
                given=Plain(f"none for {table_name(table)}"),
            )

    def importance(self) -> Floats:
        """k_b: how much the weighted total variance suffers from variance in a residual."""
        return self.asks.transposed_times(self.weights * self.cells)

    def group_coefficients(self, variances: Floats) -> Floats:
        """The paper's sum of b_i over each group (without its factor 2) for the optimal R of these variances.

        The recovery weight of group g on residual b is (f_gb / v_g) / p_b, so that the weighted total variance is
        sum_g c_g v_g with c_g = sum_b k_b f_gb / (v_g p_b)^2.
        """
        precisions = self.precisions(variances)
        self.require_answerable(precisions > 0)
        return self.says.times(self.importance() / precisions**2) / variances**2


def refuse_too_large(tables: Family) -> None:
    """Refuse a workload with more residuals below its tables than fit in memory, before they are listed."""
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
    """How strongly the cells of a level ask about each level."""
    sizes = frame.sizes[axis]
    finest = sizes[level]
    below = (0, *sizes)
    return Part(axis, tuple((sizes[at] - below[at]) / finest**2 for at in range(level + 1)))


def entry_parts(frame: Frame, entry: str | Axis) -> tuple[Part, ...]:
    """How strongly one axis of a table asks about the levels of the frame's axes."""
    axis = Axis.of(entry)
    attribute = frame.schema[axis.attribute]
    if axis.queries == "cells" and (frame.kind == "binary" or not is_padded(frame, axis)):
        return tuple(cells_part(frame, number, level) for number, level in frame.footprint(attribute, axis.level))
    if frame.kind == "binary":
        raise PlanError(
            f"{axis.queries} of {axis.attribute!r}",
            expected="a strategy for ranges",
            available=["hierarchy", "wavelet", "base_counts", "auto"],
        )
    ((number, level),) = frame.footprint(attribute, axis.level)
    if is_padded(frame, axis):
        return (Part(number, tuple((mean_energies(frame, entry) / frame.sizes[number][level]).tolist())),)
    positions = frame.positions(attribute)[: attribute.ordered_cells]
    return (Part(number, energies(axis.queries, frame.sizes[number], positions)),)


def _on_padded_bits(workload: Workload, frame: Frame, residuals: ResidualIndex, asks: Incidence) -> Incidence:
    """What is asked of the bits of attributes with padded cells: no product over bits, as single cells would be."""
    factor = asks.factor.copy()
    vectors: Integers | None = None
    for entry in dict.fromkeys(entry for table in workload for entry in table):
        axis = Axis.of(entry)
        attribute = frame.schema[axis.attribute]
        if is_padded(frame, axis):
            vectors = residuals.level_vectors() if vectors is None else vectors
            energy = mean_energies(frame, entry)
            bits = vectors[:, [number for number, _ in frame.footprint(attribute, axis.level)]]
            over_product = energy[tuple(bits.T)] * energy.size  # a single cell asks 1 / size of each
            asking = np.array([entry in table for table in workload])[asks.row]
            factor[asking] *= over_product[asks.column[asking]]
    return replace(asks, factor=factor)


def table_family(workload: Workload, frame: Frame) -> Family:
    """The tables of a workload as products of what they ask of each axis."""
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
    """Groups as products of what they say about each axis; groups of equal shape are of one kind."""
    numbers: dict[GroupPart, int] = {}
    members = []
    for group in groups:
        for part in group:
            numbers.setdefault(part, len(numbers))
        members.append(tuple([numbers[part] for part in group]))
    parts, kinds = [], []
    for axis, level, kind in numbers:
        sizes = (0, *frame.sizes[axis][: level + 1])
        if kind != "cells":
            factors = [0.0] * level + [(2 if kind == "contrast" else 1) / sizes[-1] if sizes[-1] > sizes[-2] else 0.0]
        else:  # a level with as many cells as the one above it has nothing of its own
            factors = [1 / sizes[-1] if here > above else 0.0 for above, here in pairwise(sizes)]
        parts.append(Part(axis, tuple(factors)))
        kinds.append((frame.fan_outs[axis][:level], kind))
    return Family(parts, members, kinds)
