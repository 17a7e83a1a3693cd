"""Workloads and strategies as explicit sparse matrices, for small domains and for tests. Zone: PUBLIC.

Columns are the cells of the base table in row-major order of the schema; with a frame, its padded cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, Final

import numpy as np

from privcube.algebra.hashing import bucket_and_sign
from privcube.algebra.lattice import Integers
from privcube.algebra.residuals import helmert_rows
from privcube.errors import PlanError, counted
from privcube.linear.sparse import scipy_sparse
from privcube.model.frame import Frame
from privcube.model.groups import Group, MatrixGroup, SketchGroup
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload
from privcube.planning.published import cell_rows, published_rows
from privcube.planning.ranges import bounds

_MOST_COLUMNS: Final = 1_000_000


def workload_matrix(workload: Workload, frame: Frame | None = None) -> Any:
    """Q: one row per cell of each table, in table order."""
    whole = Frame.natural(workload) if frame is None else frame
    matrix = scipy_sparse().vstack([_table_matrix(whole, table) for table in workload], format="csr")
    return matrix[:, real_columns(whole)] if frame is None else matrix


def strategy_matrix(frame: Frame, groups: Sequence[Group]) -> Any:
    """S: the rows of every group, over the padded cells of a frame."""
    return scipy_sparse().vstack([_group_matrix(frame, group) for group in groups], format="csr")


def real_columns(frame: Frame) -> Integers:
    """Where the cells of the base table stand among the padded cells of a frame."""
    place = np.zeros(1, dtype=np.int64)
    for attribute in frame.schema:
        size = _padded_size(frame, attribute.name)
        place = (place[:, None] * size + np.asarray(frame.positions(attribute), dtype=np.int64)).ravel()
    return place


def identity(cells: int) -> Any:
    """I: the base counts."""
    return scipy_sparse().eye_array(cells, format="csr")


def fourier(bits: int) -> Any:
    """F: all Fourier coefficients of so many binary attributes, with entries +1 and -1 (the paper's times 2^(d/2)).

    >>> fourier(1).toarray().tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    """
    sparse = scipy_sparse()
    one = sparse.csr_array(np.array([[1.0, 1.0], [1.0, -1.0]]))
    return _kronecker([one] * bits)


def hierarchy(cells: int, branching: int = 2) -> Any:
    """H: all levels of a tree over the cells, from the root."""
    frame = _tree(cells, branching)
    levels = range(len(frame.fan_outs[0]) + 1)
    sparse = scipy_sparse()
    return sparse.vstack([_blocks(frame.sizes[0], level) for level in levels], format="csr")[:, :cells]


def haar(cells: int) -> Any:
    """W: the total and the Haar contrasts of every level, with entries 0, +1 and -1."""
    frame = _tree(cells, 2)
    sizes = frame.sizes[0]
    parts = [_blocks(sizes, 0)] + [_helmert(sizes, level) for level in range(1, len(sizes))]
    return scipy_sparse().vstack(parts, format="csr")[:, :cells]


def sketch(cells: int, buckets: int, partitions: int) -> Any:
    """Sparse random projections: each partition sends every cell to one of the buckets, with a sign.

    The partitions are fixed by their numbers (a hash), so that a plan can be written down and checked.
    """
    if min(cells, buckets, partitions) < 1:
        raise PlanError("sketch", expected="at least one cell, bucket and partition")
    parts = [_partition(SketchGroup(partition, buckets), cells) for partition in range(partitions)]
    return scipy_sparse().vstack(parts, format="csr")


def _partition(group: SketchGroup, cells: int) -> Any:
    bucket, sign = bucket_and_sign(group.partition, group.buckets, cells)
    where = (bucket, np.arange(cells))
    return scipy_sparse().csr_array((sign.astype(float), where), shape=(group.buckets, cells))


def _tree(cells: int, branching: int) -> Frame:
    return Frame(Schema.from_sizes({"cell": cells}), "tree", branching, frozenset(["cell"]))


def _table_matrix(frame: Frame, table: Table) -> Any:
    axes = {axis.attribute: axis for axis in (e if isinstance(e, Axis) else Axis(e) for e in table)}
    factors = [_entry_matrix(frame, attribute.name, axes.get(attribute.name)) for attribute in frame.schema]
    return _kronecker(factors)


def _entry_matrix(frame: Frame, name: str, axis: Axis | None) -> Any:
    """The queries of one attribute over its padded cells: the numbers that are published.

    A cell of a level takes in its padding, as a node of the chain does: padded cells are empty.
    """
    sparse = scipy_sparse()
    attribute, size = frame.schema[name], _padded_size(frame, name)
    if axis is None:
        return sparse.csr_array(np.ones((1, size)))
    rows = published_rows(frame, axis) if cell_rows(frame, attribute, axis.level) is not None else None
    if rows is not None:
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


def _group_matrix(frame: Frame, group: Group) -> Any:
    if isinstance(group, SketchGroup):
        return _partition(group, frame.schema.domain_size)
    if isinstance(group, MatrixGroup):
        return _on_padded(frame, group)
    by_axis = {part.axis: part for part in group}
    factors = []
    for axis, sizes in enumerate(frame.sizes):
        part = by_axis.get(axis)
        level = part.level if part else 0
        factors.append(_blocks(sizes, level) if part is None or part.kind == "cells" else _helmert(sizes, level))
    return _kronecker(factors)


def spread(schema: Schema, group: MatrixGroup) -> Integers:
    """The rows of a matrix group over the cells of a whole schema: the same for cells that differ elsewhere.

    >>> spread(Schema.from_sizes({"a": 2, "b": 2}), MatrixGroup(("b",), ((1, 5),))).tolist()
    [[1, 5, 1, 5]]
    """
    shape = [attribute.cells if attribute.name in group.attributes else 1 for attribute in schema]
    rows = group.matrix.reshape(len(group.rows), *shape)
    return np.ascontiguousarray(np.broadcast_to(rows, (len(rows), *schema.shape))).reshape(len(rows), -1)


def _on_padded(frame: Frame, group: MatrixGroup) -> Any:
    """The rows of a matrix group over the padded cells of a frame: 0 for padding."""
    whole = np.zeros((len(group.rows), prod([_padded_size(frame, name) for name in frame.schema.names])))
    whole[:, real_columns(frame)] = spread(frame.schema, group)
    return scipy_sparse().csr_array(whole)


def _blocks(sizes: Sequence[int], level: int) -> Any:
    sparse = scipy_sparse()
    return sparse.kron(sparse.eye_array(sizes[level]), np.ones((1, sizes[-1] // sizes[level])), format="csr")


def _helmert(sizes: Sequence[int], level: int) -> Any:
    """Helmert rows of the children of every node one level up; contrasts are those of two children."""
    sparse = scipy_sparse()
    rows = helmert_rows(sizes[level] // sizes[level - 1]).astype(np.float64)
    spread = np.kron(rows, np.ones((1, sizes[-1] // sizes[level])))
    return sparse.kron(sparse.eye_array(sizes[level - 1]), spread, format="csr")


def _kronecker(factors: Sequence[Any]) -> Any:
    sparse = scipy_sparse()
    columns = prod(factor.shape[1] for factor in factors)
    if columns > _MOST_COLUMNS:
        raise PlanError(
            "explicit matrix", expected=f"a domain of at most {_MOST_COLUMNS:,} cells", given=counted(columns)
        )
    one = sparse.csr_array(np.ones((1, 1)))
    return reduce(lambda left, right: sparse.kron(left, right, format="csr"), factors, one)


def _padded_size(frame: Frame, name: str) -> int:
    return prod([frame.sizes[axis][-1] for axis, _ in frame.footprint(frame.schema[name])])
