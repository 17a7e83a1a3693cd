"""Conversion between the padded axes of a frame and the cells, levels and ranges of a table. Zone: PUBLIC.

Every published number is a known sum over padded cells (`privcube.accuracy.published`). Levels that the frame does not
have are sums of published cells, as ranges always are, so they agree with the cells by construction.
"""

from __future__ import annotations

from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from privcube.accuracy.published import cell_rows, group_of_cells, grouped, padded_cells, recovered_entry
from privcube.accuracy.ranges import bounds
from privcube.algebra.lattice import Floats
from privcube.model.frame import Frame
from privcube.model.measures.measure import cell_weights
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Queries, Table

_Number = TypeVar("_Number", bound=np.generic)


def cells_table(table: Table) -> Table:
    """The table of cells that a table's ranges and prefixes are summed from; levels stay."""
    return tuple([entry if isinstance(entry, str) or entry.level else entry.attribute for entry in table])


def with_ranges(schema: Schema, table: Table, cells: Floats) -> Floats:
    """A table from its cells, with ranges and prefixes summed, and sums of measures."""
    counts = cells
    for at, entry in enumerate(table):
        if isinstance(entry, Axis) and entry.is_measured:
            weights = cell_weights(schema[entry.attribute], entry.queries)
            counts = np.expand_dims(np.tensordot(counts, weights, axes=(at, 0)), at)
        elif isinstance(entry, Axis) and entry.is_ranged:
            counts = range_sums(counts, at, entry.queries, schema[entry.attribute].ordered_cells)
    return counts


class Layout:
    """Finds the real cells of tables among the padded cells of a frame; caches each entry."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._known: dict[str | Axis, tuple[int, NDArray[np.int64] | None]] = {}

    def real(self, table: Table, padded: Floats) -> Floats:
        """The real cells of a table, in label order, from its padded cells."""
        entries = [self._entry(entry) for entry in table]
        counts = padded.reshape([size for size, _ in entries])
        for at, (_, positions) in enumerate(entries):
            if positions is not None:
                counts = np.take(counts, positions, axis=at)
        return counts

    def padded(self, table: Table, real: NDArray[_Number]) -> NDArray[_Number]:
        """The padded cells of a table from its real ones, with zeros elsewhere; extra trailing axes are kept."""
        counts: NDArray[_Number] = real
        for at, entry in enumerate(table):
            size, positions = self._entry(entry)
            if positions is not None:
                wider = np.zeros([*counts.shape[:at], size, *counts.shape[at + 1 :]], dtype=counts.dtype)
                wider[(slice(None),) * at + (positions,)] = counts
                counts = wider
        return counts

    def look(self, entry: str | Axis) -> tuple[int, bytes]:
        """A key that is equal for entries with the same number of padded cells and the same real ones among them."""
        size, positions = self._entry(entry)
        return size, b"" if positions is None else positions.tobytes()

    def _entry(self, entry: str | Axis) -> tuple[int, NDArray[np.int64] | None]:
        """The number of padded cells of an entry and the positions of the real ones, None if all are real, in order."""
        if entry not in self._known:
            axis = Axis.of(entry)
            attribute = self.frame.schema[axis.attribute]
            axes = self.frame.footprint(attribute, axis.level)
            size = prod([self.frame.sizes[number][level] for number, level in axes])
            positions = np.asarray(self.frame.positions(attribute, axis.level), dtype=np.int64)
            same = len(positions) == size and bool(np.all(positions == np.arange(size)))
            self._known[entry] = (size, None if same else positions)
        return self._known[entry]


def range_sums(counts: Floats, axis: int, queries: Queries, cells: int) -> Floats:
    """All prefixes or ranges over the given number of first cells of an axis.

    >>> range_sums(np.array([1.0, 2.0, 4.0]), 0, "ranges", 3).tolist()
    [1.0, 3.0, 7.0, 2.0, 6.0, 4.0]
    """
    moved = np.moveaxis(counts, axis, -1)[..., :cells]
    running = np.concatenate([np.zeros((*moved.shape[:-1], 1)), np.cumsum(moved, axis=-1)], axis=-1)
    first, last = bounds(queries, cells)
    return np.moveaxis(running[..., last] - running[..., first], -1, axis)


class Publisher:
    """Turns padded tables into published ones; caches the weights of each attribute and level."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._known: dict[str | Axis, tuple[int, Floats | None]] = {}

    def published(self, table: Table, padded: Floats) -> Floats:
        """The published table from its padded cells."""
        entries = [self._entry(entry) for entry in table]
        counts = padded.reshape([size for size, _ in entries])
        for at, (_, rows) in enumerate(entries):
            if rows is not None:
                counts = np.moveaxis(np.tensordot(rows, counts, axes=(1, at)), 0, at)
        return with_ranges(self._frame.schema, table, counts)

    def _entry(self, entry: str | Axis) -> tuple[int, Floats | None]:
        if entry not in self._known:
            axis = Axis.of(entry)
            rows = cell_rows(self._frame, self._frame.schema[axis.attribute], axis.level)
            self._known[entry] = (padded_cells(self._frame, entry), rows)
        return self._known[entry]


def recovered_table(frame: Frame, table: Table) -> Table:
    """The table of cells that a table is summed from; ranges and levels missing from the frame become plain attributes.

    >>> from privcube import Attribute, Level, Schema
    >>> area = Attribute("area", size=4, levels=[Level("region", width=2)])
    >>> recovered_table(Frame(Schema([area]), "natural"), (Axis("area", "region"),))
    ('area',)
    """
    return tuple([recovered_entry(frame, entry) for entry in table])


def added_up(frame: Frame, table: Table, cells: Floats) -> Floats:
    """A table summed from the published numbers of its `recovered_table`."""
    counts = with_ranges(frame.schema, table, cells)
    for at, entry in enumerate(table):
        group_of = group_of_cells(frame, entry)
        if group_of is not None:
            counts = grouped(counts, at, group_of)
    return counts
