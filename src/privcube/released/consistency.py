"""Consistency: tables that agree, nearest to the given ones (sections 3.3 and 4.3 of the paper). Zone: RELEASED.

Tables agree exactly if they come from one set of residual coordinates (for binary attributes, Fourier coefficients).
The nearest ones in L2 are recovered in closed form from the given tables, as if with equal noise. In L1 and L-infinity
they solve linear programs over the coordinates, with m variables for K cells, regardless of the size of the domain. By
the triangle inequality, the result is at most twice as far from the truth as the input.

See THEORY section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from privcube.accuracy.layout import Layout
from privcube.accuracy.published import group_of_cells
from privcube.accuracy.recovery import recover_cells
from privcube.algebra.lattice import Floats, Integers
from privcube.algebra.residuals import from_residuals, level_slice, real_shares
from privcube.algebra.sparse import scipy_sparse
from privcube.errors import Plain, PlanError
from privcube.linear.consistency import NORMS, nearest
from privcube.model.frame import Frame
from privcube.model.groups import QueryGroup, cells_groups
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, axis_cells, table_name


def consistent_tables(schema: Schema, tables: Mapping[Table, Floats], norm: float = 2) -> dict[Table, Floats]:
    """Tables of cells that agree, nearest to the given ones in L1, L2 or L-infinity over all cells.

    Where an attribute has levels of unequal fan-outs, the closed form for L2 takes differences from an even share among
    the real cells: the result agrees and is unbiased, but is only approximately the nearest.

    >>> schema = Schema.from_sizes({"a": 2, "b": 2})
    >>> tables = {("a",): np.array([7.0, 3.0]), ("a", "b"): np.array([[1.0, 2.0], [3.0, 4.0]])}
    >>> consistent_tables(schema, tables)["a",].round(4).tolist()
    [5.6667, 4.3333]
    """
    if norm not in NORMS:
        raise PlanError("norm", expected="1, 2 or infinity", given=norm)
    given = {table: _checked(schema, table, counts) for table, counts in tables.items()}
    if not given:
        raise PlanError("tables", expected="at least one", given=Plain("none"))
    frame = _frame(schema, given)
    chains = zip(frame.fan_outs, schema, strict=True)
    shares = [real_shares(chain, frame.positions(attribute)) for chain, attribute in chains]
    return _by_projection(frame, given, shares) if norm == 2 else _by_program(frame, given, shares, norm)


def _by_projection(frame: Frame, tables: dict[Table, Floats], shares: list[list[Floats]]) -> dict[Table, Floats]:
    layout, names = Layout(frame), list(tables)
    values = np.concatenate([layout.padded(table, counts).ravel() for table, counts in tables.items()])
    groups = cells_groups(frame, names)
    return recover_cells(frame, names, groups, np.ones(len(names)), values, shares if frame.has_padding else None)


def _by_program(
    frame: Frame, tables: dict[Table, Floats], shares: list[list[Floats]], norm: float
) -> dict[Table, Floats]:
    sparse = scipy_sparse()
    first: dict[tuple[tuple[int, int], ...], int] = {}  # residual -> its first coordinate
    blocks, width = [], 0
    for table, group in zip(tables, cells_groups(frame, tables), strict=True):
        matrix, columns, width = _from_coordinates(frame, table, group, shares, first, width)
        blocks.append((matrix, columns))
    rows = []
    for matrix, columns in blocks:
        spread = sparse.csr_array(
            (np.ones(len(columns)), (np.arange(len(columns)), columns)), shape=(len(columns), width)
        )
        rows.append(matrix @ spread)
    whole = sparse.vstack(rows, format="csr")
    answers = whole @ nearest(whole, np.concatenate([counts.ravel() for counts in tables.values()]), norm)
    ends = np.cumsum([counts.size for counts in tables.values()])[:-1]
    pieces = zip(tables.items(), np.split(answers, ends), strict=True)
    return {table: piece.reshape(counts.shape) for (table, counts), piece in pieces}


def _from_coordinates(
    frame: Frame,
    table: Table,
    group: QueryGroup,
    shares: list[list[Floats]],
    first: dict[tuple[tuple[int, int], ...], int],
    width: int,
) -> tuple[Any, Integers, int]:
    """A matrix from a table's coordinates to its real cells, the coordinates' indices among all, and how many exist."""
    sparse = scipy_sparse()
    factors, levels_of = [], []
    for part in group:
        matrix, level_of = _axis_matrix(frame.fan_outs[part.axis][: part.level], shares[part.axis][: part.level])
        factors.append(sparse.csr_array(matrix))
        levels_of.append(level_of)
    one = sparse.csr_array(np.ones((1, 1)))
    whole = reduce(lambda left, right: sparse.kron(left, right, format="csr"), factors, one)
    numbers = np.zeros([len(level_of) for level_of in levels_of], dtype=np.int64)
    for levels in np.ndindex(*(part.level + 1 for part in group)):
        where = np.ix_(*(np.flatnonzero(of == level) for of, level in zip(levels_of, levels, strict=True)))
        shape = np.shape(numbers[where])
        residual = tuple((part.axis, level) for part, level in zip(group, levels, strict=True) if level)
        if residual not in first:
            first[residual], width = width, width + prod(shape)
        numbers[where] = first[residual] + np.arange(prod(shape)).reshape(shape)
    place = np.arange(whole.shape[0], dtype=np.float64)
    kept = Layout(frame).real(table, place).ravel().astype(np.int64)
    return whole[kept], numbers.ravel(), width


def _axis_matrix(chain: Sequence[int], shares: Sequence[Floats]) -> tuple[Floats, Integers]:
    """A matrix from the free coordinates of an axis to its padded cells, and the level of each coordinate.

    A parent with f real children has f - 1 free differences: the last real child balances the others, and the padded
    children, which come after the real ones, stay at zero.
    """
    size = prod(chain)
    completed, level_of = [np.eye(size)[:, :1]], [0]
    for level in range(1, len(chain) + 1):
        start, slots = level_slice(chain, level).start, chain[level - 1] - 1
        for parent, real in enumerate((shares[level - 1] > 0).sum(axis=1).tolist()):
            for child in range(real - 1):
                column = np.zeros((size, 1))
                column[start + parent * slots + child] = 1.0
                if real <= slots:
                    column[start + parent * slots + real - 1] = -1.0
                completed.append(column)
                level_of.append(level)
    return from_residuals(np.hstack(completed), 0, chain, shares), np.array(level_of)


def _checked(schema: Schema, table: Table, counts: Floats) -> Floats:
    shape = tuple(axis_cells(schema, entry) for entry in table)
    numbers = np.asarray(counts, dtype=np.float64)
    if numbers.shape != shape or not np.all(np.isfinite(numbers)):
        raise PlanError(f"table {table_name(table)}", expected=f"finite counts of shape {shape}", given=numbers.shape)
    if any(isinstance(entry, Axis) and entry.queries != "cells" for entry in table):
        raise PlanError(f"table {table_name(table)}", expected="cells (ranges follow from them)")
    return numbers


def _frame(schema: Schema, tables: Mapping[Table, Floats]) -> Frame:
    """A frame that has the levels of all tables."""
    frame = Frame.natural(Workload(schema, dict.fromkeys(tables, 1.0)))
    for table in tables:
        if any(group_of_cells(frame, entry) is not None for entry in table):
            raise PlanError(f"table {table_name(table)}", expected="levels that nest with those of the other tables")
    return frame
