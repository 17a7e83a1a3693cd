"""Recovery (step 3): noisy answers to query groups become consistent tables. Zone: RELEASED.

Optimal recovery is generalised least squares in closed form (THEORY section 2; the paper's section 3.2 with no matrix):
each group's answers are split into residual coordinates, the estimate of a residual is the mean of what the groups say
about it, weighted by f_gb / v_g, and a table is put together from its residuals. All tables come from the same
residuals, so they agree on every shared margin. Groups and tables of one shape are handled together, a slice of memory
at a time. Direct recovery keeps the R of step 2 instead (see `privcube.released.direct`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from privcube.algebra.lattice import Batch, Family, Floats, Integers, ResidualIndex
from privcube.algebra.residuals import from_residuals, level_slice, to_residuals
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, QueryGroup, cells_group, group_rows
from privcube.model.plan import Plan
from privcube.model.workload import Table
from privcube.planning.structure import group_family
from privcube.released.direct import add_up
from privcube.released.layout import published

_SLICE_CELLS: Final = 2**17
_MOST_CHOICES: Final = 64


def recover(plan: Plan, answers: Floats) -> dict[Table, Floats]:
    """The plan's tables from the noisy answers to its groups, one group after the other, each in row-major order."""
    rows = [group_rows(plan.frame, group) for group in plan.groups]
    if len(answers) != sum(rows):
        raise PlanError("answers", expected=f"{sum(rows):,} numbers, one per row of the plan", given=len(answers))
    values, starts = np.asarray(answers), np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    if plan.sources is not None:
        per_group = [values[start:stop] for start, stop in pairwise(starts.tolist())]
        return add_up(plan.frame, list(plan.workload), plan.groups, plan.sources, per_group)
    return recover_from(plan.frame, list(plan.workload), plan.groups, plan.noise_variances(), values)


def recover_from(
    frame: Frame, tables: Sequence[Table], groups: Sequence[QueryGroup], variances: Floats, values: Floats
) -> dict[Table, Floats]:
    """Optimal recovery of tables from the answers to groups with the given noise variances."""
    wanted = group_family(frame, [cells_group(frame, table) for table in tables])
    residuals = _Residuals(frame, wanted)
    starts = np.concatenate([[0], np.cumsum([group_rows(frame, group) for group in groups])]).astype(np.int64)
    narrow = [number for number, group in enumerate(groups) if _choices(group) <= _MOST_CHOICES]
    residuals.add(group_family(frame, [groups[number] for number in narrow]), variances[narrow], values, starts[narrow])
    for number in sorted(set(range(len(groups))) - set(narrow)):
        residuals.add_wide(groups[number], variances[number], values[starts[number] : starts[number + 1]])
    return residuals.tables(tables)


class _Residuals:
    """Running weighted sums of what the groups say about each residual; `store[dim][slot]` holds its coordinates."""

    def __init__(self, frame: Frame, wanted: Family) -> None:
        self.frame, self.wanted = frame, wanted
        self.index = ResidualIndex([len(chain) for chain in frame.fan_outs], wanted)
        self.dim = np.zeros(len(self.index), dtype=np.int64)
        for batch in self.index.batches(wanted):
            self.dim[batch.residuals] = _dimension(_shape(wanted, batch.members[0]), batch.levels)
        self.slot = np.zeros(len(self.index), dtype=np.int64)
        self.store: dict[int, Floats] = {}
        for dim in np.unique(self.dim).tolist():
            same = np.flatnonzero(self.dim == dim)
            self.slot[same] = np.arange(len(same))
            self.store[dim] = np.zeros((len(same), dim))
        self.precision = np.zeros(len(self.index))

    def add(self, groups: Family, variances: Floats, values: Floats, starts: Integers) -> None:
        """Take in the answers of groups, each found at its start in `values`."""
        for which, batches in self._slices(groups):
            shape = _shape(groups, which[0])
            sizes = [prod(chain) // (2 if contrast else 1) for chain, contrast in shape]
            block = _gathered(values, starts[which], prod(sizes)).reshape(len(which), *sizes)
            coordinates = _split(block, shape)
            for batch in batches:
                self._take(coordinates, shape, batch, batch.factors / variances[which])

    def add_wide(self, group: QueryGroup, variance: float, values: Floats) -> None:
        """Take in a group of many attributes: add it up to the wanted tables first, and use each residual once."""
        level_of = {part.axis: part.level for part in group}
        weight = 1.0 / (variance * group_rows(self.frame, group))  # f_gb / v_g, the same for every b below the group
        table = values.reshape([self.frame.sizes[part.axis][part.level] for part in group])
        done = np.zeros(len(self.index), dtype=bool)
        below = {
            tuple(
                GroupPart(part.axis, min(part.level, level_of[part.axis])) for part in member if part.axis in level_of
            )
            for member in (
                [GroupPart(self.wanted.parts[p].axis, len(self.wanted.parts[p].factors) - 1) for p in parts]
                for parts in self.wanted.members
            )
        }
        for smaller in sorted(below, key=len, reverse=True):
            kept = {part.axis: part.level for part in smaller}
            summed = _summed(self.frame, table, group, kept)
            family = group_family(self.frame, [smaller])
            shape = _shape(family, 0)
            coordinates = _split(summed[None], shape)
            for batch in self.index.batches(family):
                if batch.residuals[0] >= 0 and not done[batch.residuals[0]]:
                    self._take(coordinates, shape, batch, np.array([weight]))
                    done[batch.residuals[0]] = True

    def tables(self, tables: Sequence[Table]) -> dict[Table, Floats]:
        """Put the tables together from the weighted means."""
        missed = np.flatnonzero(self.precision <= 0)
        if len(missed):
            raise PlanError("recovery", expected="groups that determine every table", given="some that do not")
        for dim, rows in self.store.items():
            rows /= self.precision[self.dim == dim][:, None]
        found: list[Floats | None] = [None] * len(tables)
        for which, batches in self._slices(self.wanted):
            shape = _shape(self.wanted, which[0])
            coordinates = np.empty((len(which), *(prod(chain) for chain, _ in shape)))
            for batch in batches:
                where = (slice(None), *_levels(shape, batch.levels))
                dim = int(self.dim[batch.residuals[0]])
                coordinates[where] = self.store[dim][self.slot[batch.residuals]].reshape(coordinates[where].shape)
            for axis, (chain, _) in enumerate(shape):
                coordinates = from_residuals(coordinates, axis + 1, chain)
            for row, number in enumerate(which.tolist()):
                found[number] = published(self.frame, tables[number], coordinates[row])
        return {table: counts for table, counts in zip(tables, found, strict=True) if counts is not None}

    def _slices(self, family: Family) -> Iterator[tuple[Integers, Iterator[Batch]]]:
        """Members of equal shape, so many at a time, with the batches of their level choices."""
        for which in _alike(family):
            yield which, self.index.batches(replace(family, members=[family.members[i] for i in which.tolist()]))

    def _take(self, coordinates: Floats, shape: Sequence[_Kind], batch: Batch, weights: Floats) -> None:
        hit = np.flatnonzero(batch.residuals >= 0)
        if not len(hit):
            return
        rows = batch.residuals[hit]
        block = coordinates[(slice(None), *_levels(shape, batch.levels))]
        weighted = block.reshape(len(block), -1)[hit] * weights[hit, None]
        _add_rows(self.store[int(self.dim[rows[0]])], self.slot[rows], weighted)
        self.precision += np.bincount(rows, weights[hit], minlength=len(self.precision))


_Kind = tuple[tuple[int, ...], bool]  # the fan-outs of a part up to its level, and whether it is measured by contrasts


def _choices(group: QueryGroup) -> int:
    return prod([1 if part.contrast else part.level + 1 for part in group])


def _shape(family: Family, member: int) -> list[_Kind]:
    kinds: Sequence[_Kind] = family.kinds  # type: ignore[assignment]
    return [kinds[part] for part in family.members[member]]


def _alike(family: Family) -> Iterator[Integers]:
    """The members in classes of equal shape, each class cut into slices of bounded memory."""
    classes: dict[tuple[_Kind, ...], list[int]] = {}
    for member in range(len(family.members)):
        classes.setdefault(tuple(_shape(family, member)), []).append(member)
    for shape, which in classes.items():
        step = max(1, _SLICE_CELLS // prod([prod(chain) for chain, _ in shape]))
        for start in range(0, len(which), step):
            yield np.array(which[start : start + step])


def _levels(shape: Sequence[_Kind], levels: Sequence[int]) -> list[slice]:
    """Where the coordinates of a choice of levels stand; contrasts have one level only."""
    return [
        slice(None) if contrast else level_slice(chain, level)
        for (chain, contrast), level in zip(shape, levels, strict=True)
    ]


def _dimension(shape: Sequence[_Kind], levels: Sequence[int]) -> int:
    return prod([prod(chain[:level]) - (prod(chain[: level - 1]) if level else 0) for (chain, _), level in
                 zip(shape, levels, strict=True)])  # fmt: skip


def _split(block: Floats, shape: Sequence[_Kind]) -> Floats:
    """Answers of equal shape to residual coordinates; a contrast is twice its coordinate."""
    coordinates = np.asarray(block, dtype=np.float64)
    for axis, (chain, contrast) in enumerate(shape):
        coordinates = coordinates / 2 if contrast else to_residuals(coordinates, axis + 1, chain)
    return coordinates


def _summed(frame: Frame, table: Floats, group: QueryGroup, kept: dict[int, int]) -> Floats:
    """The cells of a group added up to the given levels of some of its axes."""
    summed = table.sum(axis=tuple(at for at, part in enumerate(group) if part.axis not in kept))
    for at, part in enumerate(part for part in group if part.axis in kept):
        size = frame.sizes[part.axis][kept[part.axis]]
        summed = summed.reshape(*summed.shape[:at], size, -1, *summed.shape[at + 1 :]).sum(axis=at + 1)
    return np.asarray(summed, dtype=np.float64)


def _gathered(values: Floats, starts: Integers, length: int) -> Floats:
    """Rows of equal length out of one long array; no copy where they follow each other."""
    if np.all(np.diff(starts) == length):
        return values[starts[0] : starts[0] + length * len(starts)].reshape(len(starts), length)
    return np.asarray(values[starts[:, None] + np.arange(length)])


def _add_rows(target: Floats, rows: Integers, values: Floats) -> None:
    """target[rows] += values where a row may be named several times."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(first) == len(rows):
        target[rows] += values
    else:
        target[ordered[first]] += np.add.reduceat(values[order], first, axis=0)
