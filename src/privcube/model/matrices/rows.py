"""Groups written out as rows of a matrix over the cells of a frame. Zone: PUBLIC.

This is the plain definition of a group: tests compare the code that counts, prices or recovers groups with these rows,
and small domains use them directly. Columns are the padded cells of the frame in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any, Final

import numpy as np

from privcube.algebra.hashing import bucket_and_sign
from privcube.algebra.lattice import Integers
from privcube.algebra.residuals import helmert_rows, square_rows
from privcube.algebra.sparse import scipy_sparse
from privcube.errors import Plain, PlanError, counted
from privcube.model.frame import Frame
from privcube.model.groups import Block, BlockGroup, Group, MatrixGroup, SketchGroup
from privcube.model.schema import Schema

_MOST_COLUMNS: Final = 1_000_000  # of an explicit matrix, so that it fits in memory


def strategy_matrix(frame: Frame, groups: Sequence[Group]) -> Any:
    """The strategy matrix S: the rows of every group, over the padded cells of a frame."""
    return scipy_sparse().vstack([_group_matrix(frame, group) for group in groups], format="csr")


def real_columns(frame: Frame) -> Integers:
    """The positions of the base table's cells among the padded cells of a frame."""
    place = np.zeros(1, dtype=np.int64)
    for attribute in frame.schema:
        size = padded_size(frame, attribute.name)
        place = (place[:, None] * size + np.asarray(frame.positions(attribute), dtype=np.int64)).ravel()
    return place


def spread(schema: Schema, group: MatrixGroup) -> Integers:
    """The rows of a matrix group over all cells of a schema; only the group's own attributes matter.

    >>> spread(Schema.from_sizes({"a": 2, "b": 2}), MatrixGroup(("b",), ((1, 5),))).tolist()
    [[1, 5, 1, 5]]
    """
    shape = [attribute.cells if attribute.name in group.attributes else 1 for attribute in schema]
    rows = group.matrix.reshape(len(group.rows), *shape)
    return np.ascontiguousarray(np.broadcast_to(rows, (len(rows), *schema.shape))).reshape(len(rows), -1)


def _group_matrix(frame: Frame, group: Group) -> Any:
    if isinstance(group, SketchGroup):
        return partition_rows(group, frame.schema.domain_size)
    if isinstance(group, MatrixGroup):
        return _on_padded(frame, spread(frame.schema, group))
    if isinstance(group, BlockGroup):
        return _on_padded(frame, np.concatenate([_spread_block(frame.schema, block) for block in group.blocks]))
    by_axis = {part.axis: part for part in group}
    factors = []
    for axis, sizes in enumerate(frame.sizes):
        part = by_axis.get(axis)
        level = part.level if part else 0
        if part is None or part.kind == "cells":
            factors.append(block_rows(sizes, level))
        else:
            factors.append(node_rows(sizes, level, square_rows if part.kind == "squares" else helmert_rows))
    return kronecker(factors)


def partition_rows(group: SketchGroup, cells: int) -> Any:
    bucket, sign = bucket_and_sign(group.partition, group.buckets, cells)
    where = (bucket, np.arange(cells))
    return scipy_sparse().csr_array((sign.astype(float), where), shape=(group.buckets, cells))


def _spread_block(schema: Schema, block: Block) -> Integers:
    """The rows of a block over all cells of a schema, one value at a time: the definition of a block."""
    matrix = spread(schema, block.matrix)
    values = np.indices(schema.shape).reshape(len(schema), -1)
    rows = []
    for row in matrix:
        products = [row]
        for at, attribute in enumerate(schema):
            if attribute.name in block.contrasted:
                helmert = helmert_rows(attribute.cells)[:, values[at]]
                products = [product * own for product in products for own in helmert]
        rows += products
    return np.array(rows, dtype=np.int64).reshape(-1, matrix.shape[1])


def _on_padded(frame: Frame, rows: Integers) -> Any:
    """Rows over the cells of a schema as rows over the padded cells of a frame, with 0 for padding."""
    whole = np.zeros((len(rows), prod([padded_size(frame, name) for name in frame.schema.names])))
    whole[:, real_columns(frame)] = rows
    return scipy_sparse().csr_array(whole)


def block_rows(sizes: Sequence[int], level: int) -> Any:
    sparse = scipy_sparse()
    return sparse.kron(sparse.eye_array(sizes[level]), np.ones((1, sizes[-1] // sizes[level])), format="csr")


def helmert_level_rows(sizes: Sequence[int], level: int) -> Any:
    """Helmert rows of the children of every node one level up; with two children, they are contrasts."""
    return node_rows(sizes, level, helmert_rows)


def node_rows(sizes: Sequence[int], level: int, rows_of: Callable[[int], Integers]) -> Any:
    """The same rows over the children of every node one level up."""
    sparse = scipy_sparse()
    rows = rows_of(sizes[level] // sizes[level - 1]).astype(np.float64)
    spread = np.kron(rows, np.ones((1, sizes[-1] // sizes[level])))
    return sparse.kron(sparse.eye_array(sizes[level - 1]), spread, format="csr")


def kronecker(factors: Sequence[Any]) -> Any:
    sparse = scipy_sparse()
    columns = prod(factor.shape[1] for factor in factors)
    if columns > _MOST_COLUMNS:
        raise PlanError(
            "explicit matrix", expected=f"a domain of at most {_MOST_COLUMNS:,} cells", given=Plain(counted(columns))
        )
    one = sparse.csr_array(np.ones((1, 1)))
    return reduce(lambda left, right: sparse.kron(left, right, format="csr"), factors, one)


def padded_size(frame: Frame, name: str) -> int:
    return prod([frame.sizes[axis][-1] for axis, _ in frame.footprint(frame.schema[name])])
