"""Whether published tables agree wherever they overlap. Zone: RELEASED.

Two tables overlap in the attributes they share, each at the finest groups that are sums of groups of both: the coarser
of two levels that nest. There their sums must be the same. Pairs need not be compared one by one. Each table is reduced
to its margins, one step at a time: an attribute is summed out, or its cells are added up to the next coarser groups in
which tables overlap. The first table to reach a margin defines it, and every other table that reaches it must agree. If
all steps agree, so do all pairs, because any overlap is a margin of both.

Ranges are replaced by the cells that they add up, after checking that they do. They leave out the cells off the scale,
(other) and (missing), so the margins of such an attribute are also computed for its cells on the scale alone, which
tables of all cells reach as well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.layout import with_ranges
from privcube.accuracy.ranges import bounds
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import ArtifactError, Plain
from privcube.model.attribute import Attribute
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table

_TOLERANCE: Final = 1e-6  # by which sums may differ, absolutely and relatively
_ROUNDING: Final = 1e-12  # floating-point error of a sum, relative to the sum of absolute values
_MOST_SUMS: Final = 300_000_000  # numbers to add up, and keep, before the check takes too long


class PublishedTable(NamedTuple):
    """A table as published, and its file."""

    file: str
    table: Table
    counts: Floats


class _Part(NamedTuple):
    """An attribute of a margin: its groups, by their number, and whether it has only the cells on the scale."""

    attribute: str
    groups: int
    on_scale: bool


_Margin = tuple[_Part, ...]


class _Known(NamedTuple):
    counts: Floats
    file: str


def compared_margins(schema: Schema, tables: list[PublishedTable], tolerance: float = _TOLERANCE) -> int | None:
    """Compare all margins and return how many, or None if there are too many; refuse tables that differ.

    Sums may differ by the tolerance, absolutely and relatively; with 0, by floating-point errors alone.
    """
    lattice = _Lattice(schema, tables)
    known: dict[_Margin, _Known] = {}
    waiting: list[_Margin] = []
    compared = sums = 0

    def meet(margin: _Margin, found: _Known, rounding: float) -> None:
        nonlocal compared
        if margin not in known:
            known[margin] = found
            waiting.append(margin)
            return
        compared += 1
        _require_same(margin, known[margin], found, rounding, tolerance)

    for published in tables:
        _require_ranges(schema, published, tolerance)
        margin, counts = lattice.start(published)
        meet(margin, _Known(counts, published.file), _rounding(published.counts))
    while waiting:
        margin = waiting.pop()
        counts, file = known[margin]
        for below, summed in lattice.steps(margin, counts):
            sums += counts.size
            if sums > _MOST_SUMS:
                return None
            meet(below, _Known(summed, file), _rounding(counts))
    return compared


def _rounding(counts: Floats) -> float:
    return _ROUNDING * float(np.sum(np.abs(counts)))


def _require_same(margin: _Margin, known: _Known, found: _Known, rounding: float, tolerance: float) -> None:
    if not np.allclose(found.counts, known.counts, rtol=tolerance, atol=tolerance + rounding):
        shared = " x ".join(part.attribute for part in margin) or "the total"
        subject = f"{known.file} and {found.file}"
        raise ArtifactError(subject, expected=f"equal sums for {shared}", given=Plain("different ones"))


def _require_ranges(schema: Schema, published: PublishedTable, tolerance: float) -> None:
    """Refuse ranges that are not the sums of their cells."""
    sums = with_ranges(schema, published.table, _cells(schema, published))
    if not np.allclose(published.counts, sums, rtol=tolerance, atol=tolerance + _rounding(sums)):
        raise ArtifactError(published.file, expected="ranges that are sums of cells", given=Plain("different numbers"))


def _cells(schema: Schema, published: PublishedTable) -> Floats:
    """The cells that the ranges of a table add up."""
    counts = published.counts
    for at, entry in enumerate(published.table):
        if isinstance(entry, Axis) and entry.queries == "prefixes":
            counts = np.diff(counts, axis=at, prepend=0)
        elif isinstance(entry, Axis) and entry.queries == "ranges":
            first, last = bounds(entry.queries, schema[entry.attribute].ordered_cells)
            counts = np.take(counts, np.flatnonzero(last - first == 1), axis=at)
    return counts


class _Ways:
    """The ways to group the cells of an attribute in which tables can overlap, and the steps from each to coarser ones.

    These are the sum, with number 0, the levels in use, and for any two ways the finest groups that both add up to.
    """

    def __init__(self, attribute: Attribute, used: Collection[str | None]) -> None:
        self._attribute = attribute
        self._levels = [level for level in (None, *attribute.level_names) if level in used]

    @cached_property
    def ways(self) -> list[Integers]:
        """For each way, the group of every cell; groups are numbered in the order of their first cells."""
        found = [np.zeros(self._attribute.cells, dtype=np.int64)]
        waiting = [np.array(self._attribute.partition(level).group_of) for level in self._levels]
        while waiting:
            new = _in_order(waiting.pop(0))
            if not any(np.array_equal(new, known) for known in found):
                waiting += [_common_sums(new, known) for known in found]
                found.append(new)
        return found

    @cached_property
    def of_level(self) -> dict[str | None, int]:
        """The number of the way of every level in use."""
        if len(self._levels) == 1:  # cells are not enumerated: there may be very many
            return {self._levels[0]: 1}
        own = {level: _in_order(np.array(self._attribute.partition(level).group_of)) for level in self._levels}
        return {
            level: next(number for number, way in enumerate(self.ways) if np.array_equal(way, groups))
            for level, groups in own.items()
        }

    @cached_property
    def steps(self) -> list[list[int]]:
        """For each way, the ways next to it among the coarser ones."""
        if len(self._levels) == 1:
            return [[], [0]]
        coarser = [
            [n for n, other in enumerate(self.ways) if n != m and _adds_up_to(way, other)]
            for m, way in enumerate(self.ways)
        ]
        return [[n for n in above if not any(n in coarser[m] for m in above)] for above in coarser]


def _in_order(groups: Integers) -> Integers:
    """The same groups, numbered in the order of their first cells."""
    _, first, same = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[same.ravel()]


def _adds_up_to(way: Integers, other: Integers) -> bool:
    """Whether every group of a way lies in one group of another."""
    return bool(len(np.unique(way * (other.max() + 1) + other)) == way.max() + 1)


def _common_sums(one: Integers, other: Integers) -> Integers:
    """The finest groups that are sums of groups of both ways: what is linked by groups of either stays together.

    >>> _common_sums(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 1, 2, 3])).tolist()
    [0, 0, 0, 0, 2, 2]
    """
    linked = one
    while True:
        wider = _least_within(one, _least_within(other, linked))
        if np.array_equal(wider, linked):
            return linked
        linked = wider


def _least_within(groups: Integers, numbers: Integers) -> Integers:
    """For every cell, the least number of a cell of its group."""
    least = np.full(groups.max() + 1, numbers.max())
    np.minimum.at(least, groups, numbers)
    return least[groups]


class _Lattice:
    """The steps from a table to its margins."""

    def __init__(self, schema: Schema, tables: list[PublishedTable]) -> None:
        self._schema = schema
        axes = [Axis.of(entry) for own in tables for entry in own.table]
        levels: defaultdict[str, set[str | None]] = defaultdict(set)
        for axis in axes:
            levels[axis.attribute].add(axis.level)
        self._ways = {name: _Ways(schema[name], used) for name, used in levels.items()}
        self._scaled = {axis.attribute for axis in axes if self._is_scaled(axis)}
        times = Counter(axis.attribute for axis in axes)
        self._alone = {name for name, count in times.items() if count == 1} - self._scaled

    def start(self, published: PublishedTable) -> tuple[_Margin, Floats]:
        """The cells of a table, after summing out the attributes that no other table has."""
        counts = _cells(self._schema, published)
        margin: list[_Part] = []
        for entry in published.table:
            axis = Axis.of(entry)
            if axis.attribute in self._alone:
                counts = counts.sum(axis=len(margin))
            else:
                if axis.level is not None:  # from the order of labels to that of first cells
                    order = list(dict.fromkeys(self._schema[axis.attribute].partition(axis.level).group_of))
                    counts = np.take(counts, order, axis=len(margin))
                groups = self._ways[axis.attribute].of_level[axis.level]
                margin.append(_Part(axis.attribute, groups, self._is_scaled(axis)))
        return tuple(margin), counts

    def steps(self, margin: _Margin, counts: Floats) -> Iterator[tuple[_Margin, Floats]]:
        """All margins one step below."""
        for at, part in enumerate(margin):
            before, after = margin[:at], margin[at + 1 :]
            for coarser in self._ways[part.attribute].steps[part.groups]:
                if coarser == 0 and not part.on_scale:
                    yield (*before, *after), counts.sum(axis=at)
                else:
                    below = part._replace(groups=coarser)
                    yield (*before, below, *after), self._added_up(counts, at, part, below)
            if part.attribute in self._scaled and part.groups and not part.on_scale:
                below = part._replace(on_scale=True)
                yield (*before, below, *after), np.take(counts, np.unique(self._node_of(below)), axis=at)

    def _is_scaled(self, axis: Axis) -> bool:
        attribute = self._schema[axis.attribute]
        return axis.queries != "cells" and attribute.cells > attribute.ordered_cells

    def _node_of(self, part: _Part) -> Integers:
        """For every cell of a part, the index of its group."""
        groups = self._ways[part.attribute].ways[part.groups]
        return groups[: self._schema[part.attribute].ordered_cells] if part.on_scale else groups

    def _added_up(self, counts: Floats, at: int, part: _Part, below: _Part) -> Floats:
        """Add up the groups of a part along one axis to the next coarser groups."""
        _, first, fine = np.unique(self._node_of(part), return_index=True, return_inverse=True)
        _, coarse = np.unique(self._node_of(below), return_inverse=True)
        sums = np.zeros((coarse.max() + 1, fine.max() + 1))
        sums[coarse[first], np.arange(len(first))] = 1.0
        return np.moveaxis(np.tensordot(sums, counts, axes=(1, at)), 0, at)
