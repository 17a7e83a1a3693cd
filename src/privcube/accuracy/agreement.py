"""From padded cells to published ones, so that all tables agree. Zone: PUBLIC.

Every published number is a known sum over padded cells (`privcube.accuracy.published`). Levels are in a frame only if
the workload asks for one of the attribute. The others are sums of the published cells, like ranges, so they agree with
them by construction.
"""

from __future__ import annotations

import numpy as np

from privcube.accuracy.layout import with_ranges
from privcube.accuracy.published import cell_rows, grouped, padded_cells, recovered_entry
from privcube.algebra.lattice import Floats
from privcube.model.frame import Frame
from privcube.model.workload import Axis, Table


class Publisher:
    """Makes published tables of padded ones; remembers the weights of each attribute and level."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._known: dict[str | Axis, tuple[int, Floats | None]] = {}

    def published(self, table: Table, padded: Floats) -> Floats:
        """A table as it is published, from its padded cells."""
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
    """The cells that a table is added up from: ranges, and levels that the frame has not, from those of the attribute.

    >>> from privcube import Attribute, Level, Schema
    >>> area = Attribute("area", size=4, levels=[Level("region", width=2)])
    >>> recovered_table(Frame(Schema([area]), "natural"), (Axis("area", "region"),))
    ('area',)
    """
    return tuple([recovered_entry(frame, entry) for entry in table])


def added_up(frame: Frame, table: Table, cells: Floats) -> Floats:
    """A table from the published numbers of its `recovered_table`."""
    counts = with_ranges(frame.schema, table, cells)
    for at, (entry, known) in enumerate(zip(table, recovered_table(frame, table), strict=True)):
        if isinstance(entry, Axis) and entry.level and entry != known:
            counts = grouped(counts, at, frame.schema[entry.attribute].partition(entry.level))
    return counts
