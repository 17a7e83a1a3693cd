"""Whether published tables agree wherever they overlap. Zone: RELEASED.

Two tables overlap in the attributes they share, each at the coarser of its two levels; there their sums must be the
same. Pairs need not be compared one by one. Each table is reduced to its margins, one step at a time: an attribute is
summed out, or its cells are added up to the next level. The first table to reach a margin defines it, and every other
table that reaches it must agree. If all steps agree, so do all pairs, because any overlap is a margin of both.

Ranges are replaced by the cells that they add up, after checking that they do. They leave out the cells off the scale,
(other) and (missing), so the margins of such an attribute are also computed for its cells on the scale alone, which
tables of all cells reach as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.layout import with_ranges
from privcube.accuracy.ranges import bounds
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import ArtifactError, Plain
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
    """An attribute of a margin: how fine it is (0 is the sum), and whether it has only the cells on the scale."""

    attribute: str
    depth: int
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


class _Lattice:
    """The steps from a table to its margins."""

    def __init__(self, schema: Schema, tables: list[PublishedTable]) -> None:
        self._schema = schema
        axes = [Axis.of(entry) for own in tables for entry in own.table]
        used = {(axis.attribute, axis.level) for axis in axes}
        self._levels = {
            axis.attribute: [
                None,
                *(name for name in schema[axis.attribute].level_names if (axis.attribute, name) in used),
            ]
            for axis in axes
        }
        self._scaled = {axis.attribute for axis in axes if self._is_scaled(axis)}
        times = Counter(axis.attribute for axis in axes)
        self._alone = {name for name, count in times.items() if count == 1} - self._scaled
        self._nodes: dict[_Part, Integers] = {}

    def start(self, published: PublishedTable) -> tuple[_Margin, Floats]:
        """The cells of a table, after summing out the attributes that no other table has."""
        counts = _cells(self._schema, published)
        margin: list[_Part] = []
        for entry in published.table:
            axis = Axis.of(entry)
            levels = self._levels[axis.attribute]
            if axis.attribute in self._alone:
                counts = counts.sum(axis=len(margin))
            else:
                depth = len(levels) - levels.index(axis.level)
                margin.append(_Part(axis.attribute, depth, self._is_scaled(axis)))
        return tuple(margin), counts

    def steps(self, margin: _Margin, counts: Floats) -> Iterator[tuple[_Margin, Floats]]:
        """All margins one step below."""
        for at, part in enumerate(margin):
            before, after = margin[:at], margin[at + 1 :]
            if part.depth == 1 and not part.on_scale:
                yield (*before, *after), counts.sum(axis=at)
            elif part.depth:
                below = part._replace(depth=part.depth - 1)
                yield (*before, below, *after), self._added_up(counts, at, part, below)
            if part.attribute in self._scaled and part.depth and not part.on_scale:
                below = part._replace(on_scale=True)
                yield (*before, below, *after), np.take(counts, np.unique(self._node_of(below)), axis=at)

    def _is_scaled(self, axis: Axis) -> bool:
        attribute = self._schema[axis.attribute]
        return axis.queries != "cells" and attribute.cells > attribute.ordered_cells

    def _node_of(self, part: _Part) -> Integers:
        """For every cell of a part, the index of its group at the part's depth."""
        if part not in self._nodes:
            attribute, levels = self._schema[part.attribute], self._levels[part.attribute]
            level = levels[len(levels) - part.depth] if part.depth else None
            groups = np.array(attribute.partition(level).group_of) if part.depth else np.zeros(attribute.cells, int)
            self._nodes[part] = groups[: attribute.ordered_cells] if part.on_scale else groups
        return self._nodes[part]

    def _added_up(self, counts: Floats, at: int, part: _Part, below: _Part) -> Floats:
        """Add up the groups of a part along one axis to the next coarser groups."""
        _, first, fine = np.unique(self._node_of(part), return_index=True, return_inverse=True)
        _, coarse = np.unique(self._node_of(below), return_inverse=True)
        sums = np.zeros((coarse.max() + 1, fine.max() + 1))
        sums[coarse[first], np.arange(len(first))] = 1.0
        return np.moveaxis(np.tensordot(sums, counts, axes=(1, at)), 0, at)
