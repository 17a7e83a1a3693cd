"""Recovery (step 3): noisy answers to query groups become consistent tables. Zone: PUBLIC.

Optimal recovery is generalized least squares in closed form (THEORY section 2; the paper's section 3.2 with no matrix):
each group's answers are split into residual coordinates, each residual is estimated by the mean of its coordinates from
all groups, weighted by f_gb / v_g, and a table is reassembled from its residuals. All tables come from the same
residuals, so they agree on every shared margin, also after padded cells are spread over real ones
(`privcube.accuracy.published`). Groups and tables of one shape are handled together, a slice of memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.layout import Layout
from privcube.accuracy.structure import group_family
from privcube.algebra.lattice import Batch, Family, Floats, Integers, ResidualIndex
from privcube.algebra.residuals import (
    from_residuals,
    helmert_to_residuals,
    level_slice,
    squares_to_cells,
    to_residuals,
)
from privcube.errors import Plain, PlanError
from privcube.model.frame import Frame
from privcube.model.groups import (
    GroupPart,
    PartKind,
    QueryGroup,
    cells_groups,
    group_rows,
    part_rows,
)
from privcube.model.workload import Table
from privcube.progress import RECOVERING, Progress, Work, silent

_SLICE_CELLS: Final = 2**17  # cells handled at a time: 1 MiB of floats, empirically a good size
_MOST_CHOICES: Final = 1024  # level choices of a group; beyond this it is summed to the wanted tables first


def recover_cells(
    frame: Frame,
    tables: Sequence[Table],
    groups: Sequence[QueryGroup],
    variances: Floats,
    values: Floats,
    shares: Sequence[Sequence[Floats]] | None = None,
    *,
    told_by: Integers | None = None,
    padded: bool = False,
    progress: Progress = silent,
) -> dict[Table, Floats]:
    """Optimal recovery of tables of cells from the answers to groups with the given noise variances.

    Padded cells are dropped, or, with `padded`, kept in tables that have one axis per axis of the frame. `told_by` is
    that of the plan (`Plan.told_by`).
    """
    residuals = _Residuals(frame, tables, shares)
    told = [_told_levels(groups, number, told_by) for number in range(len(groups))]
    starts = np.concatenate([[0], np.cumsum([group_rows(frame, group) for group in groups])]).astype(np.int64)
    narrow = [number for number, group in enumerate(groups) if _choices(group) <= _MOST_CHOICES]
    wide = {number: residuals.below(groups[number]) for number in sorted(set(range(len(groups))) - set(narrow))}
    rows = np.diff(starts)  # per group; a wide group is read once for each table below it
    to_read = int(rows[narrow].sum()) + sum(len(below) * int(rows[number]) for number, below in wide.items())
    work = Work(progress, RECOVERING, to_read + residuals.cells)
    own_told = [told[number] for number in narrow]
    residuals.add([groups[number] for number in narrow], variances[narrow], values, starts[narrow], own_told, work)
    for number, below in wide.items():
        own = values[starts[number] : starts[number + 1]]
        residuals.add_wide(groups[number], below, variances[number], own, told[number], work)
    return residuals.tables(padded, work)


class _Residuals:
    """Running weighted sums of the estimates of each residual; `store[dim][slot]` holds its coordinates."""

    def __init__(self, frame: Frame, tables: Sequence[Table], shares: Sequence[Sequence[Floats]] | None) -> None:
        self.frame, self.wanted_tables, self.shares = frame, tables, shares
        self.footprints = cells_groups(frame, tables)
        self.wanted = wanted = self._family(self.footprints)
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

    @property
    def cells(self) -> int:
        """How many padded cells the wanted tables have."""
        return sum(group_rows(self.frame, footprint) for footprint in self.footprints)

    def add(
        self,
        groups: Sequence[QueryGroup],
        variances: Floats,
        values: Floats,
        starts: Integers,
        told: Sequence[_Told],
        work: Work,
    ) -> None:
        """Add the answers of groups; each group's answers begin at its start in `values`."""
        family = self._family(groups)
        for which, batches in self._slices(family):
            shape = _shape(family, which[0])
            sizes = [part_rows(kind.chain, kind.kind) for kind in shape]
            block = _gathered(values, starts[which], prod(sizes)).reshape(len(which), *sizes)
            coordinates = self._split(block, shape)
            silent = [(row, levels) for row, number in enumerate(which.tolist()) if (levels := told[number])]
            for batch in batches:
                weights = batch.factors / variances[which]
                weights[[row for row, levels in silent if _is_told(batch.levels, levels)]] = 0.0
                self._take(coordinates, shape, batch, weights)
            work.add(block.size)

    def below(self, group: QueryGroup) -> list[QueryGroup]:
        """The tables that a group can be summed to for each wanted table, those with the most axes first."""
        level_of = {part.axis: part.level for part in group}
        found = {
            tuple(GroupPart(p.axis, min(p.level, level_of[p.axis])) for p in footprint if p.axis in level_of)
            for footprint in self.footprints
        }
        return sorted(found, key=len, reverse=True)

    def add_wide(
        self,
        group: QueryGroup,
        below: Sequence[QueryGroup],
        variance: float,
        values: Floats,
        told: _Told,
        work: Work,
    ) -> None:
        """Add a group of many attributes: sum it to the tables `below` it first, and use each residual once."""
        weight = 1.0 / (variance * group_rows(self.frame, group))  # f_gb / v_g, the same for every b below the group
        table = values.reshape([self.frame.sizes[part.axis][part.level] for part in group])
        done = np.zeros(len(self.index), dtype=bool)
        for smaller in below:
            kept = {part.axis: part.level for part in smaller}
            summed = _summed(self.frame, table, group, kept)
            family = self._family([smaller])
            shape = _shape(family, 0)
            coordinates = self._split(summed[None], shape)
            own = dict(zip([part.axis for part in group], told, strict=True)) if told else {}
            levels = tuple([own[part.axis] for part in smaller]) if told else ()
            for batch in self.index.batches(family):
                if told and _is_told(batch.levels, levels):
                    continue
                if batch.residuals[0] >= 0 and not done[batch.residuals[0]]:
                    self._take(coordinates, shape, batch, np.array([weight]))
                    done[batch.residuals[0]] = True
            work.add(table.size)

    def tables(self, padded: bool, work: Work) -> dict[Table, Floats]:
        """Reassemble the tables from the weighted means."""
        if np.any(self.precision <= 0):
            raise PlanError("recovery", expected="groups that determine every table", given=Plain("some that do not"))
        for dim, rows in self.store.items():
            rows /= self.precision[self.dim == dim][:, None]
        layout, tables = Layout(self.frame), self.wanted_tables
        found: list[Floats | None] = [None] * len(tables)
        for which, batches in self._slices(self.wanted):
            shape = _shape(self.wanted, which[0])
            coordinates = np.empty((len(which), *(prod(kind.chain) for kind in shape)))
            for batch in batches:
                where = (slice(None), *_levels(shape, batch.levels))
                dim = int(self.dim[batch.residuals[0]])
                coordinates[where] = self.store[dim][self.slot[batch.residuals]].reshape(coordinates[where].shape)
            for at, kind in enumerate(shape):
                coordinates = from_residuals(coordinates, at + 1, kind.chain, self._shares(kind))
            for row, number in enumerate(which.tolist()):
                found[number] = coordinates[row] if padded else layout.real(tables[number], coordinates[row])
            work.add(coordinates.size)
        return {table: counts for table, counts in zip(tables, found, strict=True) if counts is not None}

    def _slices(self, family: Family) -> Iterator[tuple[Integers, Iterator[Batch]]]:
        """Slices of members of equal shape, with the batches of their level choices."""
        for which in _alike(family):
            yield which, self.index.batches(replace(family, members=[family.members[i] for i in which.tolist()]))

    def _family(self, groups: Sequence[QueryGroup]) -> Family:
        family = group_family(self.frame, groups)
        kinds: Sequence[tuple[tuple[int, ...], PartKind]] = family.kinds  # type: ignore[assignment]
        own = [part.axis if self.shares else -1 for part in family.parts]
        return replace(family, kinds=[_Kind(*kind, axis) for kind, axis in zip(kinds, own, strict=True)])

    def _shares(self, kind: _Kind) -> Sequence[Floats] | None:
        return self.shares[kind.axis][: len(kind.chain)] if self.shares else None

    def _split(self, block: Floats, shape: Sequence[_Kind]) -> Floats:
        """Turn answers of equal shape into residual coordinates; a contrast is twice its coordinate."""
        coordinates = np.asarray(block, dtype=np.float64)
        for at, kind in enumerate(shape):
            if kind.kind == "contrast":
                coordinates = coordinates / 2
            elif kind.kind == "helmert":
                coordinates = helmert_to_residuals(coordinates, at + 1, kind.chain[-1])
            elif kind.kind == "squares":
                cells = squares_to_cells(coordinates, at + 1, kind.chain[-1])
                coordinates = to_residuals(cells, at + 1, kind.chain)
            else:
                coordinates = to_residuals(coordinates, at + 1, kind.chain, self._shares(kind))
        return coordinates

    def _take(self, coordinates: Floats, shape: Sequence[_Kind], batch: Batch, weights: Floats) -> None:
        hit = np.flatnonzero(batch.residuals >= 0)
        if not len(hit):
            return
        rows = batch.residuals[hit]
        block = coordinates[(slice(None), *_levels(shape, batch.levels))]
        weighted = block.reshape(len(block), -1)[hit] * weights[hit, None]
        _add_rows(self.store[int(self.dim[rows[0]])], self.slot[rows], weighted)
        self.precision += np.bincount(rows, weights[hit], minlength=len(self.precision))


class _Kind(NamedTuple):
    """The shape of a part, and its axis if shares depend on the axis; parts of one kind are handled together."""

    chain: tuple[int, ...]  # fan-outs up to the part's level
    kind: PartKind
    axis: int  # -1 where shares are even and axes of the same shape are interchangeable


_Told = tuple[int, ...]  # per part of a group, the level up to which another group tells; empty if none does


def _told_levels(groups: Sequence[QueryGroup], number: int, told_by: Integers | None) -> _Told:
    if told_by is None or told_by[number] < 0:
        return ()
    level_of = {part.axis: part.level for part in groups[int(told_by[number])]}
    return tuple([level_of.get(part.axis, 0) for part in groups[number]])


def _is_told(levels: Sequence[int], told: _Told) -> bool:
    """Whether another group tells about the residual of these levels of a group's parts."""
    return all(level <= most for level, most in zip(levels, told, strict=True))


def _choices(group: QueryGroup) -> int:
    return prod([part.level + 1 if part.kind in ("cells", "squares") else 1 for part in group])


def _shape(family: Family, member: int) -> list[_Kind]:
    kinds: Sequence[_Kind] = family.kinds  # type: ignore[assignment]
    return [kinds[part] for part in family.members[member]]


def _alike(family: Family) -> Iterator[Integers]:
    """The members in classes of equal shape, each class cut into slices of bounded memory."""
    classes: dict[tuple[_Kind, ...], list[int]] = {}
    for member in range(len(family.members)):
        classes.setdefault(tuple(_shape(family, member)), []).append(member)
    for shape, which in classes.items():
        step = max(1, _SLICE_CELLS // prod([prod(kind.chain) for kind in shape]))
        for start in range(0, len(which), step):
            yield np.array(which[start : start + step])


def _levels(shape: Sequence[_Kind], levels: Sequence[int]) -> list[slice]:
    """The positions of the coordinates of a choice of levels; contrasts and Helmert rows have one level only."""
    return [
        level_slice(kind.chain, level) if kind.kind in ("cells", "squares") else slice(None)
        for kind, level in zip(shape, levels, strict=True)
    ]


def _dimension(shape: Sequence[_Kind], levels: Sequence[int]) -> int:
    spans = [level_slice(kind.chain, level) for kind, level in zip(shape, levels, strict=True)]
    return prod([span.stop - span.start for span in spans])


def _summed(frame: Frame, table: Floats, group: QueryGroup, kept: dict[int, int]) -> Floats:
    """The cells of a group summed to the given levels of some of its axes."""
    summed = table.sum(axis=tuple(at for at, part in enumerate(group) if part.axis not in kept))
    for at, part in enumerate(part for part in group if part.axis in kept):
        size = frame.sizes[part.axis][kept[part.axis]]
        summed = summed.reshape(*summed.shape[:at], size, -1, *summed.shape[at + 1 :]).sum(axis=at + 1)
    return np.asarray(summed, dtype=np.float64)


def _gathered(values: Floats, starts: Integers, length: int) -> Floats:
    """Rows of equal length from one long array, without a copy if they are contiguous."""
    if np.all(np.diff(starts) == length):
        return values[starts[0] : starts[0] + length * len(starts)].reshape(len(starts), length)
    return np.asarray(values[starts[:, None] + np.arange(length)])


def _add_rows(target: Floats, rows: Integers, values: Floats) -> None:
    """target[rows] += values, where `rows` may repeat."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    if len(first) == len(rows):
        target[rows] += values
    else:
        target[ordered[first]] += np.add.reduceat(values[order], first, axis=0)
