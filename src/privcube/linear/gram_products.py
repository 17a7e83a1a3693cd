"""Rows times the Gram matrix of a workload, without forming it where that is faster. Zone: PUBLIC.

W = Q'Q is a sum over tables of Kronecker products over attributes. Rows times such a product go through the attributes
one by one: a sum, nothing, sums within the groups of a level, or running sums for ranges and prefixes
(`privcube.accuracy.ranges.gram_times`). So a row takes time in proportion to the cells, per table, and not to their
square.

See THEORY section 12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from privcube.accuracy.matrix_structure import axis_of, membership, workload_gram
from privcube.accuracy.ranges import gram_times
from privcube.algebra.lattice import Floats
from privcube.model.measures.measure import cell_weights
from privcube.model.schema import Schema
from privcube.model.workload import Table, Workload

_FACTOR: Final = 64  # cells per table and attribute from which running sums are faster than a matrix product

Products = Callable[[Floats], Floats]


def gram_products(schema: Schema, workload: Workload) -> tuple[Products, Floats]:
    """The map from rows over the cells of a schema to rows times W, and the diagonal of W.

    >>> schema = Schema.from_sizes({"a": 2})
    >>> times, diagonal = gram_products(schema, Workload.prefixes(schema, ["a"]))
    >>> times(np.array([[1.0, 0.0]])).tolist(), diagonal.tolist()
    ([[2.0, 1.0]], [2.0, 1.0])
    """
    if schema.domain_size <= _FACTOR * len(workload) * len(schema):
        gram = workload_gram(schema, workload)
        return lambda rows: rows @ gram, np.diag(gram).copy()
    weighted = list(zip(workload, workload.weights, strict=True))

    def times(rows: Floats) -> Floats:
        found = np.zeros(rows.shape)
        for table, weight in weighted:
            found += weight * table_times(schema, table, rows)
        return found

    return times, _diagonal(schema, workload)


def table_times(schema: Schema, table: Table, rows: Floats) -> Floats:
    """Rows over the cells of a schema times Q'Q of one table."""
    found = rows.reshape(-1, *schema.shape)
    for at, attribute in enumerate(schema, start=1):
        axis = axis_of(table, attribute)
        if axis is None:
            found = np.broadcast_to(found.sum(axis=at, keepdims=True), found.shape)
        elif axis.is_measured:
            weights = cell_weights(attribute, axis.queries)
            found = np.moveaxis(np.multiply.outer(np.tensordot(found, weights, axes=(at, 0)), weights), -1, at)
        elif axis.is_ranged:
            scale = attribute.ordered_cells
            ordered = gram_times(axis.queries, np.moveaxis(found, at, -1)[..., :scale])
            if scale < attribute.cells:
                ordered = np.pad(ordered, [(0, 0)] * (found.ndim - 1) + [(0, attribute.cells - scale)])
            found = np.moveaxis(ordered, -1, at)
        elif axis.level is not None:
            members = membership(attribute, axis)
            found = np.moveaxis(np.moveaxis(found, at, -1) @ members.T @ members, -1, at)
    return np.ascontiguousarray(found).reshape(rows.shape)


def _diagonal(schema: Schema, workload: Workload) -> Floats:
    total = np.zeros(schema.domain_size)
    for table, weight in zip(workload, workload.weights, strict=True):
        product = np.full(1, weight)
        for attribute in schema:
            axis, own = axis_of(table, attribute), np.ones(attribute.cells)
            if axis is not None and axis.is_measured:
                own = cell_weights(attribute, axis.queries) ** 2
            elif axis is not None and axis.is_ranged:
                cells = attribute.ordered_cells
                after = np.arange(cells, 0, -1.0)
                own[:cells] = after * np.arange(1.0, cells + 1) if axis.queries == "ranges" else after
                own[cells:] = 0.0
            product = np.asarray(np.kron(product, own), dtype=np.float64)
        total += product
    return total
