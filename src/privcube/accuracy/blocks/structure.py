"""Block groups as dense algebra on the cells of a few attributes, block by block. Zone: PUBLIC.

Let x_c be the table of the matrix attributes and of the contrasted attributes of block c, all others summed out, in
orthonormal Helmert coordinates of the latter. The block measures M_c x_c, column by column, with noise of variance
sigma^2, so each column is estimated by N_c z with N_c the pseudoinverse of M_c. No other block measures x_c, so this is
least squares for all blocks together. A cell a of the contrasted attributes of a table t has the unit vector
  e_a = sum over c within t of (product over c of Pi e_a) times (product over the others of 1/f),   Pi = I - 1/f,
and a number of the table, with weights q on the cells of the matrices, has the variance
  sigma^2 sum over c within t of |N_c' q|^2 (product over c of 1 - 1/f) (product over the others of 1/f^2).
The joint domain of all attributes never appears.

See THEORY section 12.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.matrix_structure import axis_of, entry_gram, query_variances
from privcube.algebra.lattice import Floats
from privcube.algebra.triangles import upper_inverse
from privcube.errors import Plain, PlanError
from privcube.model.frame import Frame
from privcube.model.groups import BlockGroup, Group
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, table_cells, table_name

_OUTSIDE: Final = 1e-16  # part of a query's squared length outside the row space that counts as rounding
_SINGULAR: Final = 1e-10  # ratio of pivots below which the row space is found by singular values

Contrasted = tuple[str, ...]


class Solved(NamedTuple):
    """How the cells of the matrices follow from the rows of one of them."""

    estimate: Floats  # N: cells x rows
    missed: Floats  # an orthonormal basis of what the rows say nothing about: cells x its dimension


@dataclass(frozen=True)
class BlockStructure:
    """How a block group answers a workload; the counterpart of `Structure`."""

    workload: Workload
    group: BlockGroup
    cells: Floats  # per table
    weights: Floats  # per table

    @classmethod
    def of(cls, workload: Workload, frame: Frame, groups: Sequence[Group]) -> BlockStructure:
        """Blocks answer a workload only alone, in a natural frame."""
        group = groups[0]
        if len(groups) > 1 or not isinstance(group, BlockGroup) or frame.kind != "natural" or frame.leveled:
            raise PlanError("blocks", expected="one group of blocks alone, in a natural frame without levels")
        cells = np.array([table_cells(workload.schema, table) for table in workload], dtype=np.float64)
        return cls(workload, group, cells, np.array(workload.weights))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The one group."""
        return (self.group,)

    @cached_property
    def core(self) -> Schema:
        """The attributes of the matrices."""
        return Schema([each for each in self.workload.schema if each.name in self.group.attributes])

    @cached_property
    def solved(self) -> dict[Contrasted, Solved]:
        """N of every block, by its contrasted attributes."""
        return {block.contrasted: _solved(block.matrix.matrix.astype(np.float64)) for block in self.group.blocks}

    def sizes(self, names: Contrasted) -> list[int]:
        """The cells of attributes."""
        return [self.workload.schema[name].cells for name in names]

    def parts(self, table: Table) -> tuple[Table, tuple[str | Axis, ...]]:
        """The entries of a table on attributes of the matrices, and the others."""
        core = tuple([entry for entry in table if Axis.of(entry).attribute in self.group.attributes])
        return core, tuple([entry for entry in table if entry not in core])

    def within(self, table: Table) -> Iterator[Contrasted]:
        """The contrasted attributes of all blocks that a table is added up from; an attribute of one cell has none."""
        _, others = self.parts(table)
        names = [Axis.of(entry).attribute for entry in others]
        names = [name for name in names if self.workload.schema[name].cells > 1]
        for count in range(len(names) + 1):
            yield from combinations(names, count)

    def determines(self, table: Table) -> bool:
        """Whether every number of a table is a combination of the rows."""
        core, _ = self.parts(table)
        return all(contrasted in self.solved and self._sees(core, contrasted) for contrasted in self.within(table))

    def table_variances(self, variances: Floats) -> Floats:
        """The mean variance of a cell of every table."""
        return np.asarray(variances[0] * self._units)

    def group_coefficients(self, variances: Floats) -> Floats:
        """The weighted total variance for noise of variance 1 on every row."""
        return np.array([float(np.sum(self.weights * self.cells * self._units))])

    def core_mean(self, core: Table, contrasted: Contrasted) -> float:
        """The mean of |N' q|^2 over the queries q of some entries on the attributes of the matrices."""
        if (core, contrasted) not in self._core_means:
            if contrasted not in self._covariances:
                estimate = self.solved[contrasted].estimate
                self._covariances[contrasted] = estimate @ estimate.T
            if core not in self._core_grams:
                self._core_grams[core] = core_gram(self.core, core)
            total = float(np.vdot(self._core_grams[core], self._covariances[contrasted]))
            self._core_means[core, contrasted] = total / table_cells(self.core, core)
        return self._core_means[core, contrasted]

    @cached_property
    def _core_means(self) -> dict[tuple[Table, Contrasted], float]:
        return {}

    @cached_property
    def _core_grams(self) -> dict[Table, Floats]:
        return {}

    @cached_property
    def _covariances(self) -> dict[Contrasted, Floats]:
        """NN' of blocks: what noise of variance 1 on their rows makes of their cells."""
        return {}

    @cached_property
    def _units(self) -> Floats:
        """The mean variance of a cell of every table for noise of variance 1."""
        found = []
        for table in self.workload:
            if not self.determines(table):
                given = Plain(f"none for {table_name(table)}")
                raise PlanError("strategy", expected="blocks that determine every table", given=given)
            core, others = self.parts(table)
            cells = prod(self.sizes(tuple([Axis.of(entry).attribute for entry in others])))
            of_blocks = [
                self.core_mean(core, contrasted)
                * prod([1 - 1 / size for size in self.sizes(contrasted)])
                * (prod(self.sizes(contrasted)) / cells) ** 2
                for contrasted in self.within(table)
            ]
            found.append(sum(of_blocks))
        return np.array(found)

    def _sees(self, core: Table, contrasted: Contrasted) -> bool:
        """Whether the rows of a block determine the entries of a table on the attributes of the matrices."""
        missed = self.solved[contrasted].missed
        if not missed.shape[1]:
            return True
        squares = query_variances(self.core, core, np.eye(len(missed)))
        return bool(np.all(query_variances(self.core, core, missed) <= _OUTSIDE * squares))


def core_gram(core: Schema, table: Table) -> Floats:
    """Q'Q of some entries over the cells of their attributes.

    >>> core_gram(Schema.from_sizes({"a": 2}), (Axis("a", queries="prefixes"),)).tolist()
    [[2.0, 1.0], [1.0, 1.0]]
    """
    product = np.ones((1, 1))
    for attribute in core:
        product = np.asarray(np.kron(product, entry_gram(attribute, axis_of(table, attribute))), dtype=np.float64)
    return product


def _solved(matrix: Floats) -> Solved:
    """The pseudoinverse of a matrix, by QR where its nonzero columns are independent."""
    cells = matrix.shape[1]
    own = np.flatnonzero(np.any(matrix != 0, axis=0))
    if len(own) <= len(matrix):
        orthogonal, triangle = None, matrix[:, own]
        if np.any(np.tril(triangle, -1)) or len(own) < len(matrix):
            orthogonal, triangle = np.linalg.qr(triangle)
        pivots = np.abs(np.diag(triangle))
        if pivots.min() > _SINGULAR * pivots.max():
            estimate = np.zeros((cells, len(matrix)))
            inverse = upper_inverse(triangle)
            estimate[own] = inverse if orthogonal is None else inverse @ orthogonal.T
            return Solved(estimate, np.delete(np.eye(cells), own, axis=1))
    left, singular, right = np.linalg.svd(matrix)
    rank = int(np.sum(singular > singular.max() * max(matrix.shape) * np.finfo(float).eps))
    estimate = right[:rank].T / singular[:rank] @ left[:, :rank].T
    return Solved(np.asarray(estimate), np.asarray(right[rank:].T))
