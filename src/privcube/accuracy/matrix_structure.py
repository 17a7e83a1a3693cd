"""Groups without product structure, on the cells of the attributes they use: dense least squares. Zone: PUBLIC.

Let S hold the rows over these n cells, v their noise variances, and B an orthonormal basis of the row space of S. With
the QR factorization diag(v)^(-1/2) S B = O T, the least-squares estimate of the cells x is N z with
N = B T^-1 O' diag(v)^(-1/2). Its covariance is L L' with L = N diag(u)^(1/2) if the noise drawn has variances u. The
queries never become a matrix: tables are summed from columns of L, a slice of memory at a time, and step 2 uses only
the Gram matrix of the workload, a sum of Kronecker products.

See THEORY section 12.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

import numpy as np

from privcube.accuracy.layout import with_ranges
from privcube.accuracy.ranges import bounds, gram
from privcube.accuracy.structure import Structure, WorkloadIndex
from privcube.algebra.lattice import Floats, Integers
from privcube.algebra.triangles import upper_inverse
from privcube.errors import Plain, PlanError, counted
from privcube.model.attribute import Attribute
from privcube.model.frame import Frame
from privcube.model.groups import BlockGroup, Group, MatrixGroup, is_structured, product_groups
from privcube.model.matrices.rows import spread, strategy_matrix
from privcube.model.measures.measure import cell_weights
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, table_cells, table_name

if TYPE_CHECKING:
    from privcube.accuracy.blocks.structure import BlockStructure

MOST_CELLS: Final = 1_024  # of the domain: dense algebra on n x n matrices takes time n^3
_MOST_ATTRIBUTES: Final = 30  # of the domain: arrays of cells have an axis for each, and numpy 1 allows 32
_DEPENDENT: Final = 1e-6  # ratio of pivots below which the row space is found by singular values
_OUTSIDE: Final = 1e-16  # part of a query's squared length outside the row space that counts as rounding
_SLICE: Final = 4_000_000  # numbers in memory at a time: 32 MB


@dataclass(frozen=True)
class ExplicitStructure:
    """How an explicit matrix S answers a workload; the counterpart of `Structure`."""

    workload: Workload
    schema: Schema  # of the attributes that groups or tables use
    groups: tuple[Group, ...]
    rows: Floats  # S
    group_of: Integers  # per row of S
    cells: Floats  # per table
    weights: Floats  # per table

    @classmethod
    def of(cls, workload: Workload, frame: Frame, groups: Sequence[Group]) -> ExplicitStructure:
        """Build the matrix; the domain must be small."""
        schema = schema_of(workload, groups)
        if schema.domain_size > MOST_CELLS:
            raise PlanError(
                "explicit rows",
                expected=f"a domain of at most {MOST_CELLS:,} cells",
                given=Plain(f"{counted(schema.domain_size)} cells"),
            )
        refuse_many_attributes("explicit rows", schema)
        parts = [_group_rows(schema, group) for group in groups]
        return cls(
            workload=workload,
            schema=schema,
            groups=tuple(groups),
            rows=np.concatenate(parts),
            group_of=np.repeat(np.arange(len(groups)), [len(part) for part in parts]),
            cells=np.array([table_cells(schema, table) for table in workload], dtype=np.float64),
            weights=np.array(workload.weights),
        )

    def table_variances(self, variances: Floats) -> Floats:
        """The mean variance of a cell of every table after optimal recovery."""
        return self.drawn_variances(variances, variances)

    def drawn_variances(self, weighted_by: Floats, drawn: Floats) -> Floats:
        """The mean cell variance of every table if recovery assumes some variances and the noise drawn has others."""
        factor = self.factor(weighted_by, drawn)
        for table in self.workload:
            if not self.determines(table):
                raise PlanError(
                    "strategy",
                    expected="rows that determine every query",
                    given=Plain(f"none for {table_name(table)}"),
                )
        return np.array([float(query_variances(self.schema, table, factor).mean()) for table in self.workload])

    def group_coefficients(self, variances: Floats) -> Floats:
        """The paper's sum of b_i over each group (without its factor 2) for the optimal R of these variances."""
        recovery = self.recovery(variances)
        per_row = np.sum(recovery * (workload_gram(self.schema, self.workload) @ recovery), axis=0)
        return np.asarray(np.bincount(self.group_of, per_row, minlength=len(self.groups)), dtype=np.float64)

    def recovery(self, variances: Floats) -> Floats:
        """N: the least-squares estimate of the cells from the answers, given the noise variance of every group.

        Only the ratios of the variances matter, so for a single group it is worked out once.
        """
        ratios = variances / variances[0]
        if ratios.tobytes() not in self._known:
            self._known.clear()
            self._known[ratios.tobytes()] = self._recovery(ratios)
        return self._known[ratios.tobytes()]

    @cached_property
    def _known(self) -> dict[bytes, Floats]:
        return {}

    def _recovery(self, variances: Floats) -> Floats:
        noise = np.sqrt(variances[self.group_of])
        whole = self._basis.shape[1] == len(self._basis)  # the rows determine every cell, and any basis will do
        rows = self.rows if whole else self.rows @ self._basis
        orthogonal, triangle = np.linalg.qr(rows / noise[:, None])
        diagonal = np.abs(np.diag(triangle))
        if diagonal.min() <= diagonal.max() * np.finfo(float).eps:
            raise PlanError("strategy", expected="finite noise on enough rows to determine every query")
        found = upper_inverse(triangle) @ orthogonal.T
        return np.asarray((found if whole else self._basis @ found) / noise)

    def factor(self, weighted_by: Floats, drawn: Floats) -> Floats:
        """L: the covariance of the estimated cells is L L'."""
        return self.recovery(weighted_by) * np.sqrt(drawn[self.group_of])

    def determines(self, table: Table) -> bool:
        """Whether every cell of a table is a combination of the rows."""
        if self._basis.shape[1] == len(self._basis):
            return True
        outside = query_variances(self.schema, table, np.eye(len(self._basis)) - self._basis @ self._basis.T)
        squares = query_variances(self.schema, table, np.eye(len(self._basis)))
        return bool(np.all(outside <= _OUTSIDE * squares))

    @cached_property
    def _basis(self) -> Floats:
        if len(self.rows) >= self.rows.shape[1]:
            pivots = np.abs(np.diag(np.linalg.qr(self.rows, mode="r")))
            if pivots.min() > pivots.max() * _DEPENDENT:
                return np.eye(self.rows.shape[1])
        _, singular, directions = np.linalg.svd(self.rows, full_matrices=False)
        return np.asarray(directions[singular > singular.max() * max(self.rows.shape) * np.finfo(float).eps].T)


def structure_of(
    workload: Workload,
    frame: Frame,
    groups: Sequence[Group],
    index: WorkloadIndex | None = None,
    told_by: Integers | None = None,
) -> Structure | ExplicitStructure | BlockStructure:
    """How groups answer a workload: in closed form if all are products over axes, else by blocks or a matrix."""
    if is_structured(groups):
        return Structure.of(workload, frame, product_groups(groups), index, told_by)
    if any(isinstance(group, BlockGroup) for group in groups):
        from privcube.accuracy.blocks.structure import BlockStructure  # here because it is built on this module

        return BlockStructure.of(workload, frame, groups)
    return ExplicitStructure.of(workload, frame, groups)


def schema_of(workload: Workload, groups: Sequence[Group] = ()) -> Schema:
    """The attributes that tables or matrices use, in schema order; any other group uses all of them."""
    names = {Axis.of(entry).attribute for table in workload for entry in table}
    for group in groups:
        names.update(group.attributes if isinstance(group, MatrixGroup) else workload.schema.names)
    return Schema([attribute for attribute in workload.schema if attribute.name in names])


def refuse_many_attributes(subject: str, schema: Schema) -> None:
    """Refuse a small domain of very many attributes, most of which have a single value."""
    if len(schema) > _MOST_ATTRIBUTES:
        raise PlanError(
            subject, expected=f"at most {_MOST_ATTRIBUTES} attributes", given=Plain(f"{len(schema):,} attributes")
        )


def workload_gram(schema: Schema, workload: Workload) -> Floats:
    """Q'Q with the weights of the tables, over the cells of a schema.

    >>> schema = Schema.from_sizes({"a": 2, "b": 2})
    >>> workload_gram(schema, Workload.tables(schema, [("a",), ("a", "b")])).tolist()
    [[2.0, 1.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0], [0.0, 0.0, 1.0, 2.0]]
    """
    return _gram(tuple(schema), list(zip(workload, workload.weights, strict=True)))


def _gram(attributes: tuple[Attribute, ...], tables: Sequence[tuple[Table, float]]) -> Floats:
    """Q'Q of weighted tables over some attributes: those with the same entry for the first share a product."""
    if not attributes:
        return np.full((1, 1), sum(weight for _, weight in tables))
    first, *others = attributes
    alike: defaultdict[Axis | None, list[tuple[Table, float]]] = defaultdict(list)
    for table, weight in tables:
        alike[axis_of(table, first)].append((table, weight))
    products = [np.kron(entry_gram(first, axis), _gram(tuple(others), own)) for axis, own in alike.items()]
    return np.asarray(reduce(np.add, products), dtype=np.float64)


def entry_gram(attribute: Attribute, axis: Axis | None) -> Floats:
    """Q'Q of one attribute in a table; None if the table sums it out."""
    if axis is None:
        return np.ones((attribute.cells, attribute.cells))
    if axis.queries == "cells":
        group_of = np.array(attribute.partition(axis.level).group_of)
        return np.asarray(group_of[:, None] == group_of, dtype=np.float64)
    if axis.is_measured:
        return np.multiply.outer(*(cell_weights(attribute, axis.queries),) * 2)
    scale = attribute.ordered_cells
    products = np.zeros((attribute.cells, attribute.cells))
    products[:scale, :scale] = gram(axis.queries, scale)
    return products


def query(schema: Schema, table: Table, place: Sequence[int]) -> Floats:
    """One query of a table, given by its place on every axis, as weights on the cells of a schema.

    >>> query(Schema.from_sizes({"a": 2, "b": 3}), ("a", Axis("b", queries="prefixes")), (1, 2)).tolist()
    [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    """
    weights, place_of = np.ones(1), dict(zip([Axis.of(entry).attribute for entry in table], place, strict=True))
    for attribute in schema:
        axis = axis_of(table, attribute)
        own = np.ones(attribute.cells)
        if axis is not None and axis.queries == "cells":
            own = membership(attribute, axis)[place_of[attribute.name]]
        elif axis is not None and axis.is_measured:
            own = cell_weights(attribute, axis.queries)
        elif axis is not None:
            first, last = (ends[place_of[attribute.name]] for ends in bounds(axis.queries, attribute.ordered_cells))
            own = np.where((np.arange(attribute.cells) >= first) & (np.arange(attribute.cells) < last), 1.0, 0.0)
        weights = np.asarray(np.kron(weights, own), dtype=np.float64)
    return weights


def query_variances(schema: Schema, table: Table, factor: Floats) -> Floats:
    """The variance of every cell of a table if the covariance of the cells of a schema is L L' with this factor L.

    Summing the columns of L rather than the covariance loses no digits where noisy cells add up to an accurate table.
    On the last axis of ranges only the prefixes P are summed, since |P_b - P_a|^2 follows from their products.

    >>> schema = Schema.from_sizes({"a": 3})
    >>> query_variances(schema, (Axis("a", queries="ranges"),), np.eye(3)).tolist()
    [1.0, 2.0, 3.0, 1.0, 2.0, 1.0]
    """
    ranged = [at for at, entry in enumerate(table) if isinstance(entry, Axis) and entry.queries == "ranges"]
    at = ranged[-1] if ranged else None
    summed = tuple(
        [e._replace(queries="prefixes") if n == at and isinstance(e, Axis) else e for n, e in enumerate(table)]
    )
    step = max(1, _SLICE // table_cells(schema, summed))
    total: Floats | float = 0.0
    for start in range(0, factor.shape[1], step):
        sums = added_up(schema, summed, factor[:, start : start + step])
        if at is None:
            total = total + np.sum(sums**2, axis=-1)
        else:
            rows = np.moveaxis(sums, at, -2)
            total = total + rows @ np.swapaxes(rows, -1, -2)
    found = np.asarray(total)
    if at is None:
        return found
    first, last = bounds("ranges", found.shape[-1])
    products = np.zeros((*found.shape[:-2], found.shape[-2] + 1, found.shape[-1] + 1))  # from the empty prefix on
    products[..., 1:, 1:] = found
    own = np.einsum("...ii->...i", products)
    return np.asarray(np.moveaxis(own[..., first] + own[..., last] - 2 * products[..., first, last], -1, at))


def query_covariances(schema: Schema, table: Table, margin: Table, factor: Floats) -> Floats:
    """The covariance of every cell of a table with that of a margin, which lacks some of its entries.

    >>> schema = Schema.from_sizes({"a": 2})
    >>> query_covariances(schema, ("a",), (), np.array([[1.0, 0.0], [1.0, 2.0]])).tolist()
    [2.0, 6.0]
    """
    step = max(1, _SLICE // table_cells(schema, table))
    total: Floats | float = 0.0
    for start in range(0, factor.shape[1], step):
        some = factor[:, start : start + step]
        cells, sums = added_up(schema, table, some), added_up(schema, margin, some)
        shape = [cells.shape[at] if entry in margin else 1 for at, entry in enumerate(table)]
        total = total + np.sum(cells * sums.reshape(*shape, -1), axis=-1)
    return np.asarray(total)


def added_up(schema: Schema, table: Table, cells: Floats) -> Floats:
    """A table summed from the cells of a schema; a second axis of `cells` holds several sets of cells at once."""
    counts = cells.reshape(*schema.shape, *cells.shape[1:])
    for at, attribute in reversed(list(enumerate(schema))):
        axis = axis_of(table, attribute)
        if axis is None:
            counts = counts.sum(axis=at)
        elif axis.level is not None:
            counts = np.moveaxis(np.tensordot(membership(attribute, axis), counts, axes=(1, at)), 0, at)
    return with_ranges(schema, table, counts)


def membership(attribute: Attribute, axis: Axis) -> Floats:
    """Group x cell: 1 if the cell of an attribute belongs to the group of an axis's level."""
    group_of = np.array(attribute.partition(axis.level).group_of)
    return np.asarray(np.arange(group_of.max() + 1)[:, None] == group_of, dtype=np.float64)


def axis_of(table: Table, attribute: Attribute) -> Axis | None:
    """The axis of a table for an attribute; None if the table sums it out."""
    axes = (Axis.of(entry) for entry in table)
    return next((axis for axis in axes if axis.attribute == attribute.name), None)


def _group_rows(schema: Schema, group: Group) -> Floats:
    if isinstance(group, MatrixGroup):
        return spread(schema, group).astype(np.float64)
    return np.asarray(strategy_matrix(Frame(schema, "natural"), [group]).toarray())
