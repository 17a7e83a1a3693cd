"""Workloads and strategies as explicit sparse matrices, for small domains and tests. Zone: PUBLIC.

Columns are the cells of the base table in row-major order of the schema or, with a frame, its padded cells.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from privcube.accuracy.published import group_of_cells, is_padded, published_rows
from privcube.accuracy.ranges import bounds
from privcube.algebra.sparse import scipy_sparse
from privcube.errors import PlanError
from privcube.model.frame import Frame
from privcube.model.groups import SketchGroup
from privcube.model.matrices.rows import (
    block_rows,
    helmert_level_rows,
    kronecker,
    padded_size,
    partition_rows,
    real_columns,
)
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload


def workload_matrix(workload: Workload, frame: Frame | None = None) -> Any:
    """Q: one row per cell of each table, in table order."""
    whole = Frame.natural(workload) if frame is None else frame
    matrix = scipy_sparse().vstack([_table_matrix(whole, table) for table in workload], format="csr")
    return matrix[:, real_columns(whole)] if frame is None else matrix


def identity(cells: int) -> Any:
    """I: the base counts."""
    return scipy_sparse().eye_array(cells, format="csr")


def fourier(bits: int) -> Any:
    """F: all Fourier coefficients of d binary attributes, with entries +1 and -1 (the paper's times 2^(d/2)).

    >>> fourier(1).toarray().tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    sparse = scipy_sparse()
    one = sparse.csr_array(np.array([[1.0, 1.0], [1.0, -1.0]]))
    return kronecker([one] * bits)


def hierarchy(cells: int, branching: int = 2) -> Any:
    """H: all levels of a tree over the cells, starting from the root."""
    frame = _tree(cells, branching)
    levels = range(len(frame.fan_outs[0]) + 1)
    sparse = scipy_sparse()
    return sparse.vstack([block_rows(frame.sizes[0], level) for level in levels], format="csr")[:, :cells]


def haar(cells: int) -> Any:
    """W: the total and the Haar contrasts of every level, with entries 0, +1 and -1."""
    frame = _tree(cells, 2)
    sizes = frame.sizes[0]
    parts = [block_rows(sizes, 0)] + [helmert_level_rows(sizes, level) for level in range(1, len(sizes))]
    return scipy_sparse().vstack(parts, format="csr")[:, :cells]


def sketch(cells: int, buckets: int, partitions: int) -> Any:
    """Sparse random projections: each partition sends every cell to one of the buckets, with a sign.

    A hash of its number fixes each partition, so a plan can be written down and checked.
    """
    if min(cells, buckets, partitions) < 1:
        raise PlanError("sketch", expected="at least one cell, bucket and partition")
    parts = [partition_rows(SketchGroup(partition, buckets), cells) for partition in range(partitions)]
    return scipy_sparse().vstack(parts, format="csr")


def _tree(cells: int, branching: int) -> Frame:
    return Frame(Schema.from_sizes({"cell": cells}), "tree", branching, frozenset(["cell"]))


def _table_matrix(frame: Frame, table: Table) -> Any:
    axes = {axis.attribute: axis for axis in (Axis.of(e) for e in table)}
    factors = [_entry_matrix(frame, attribute.name, axes.get(attribute.name)) for attribute in frame.schema]
    return kronecker(factors)


def _entry_matrix(frame: Frame, name: str, axis: Axis | None) -> Any:
    """The published queries of one attribute over its padded cells.

    A cell of a level includes its padding, as a node of the chain does, since padded cells are empty.
    """
    sparse = scipy_sparse()
    attribute, size = frame.schema[name], padded_size(frame, name)
    if axis is None:
        return sparse.csr_array(np.ones((1, size)))
    if is_padded(frame, axis) or group_of_cells(frame, axis) is not None or axis.is_measured:
        rows = published_rows(frame, axis)
        assert rows is not None
        return sparse.csr_array(np.repeat(rows, size // rows.shape[1], axis=1))
    positions = np.asarray(frame.positions(attribute, axis.level), dtype=np.int64)
    if axis.queries == "cells":
        kept = prod([frame.sizes[number][level] for number, level in frame.footprint(attribute, axis.level)])
        query_of = np.full(kept, -1)
        query_of[positions] = np.arange(len(positions))
        query = query_of[np.arange(size) // (size // kept)]
        inside = np.flatnonzero(query >= 0)
        return sparse.csr_array((np.ones(len(inside)), (query[inside], inside)), shape=(len(positions), size))
    first, last = bounds(axis.queries, attribute.ordered_cells)
    cells = np.arange(attribute.ordered_cells)
    query, cell = np.nonzero((cells >= first[:, None]) & (cells < last[:, None]))
    return sparse.csr_array((np.ones(len(query)), (query, positions[cell])), shape=(len(first), size))
