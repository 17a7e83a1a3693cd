"""From the padded axes of a frame to the cells and ranges of a published table. Zone: RELEASED."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.model.frame import Frame
from privcube.model.workload import Axis, Queries, Table
from privcube.planning.ranges import bounds


def published(frame: Frame, table: Table, padded: Floats) -> Floats:
    """The cells of a table in the order of their labels, padding dropped, ranges added up."""
    shape, positions, queries = [], [], []
    for entry in table:
        axis = entry if isinstance(entry, Axis) else Axis(entry)
        attribute = frame.schema[axis.attribute]
        shape.append(prod([frame.sizes[number][level] for number, level in frame.footprint(attribute, axis.level)]))
        positions.append(frame.positions(attribute, axis.level))
        queries.append((axis.queries, attribute.ordered_cells))
    counts = padded.reshape(shape)
    for at, place in enumerate(positions):
        if len(place) != shape[at] or not _in_order(place):
            counts = np.take(counts, np.asarray(place), axis=at)
    for at, (kind, cells) in enumerate(queries):
        if kind != "cells":
            counts = range_sums(counts, at, kind, cells)
    return counts


def range_sums(counts: Floats, axis: int, queries: Queries, cells: int) -> Floats:
    """All prefixes or ranges over the first cells of an axis.

    >>> range_sums(np.array([1.0, 2.0, 4.0]), 0, "ranges", 3).tolist()
    [1.0, 3.0, 7.0, 2.0, 6.0, 4.0]
    """
    moved = np.moveaxis(counts, axis, -1)[..., :cells]
    running = np.concatenate([np.zeros((*moved.shape[:-1], 1)), np.cumsum(moved, axis=-1)], axis=-1)
    first, last = bounds(queries, cells)
    return np.moveaxis(running[..., last] - running[..., first], -1, axis)


def _in_order(place: Sequence[int]) -> bool:
    return isinstance(place, range) or all(at == position for at, position in enumerate(place))
