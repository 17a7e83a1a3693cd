"""From padded cells to published ones, so that all tables agree. Zone: RELEASED.

Recovery works on padded axes, and its padded tables agree with each other. What it finds in padded cells is noise
around nothing, but dropping it would leave parents that differ from the sum of their children. So it is shared out
evenly among the real cells beside it, from the coarsest level to the finest: a child gets c + (P - sum of c over the
real children) / (number of real children), with P what its parent is published with. Sums are kept at every level,
nothing is biased, and every published number is a known linear query on padded cells, whose variance is known in closed
form (`privcube.released.error_bars`). Without padding nothing changes.

Levels are in a frame only if the workload asks for one of the attribute. The others are sums of the published cells,
like ranges, so they agree with them by construction.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.model.attribute import Attribute
from privcube.model.frame import Frame
from privcube.model.levels import Partition
from privcube.model.workload import Axis, Table
from privcube.planning.layout import with_ranges
from privcube.planning.ranges import bounds


def published(frame: Frame, table: Table, padded: Floats) -> Floats:
    """A table as it is published, from its padded cells."""
    counts = padded.reshape([padded_cells(frame, entry) for entry in table])
    for at, entry in enumerate(table):
        axis = entry if isinstance(entry, Axis) else Axis(entry)
        rows = cell_rows(frame, frame.schema[axis.attribute], axis.level)
        if rows is not None:
            counts = np.moveaxis(np.tensordot(rows, counts, axes=(1, at)), 0, at)
    return with_ranges(frame.schema, table, counts)


def recovered_table(frame: Frame, table: Table) -> Table:
    """The cells that a table is added up from: ranges, and levels that the frame has not, from those of the attribute.

    >>> from privcube.model.levels import Level
    >>> from privcube.model.schema import Schema
    >>> area = Attribute("area", size=4, levels=[Level("region", width=2)])
    >>> recovered_table(Frame(Schema([area]), "natural"), (Axis("area", "region"),))
    ('area',)
    """
    return tuple([_recovered_entry(frame, entry) for entry in table])


def _recovered_entry(frame: Frame, entry: str | Axis) -> str | Axis:
    if isinstance(entry, str):
        return entry
    return entry if entry.level and frame.keeps_levels(entry.attribute) else entry.attribute


def added_up(frame: Frame, table: Table, cells: Floats) -> Floats:
    """A table from the published numbers of its `recovered_table`."""
    counts = with_ranges(frame.schema, table, cells)
    for at, (entry, known) in enumerate(zip(table, recovered_table(frame, table), strict=True)):
        if isinstance(entry, Axis) and entry.level and entry != known:
            counts = _grouped(counts, at, frame.schema[entry.attribute].partition(entry.level))
    return counts


def _grouped(counts: Floats, at: int, partition: Partition) -> Floats:
    """The cells along an axis added up to their groups."""
    moved = np.moveaxis(counts, at, 0)
    sums = np.zeros((partition.cells, *moved.shape[1:]))
    np.add.at(sums, np.asarray(partition.group_of), moved)
    return np.moveaxis(sums, 0, at)


def padded_cells(frame: Frame, entry: str | Axis) -> int:
    """How many padded cells an entry of a table is made of."""
    known = _recovered_entry(frame, entry)
    axis = known if isinstance(known, Axis) else Axis(known)
    return frame.nested_sizes(frame.schema[axis.attribute], axis.level)[-1]


def published_rows(frame: Frame, entry: str | Axis) -> Floats | None:
    """The published numbers of an entry as rows of weights on its padded cells; None for the cells as they are.

    >>> from privcube.model.schema import Schema
    >>> published_rows(Frame(Schema.from_sizes({"a": 3}), "binary"), "a").round(3).tolist()
    [[1.0, 0.0, 0.0, 0.333], [0.0, 1.0, 0.0, 0.333], [0.0, 0.0, 1.0, 0.333]]
    """
    axis = entry if isinstance(entry, Axis) else Axis(entry)
    attribute = frame.schema[axis.attribute]
    kept = axis.level is None or frame.keeps_levels(axis.attribute)
    rows = cell_rows(frame, attribute, axis.level if kept else None)
    if axis.queries == "cells" and kept:
        return rows
    if rows is None:
        rows = np.eye(attribute.cells)
    if axis.queries == "cells":
        return _grouped(rows, 0, attribute.partition(axis.level))
    running = np.vstack([np.zeros((1, rows.shape[1])), np.cumsum(rows[: attribute.ordered_cells], axis=0)])
    first, last = bounds(axis.queries, attribute.ordered_cells)
    return np.asarray(running[last] - running[first])


def cell_rows(frame: Frame, attribute: Attribute, level: str | None) -> Floats | None:
    """The published cells of an attribute as weights on its padded cells; None where they are the same, in order."""
    real = np.asarray(frame.positions(attribute, level), dtype=np.int64)
    sizes = frame.nested_sizes(attribute, level)
    padded = sizes[-1]
    if len(real) == padded and np.array_equal(real, np.arange(padded)):
        return None
    rows = {0: np.ones(padded)}
    above = 1
    for size in sizes:
        width, fan_out = padded // size, size // above
        children: defaultdict[int, list[int]] = defaultdict(list)
        for node in np.unique(real // width).tolist():
            children[node // fan_out].append(node)
        finer = {}
        for parent, nodes in children.items():
            own = np.zeros((len(nodes), padded))
            for at, node in enumerate(nodes):
                own[at, node * width : (node + 1) * width] = 1.0
            surplus = (rows[parent] - own.sum(axis=0)) / len(nodes)
            finer.update({node: own[at] + surplus for at, node in enumerate(nodes)})
        rows, above = finer, size
    return np.stack([rows[node] for node in real.tolist()])
