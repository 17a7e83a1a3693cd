"""Plans with a block group: recovery of tables and their errors, block by block. Zone: PUBLIC.

Block c estimates the cells of its matrices for every Helmert row (`privcube.accuracy.blocks.structure`). The Helmert
row with j ones has squared norm j (j+1), so a cell of the contrasted attributes is the sum over rows of their entry
times the estimate over that norm. What a table asks of an attribute is a matrix A over its cells: it meets the Helmert
rows H of a block that contrasts the attribute with A H' diag(1 / j (j+1)), and one that sums it out with A 1 / f.

See THEORY section 12.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from privcube.accuracy.blocks.structure import BlockStructure, Contrasted
from privcube.accuracy.intervals import ErrorLaw, TableErrors
from privcube.accuracy.matrix_structure import added_up, membership, query, query_covariances, query_variances
from privcube.accuracy.moments import drawn_variance
from privcube.accuracy.ranges import bounds
from privcube.algebra.lattice import Floats
from privcube.algebra.residuals import helmert_rows
from privcube.model.groups import block_rows
from privcube.model.measures.measure import cell_weights
from privcube.model.plan import Plan
from privcube.model.workload import Axis, Table, table_cells
from privcube.progress import RECOVERING, Progress, silent

_SLICE: Final = 4_000_000  # numbers in memory at a time: 32 MB
_NARROW: Final = 10.0  # variance beyond which discrete noise has it, and rounded noise 1/12 more, to all digits
_WIDE: Final = 1e6  # variance beyond which no step of the noise shows in an interval, and it is that of normal noise


class BlockForm:
    """The predictor (`privcube.accuracy.predictor`) of a plan with a block group."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._structure = BlockStructure.of(plan.workload, plan.frame, plan.groups)
        self._known_squares: dict[tuple[str | Axis, bool], Floats] = {}

    def determines(self, table: Table) -> bool:
        """Whether the measurements determine every number of a table."""
        return self._structure.determines(table)

    def mean_variances(self) -> Floats:
        """For every table of the workload, the mean variance of its numbers."""
        found = []
        for table in self._plan.workload:
            core, others = self._structure.parts(table)
            found.append(
                sum(
                    self._structure.core_mean(core, each) * self._mean_energy(others, each)
                    for each in self._structure.within(table)
                )
            )
        return np.array(found)

    def variances(self, table: Table) -> Floats:
        """The variance of every number of a table."""
        core, others = self._structure.parts(table)
        total: Floats | float = 0.0
        for each in self._structure.within(table):
            own = query_variances(self._structure.core, core, self._structure.solved[each].estimate)
            total = total + np.multiply.outer(own, self._energies(others, each))
        return self._ordered(table, np.asarray(total))

    def margin_errors(self, table: Table, margin: Table) -> tuple[Floats, Floats]:
        """The variances of a margin, and covariances of the table with it: it has only the blocks within it."""
        core, others = self._structure.parts(table)
        core_margin = tuple([entry for entry in core if entry in margin])
        total: Floats | float = 0.0
        for each in self._structure.within(margin):
            estimate = self._structure.solved[each].estimate
            own = query_covariances(self._structure.core, core, core_margin, estimate)
            total = total + np.multiply.outer(own, self._energies(others, each, margin))
        return self.variances(margin), self._ordered(table, np.asarray(total))

    def errors(self, table: Table) -> TableErrors:
        """The errors of the numbers of a table."""
        variances = self.variances(table)
        core, others = self._structure.parts(table)

        def law_of(number: int) -> ErrorLaw:
            place = dict(zip(table, [int(at) for at in np.unravel_index(number, variances.shape)], strict=True))
            weights = query(self._structure.core, core, [place[entry] for entry in core])
            chosen = [self._asked(entry)[[place[entry]]] for entry in others]
            return self._law(table, {
                each: np.multiply.outer(
                    weights @ self._structure.solved[each].estimate, self._met(others, chosen, each)
                ).ravel()
                for each in self._structure.within(table)
            })  # fmt: skip

        return TableErrors.of(variances, law_of, alike=False)

    def query_law(self, table: Table, weights: Floats) -> ErrorLaw:
        """The law of the error of a sum of weights times the numbers of a table."""
        core, others = self._structure.parts(table)
        order = [table.index(entry) for entry in (*core, *others)]
        numbers = table_cells(self._structure.core, core)
        by_core = np.transpose(weights, order).reshape(numbers, *[weights.shape[at] for at in order[len(core) :]])
        asked = [self._asked(entry) for entry in others]
        found = {}
        for each in self._structure.within(table):
            met = by_core
            for matrix in self._meetings(others, asked, each):
                met = np.tensordot(met, matrix, axes=(1, 0))
            met = met.reshape(numbers, -1)
            estimate = self._structure.solved[each].estimate
            step = max(1, _SLICE // numbers)
            rows = [
                added_up(self._structure.core, core, estimate[:, start : start + step]).reshape(numbers, -1).T @ met
                for start in range(0, estimate.shape[1], step)
            ]
            found[each] = np.concatenate(rows).ravel()
        return self._law(table, found)

    def source(self, table: Table) -> Table:
        """The table itself, since any table is added up from the blocks."""
        return table

    def derived(self, table: Table, source: Floats) -> Floats:
        """The source itself."""
        return source

    def recover(self, sources: Sequence[Table], answers: Floats, progress: Progress = silent) -> dict[Table, Floats]:
        """Tables from the noisy answers."""
        progress(RECOVERING, 0, None)
        estimates, start = {}, 0
        for block in self._structure.group.blocks:
            count = block_rows(self._plan.frame, block)
            own = answers[start : start + count].reshape(len(block.matrix.rows), -1)
            shape = [size - 1 for size in self._structure.sizes(block.contrasted)]
            estimates[block.contrasted] = (self._structure.solved[block.contrasted].estimate @ own).reshape(-1, *shape)
            start += count
        return {table: self._recovered(table, estimates) for table in sources}

    def _recovered(self, table: Table, estimates: dict[Contrasted, Floats]) -> Floats:
        core, others = self._structure.parts(table)
        asked = [self._asked(entry) for entry in others]
        total: Floats | float = 0.0
        for each in self._structure.within(table):
            names = [Axis.of(entry).attribute for entry in others]
            own = estimates[each]
            own = own.reshape(len(own), *[own.shape[each.index(name) + 1] if name in each else 1 for name in names])
            for axis, matrix in enumerate(self._meetings(others, asked, each), start=1):
                own = np.moveaxis(np.tensordot(matrix, own, axes=(1, axis)), 0, axis)
            total = total + own
        cells = np.asarray(total)
        lead = added_up(self._structure.core, core, cells.reshape(len(cells), -1))
        return self._ordered(table, lead.reshape((*lead.shape[:-1], *cells.shape[1:])))

    def _ordered(self, table: Table, numbers: Floats) -> Floats:
        """A table in the order of its entries, from one with the entries of the matrices first."""
        core, others = self._structure.parts(table)
        order = [table.index(entry) for entry in (*core, *others)]
        return np.transpose(numbers, np.argsort(order))

    # What a table asks of contrasted attributes

    def _asked(self, entry: str | Axis) -> Floats:
        """A: the queries of an entry over the cells of its attribute."""
        axis = Axis.of(entry)
        attribute = self._plan.workload.schema[axis.attribute]
        if axis.queries == "cells":
            return membership(attribute, axis)
        if axis.is_measured:
            return cell_weights(attribute, axis.queries)[None]
        cells = np.arange(attribute.cells)
        first, last = bounds(axis.queries, attribute.ordered_cells)
        return np.asarray((cells >= first[:, None]) & (cells < last[:, None]), dtype=np.float64)

    def _meetings(self, others: Sequence[str | Axis], asked: Sequence[Floats], contrasted: Contrasted) -> list[Floats]:
        """For each entry, how its queries follow from the rows of a block, whole-number Helmert rows or sums."""
        found = []
        for entry, matrix in zip(others, asked, strict=True):
            size = matrix.shape[1]
            if Axis.of(entry).attribute in contrasted:
                j = np.arange(1, size)
                found.append(matrix @ (helmert_rows(size) / (j * (j + 1))[:, None]).T)
            else:
                found.append(matrix.sum(axis=1, keepdims=True) / size)
        return found

    def _met(self, others: Sequence[str | Axis], asked: Sequence[Floats], contrasted: Contrasted) -> Floats:
        """How the single number that `asked` chooses follows from the Helmert rows of a block, in row-major order."""
        product = np.ones(1)
        for matrix in self._meetings(others, asked, contrasted):
            product = np.multiply.outer(product, matrix[0]).ravel()
        return product

    def _energies(self, others: Sequence[str | Axis], contrasted: Contrasted, margin: Table | None = None) -> Floats:
        """For every choice of queries of the contrasted attributes, the variance that a block's Helmert rows bring.

        With a margin, it is the covariance with its numbers; the block contrasts no entry that the margin lacks, over
        which the numbers of a table sum to 1.
        """
        names = [Axis.of(entry).attribute for entry in others]
        shape = [self._structure.sizes((name,))[0] - 1 if name in contrasted else 1 for name in names]
        energy = self._drawn[contrasted].reshape(shape)
        asked = [self._asked(entry) for entry in others]
        for at, matrix in enumerate(self._meetings(others, asked, contrasted)):
            products = matrix**2 if margin is None or others[at] in margin else matrix
            energy = np.moveaxis(np.tensordot(products, energy, axes=(1, at)), 0, at)
        return energy

    def _mean_energy(self, others: Sequence[str | Axis], contrasted: Contrasted) -> float:
        """The mean of `_energies`, from the mean squares of how single entries follow from the rows."""
        energy, constant = self._drawn[contrasted], 1.0
        for entry in others:
            squares = self._mean_squares(entry, Axis.of(entry).attribute in contrasted)
            if len(squares) == 1:
                constant *= float(squares[0])
            else:
                energy = squares @ energy.reshape(len(squares), -1)
        return constant * float(energy.sum())

    def _mean_squares(self, entry: str | Axis, is_contrasted: bool) -> Floats:
        """The mean over the queries of an entry of their squared weights on the rows of an attribute."""
        known = self._known_squares.get((entry, is_contrasted))
        if known is None:
            contrasted = (Axis.of(entry).attribute,) if is_contrasted else ()
            (matrix,) = self._meetings([entry], [self._asked(entry)], contrasted)
            known = self._known_squares[entry, is_contrasted] = np.asarray(np.mean(matrix**2, axis=0))
        return known

    @cached_property
    def _weights(self) -> dict[Contrasted, Floats]:
        """The noise weights of the Helmert rows of each block."""
        found = {}
        for block in self._structure.group.blocks:
            weights = np.ones(1)
            for size in self._structure.sizes(block.contrasted):
                j = np.arange(1.0, size)
                weights = np.multiply.outer(weights, j * (j + 1)).ravel()  # as `privcube.model.groups.row_weights`
            found[block.contrasted] = weights
        return found

    @cached_property
    def _drawn(self) -> dict[Contrasted, Floats]:
        """The variance of the noise drawn on the Helmert rows of each block."""
        noise, variance = self._plan.guarantee.noise, float(self._plan.drawn_variance(0))
        found = {}
        for contrasted, weights in self._weights.items():
            drawn = variance * weights + (1 / 12 if noise == "rounded_gaussian" else 0.0)
            for weight in np.unique(weights[variance * weights < _NARROW]).tolist():
                drawn[weights == weight] = drawn_variance(noise, variance * weight)
            found[contrasted] = drawn / self._plan.parts[0] ** 2
        return found

    def _law(self, table: Table, asked: dict[Contrasted, Floats]) -> ErrorLaw:
        """The law of a sum with these weights on the rows of each block."""
        variance, noise, parts = float(self._plan.drawn_variance(0)), self._plan.guarantee.noise, self._plan.parts[0]
        within = list(self._structure.within(table))
        times = [len(asked[each]) // len(self._weights[each]) for each in within]
        rows = np.concatenate([asked[each] for each in within])
        if variance > _WIDE:
            drawn = np.concatenate([np.tile(self._drawn[each], n) for each, n in zip(within, times, strict=True)])
            return ErrorLaw(float(rows**2 @ drawn), 0.0, float(np.abs(rows).max(initial=0.0)) / parts)
        weights = np.concatenate([np.tile(self._weights[each], n) for each, n in zip(within, times, strict=True)])
        return ErrorLaw.of(noise, rows / parts, np.ones(len(rows)), variance * weights)
