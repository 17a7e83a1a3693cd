"""Plans whose groups are products over axes: least squares residual by residual, in closed form. Zone: PUBLIC.

Planning and recovery use the variance v_g of continuous noise. The whole-number noise that is drawn has a different
variance u_g, known exactly (`privcube.accuracy.moments`). The noise on different rows is uncorrelated (independent, or
with independent signs in a bundle). So if all rows of a group have the same variance, the mean variance of a table's
cells is exactly a sum over groups of u_g times a known number (`Structure.drawn_variances`).

Helmert rows need more care because narrow noise differs between them: row i with weight w_i has the effective variance
u_i = disc(sigma^2 w_i) / w_i. A group measures residual b in a basis of orthonormal Helmert rows h_i on some axes and
cells on others. It adds f_gb / (v_g p_b)^2 times sum_i u_i |P_i q|^2 to the variance of a query q, with P_i the
projector of b restricted to h_i on the Helmert axes; the |P_i q|^2 sum to |Pi_b q|^2. Over the queries of a table the
mean of |P_i q|^2 is a product over axes, so all that matters is the share of row j of each axis and level in the mean
of |Pi_l q|^2. Then sum_i u_i |P_i q|^2 has the mean u_g |Pi_b q|^2 with u_g the mean of the u_i weighted by the
products of the shares. If a table asks for all cells of an attribute, its queries are the same in every direction of a
level and the shares are even; for ranges, for groups of cells, and where padded cells are not queried, `row_shares`
computes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from privcube.accuracy.error_bars import ErrorBars
from privcube.accuracy.errors.covariances import Covariances
from privcube.accuracy.intervals import ErrorLaw, TableErrors
from privcube.accuracy.layout import Publisher, added_up, cells_table, recovered_table
from privcube.accuracy.moments import RowShares, exact_noise_variances, narrow_groups
from privcube.accuracy.published import (
    asked_products,
    groups_in_place,
    has_single_cells,
    line_parts,
    padded_cells,
    spread_out,
)
from privcube.accuracy.recovery import recover_cells
from privcube.accuracy.structure import Structure
from privcube.algebra.lattice import Floats, Integers
from privcube.model.frame import Frame
from privcube.model.groups import product_groups
from privcube.model.plan import Plan
from privcube.model.workload import Axis, Table, Workload, axis_cells
from privcube.progress import Progress, silent

# Tables times groups; beyond this, tables of one shape share their laws to keep large releases fast.
_MANY_PAIRS: Final = 1_000_000


class ClosedForm:
    """The predictor (`privcube.accuracy.predictor`) of a plan with structured groups and optimal recovery."""

    def __init__(self, plan: Plan, tables: Sequence[Table]) -> None:
        self._plan, self._frame, self._tables = plan, plan.frame, tables
        self._errors_of_shape: dict[tuple[int, ...], TableErrors] = {}

    def determines(self, table: Table) -> bool:
        """Whether the measurements cover every residual of a table."""
        return self._bars_for(table).determines(table)

    def mean_variances(self) -> Floats:
        """For every table of the workload, the mean variance of its numbers."""
        return drawn_variances(self._plan, self._plan.workload)

    def variances(self, table: Table) -> Floats:
        """The variance of every number of a table."""
        return self._bars_for(table).variances(table)

    def margin_errors(self, table: Table, margin: Table) -> tuple[Floats, Floats]:
        """The variances of a margin, and the covariance of every number with it: a part of its variance.

        The covariance of queries q and q' is sum_b <Pi_b q, Pi_b q'> times a number of b. Along an entry that the
        margin lacks, its weights on the n padded cells are all 1, so only the level b = 0 counts, and there the
        products are sum(q) for a number and n for the margin. See THEORY section 11.3.
        """
        covariances: Floats = np.ones(())
        for entry in table:
            part = np.ones(axis_cells(self._frame.schema, entry)) if entry in margin else line_parts(self._frame, entry)
            covariances = np.multiply.outer(covariances, part)
        kept = self._bars_for(table).variances(margin)
        shape = [size if entry in margin else 1 for entry, size in zip(table, covariances.shape, strict=True)]
        return kept, np.asarray(covariances * kept.reshape(shape))

    def residual_variances(self, table: Table) -> list[tuple[tuple[int, ...], float]]:
        """For every residual below a table, its levels and its variance."""
        return self._bars_for(table).residual_variances(table)

    def errors(self, table: Table) -> TableErrors:
        """The errors of the numbers of a table; in large releases, with the laws of a table of its shape."""
        bars = self._bars_for(table)
        few = len(self._tables) * len(self._plan.groups) <= _MANY_PAIRS
        if few or recovered_table(self._frame, table) != cells_table(table):
            return bars.errors(table)
        shape = tuple(padded_cells(self._frame, entry) for entry in table)
        if shape not in self._errors_of_shape:
            self._errors_of_shape[shape] = bars.errors(table)
        return replace(self._errors_of_shape[shape], variances=bars.variances(table))

    def covariances(self, table: Table) -> Covariances | None:
        """The covariance of any two numbers of a table; None where it has no short form."""
        return self._bars_for(table).covariances(table)

    def query_law(self, table: Table, weights: Floats) -> ErrorLaw:
        """The law of the error of a sum of weights times the numbers of a table."""
        padded = weights
        for at, entry in enumerate(table):
            padded = spread_out(self._frame, entry, padded, at)
        return self._bars_for(table).law(table, padded)

    def source(self, table: Table) -> Table:
        """The table of cells that a table is summed from."""
        return recovered_table(self._frame, table)

    def derived(self, table: Table, source: Floats) -> Floats:
        """A table summed from its cells."""
        return added_up(self._frame, table, source)

    def recover(self, sources: Sequence[Table], answers: Floats, progress: Progress = silent) -> dict[Table, Floats]:
        """Published tables of cells; estimates in padded cells are redistributed so that all tables agree."""
        groups, variances = product_groups(self._plan.groups), self._plan.noise_variances()
        found = recover_cells(
            self._frame, sources, groups, variances, answers, told_by=self._plan.told_by, padded=True, progress=progress
        )
        publisher = Publisher(self._frame)
        return {table: publisher.published(table, counts) for table, counts in found.items()}

    def _bars_for(self, table: Table) -> ErrorBars:
        cells = recovered_table(self._frame, table)
        if cells not in self._known_bars:
            self._known_bars[cells] = ErrorBars(self._plan, [cells])
        return self._known_bars[cells]

    @cached_property
    def _known_bars(self) -> dict[Table, ErrorBars]:
        together = ErrorBars(self._plan, self._tables)
        return dict.fromkeys([recovered_table(self._frame, table) for table in self._tables], together)


def drawn_variances(plan: Plan, workload: Workload) -> Floats:
    """The mean cell variance of each table under the noise drawn, for any tables that the plan determines."""
    weighted_by = plan.noise_variances()
    structure = Structure.of(workload, plan.frame, product_groups(plan.groups), told_by=plan.told_by)
    alike: defaultdict[Table, list[int]] = defaultdict(list)  # tables that weight Helmert rows the same way
    narrow = bool(narrow_groups(plan))
    for number, table in enumerate(workload):
        alike[tuple([entry for entry in table if narrow and _is_uneven(plan.frame, entry)])].append(number)
    found = np.zeros(len(workload))
    for uneven, tables in alike.items():
        shares = {spot: own for entry in uneven for spot, own in row_shares(plan.frame, entry).items()}
        variances = structure.drawn_variances(weighted_by, exact_noise_variances(plan, shares))
        found[tables] = variances[tables]
    return found


def _is_uneven(frame: Frame, entry: str | Axis) -> bool:
    """Whether an entry may weight the Helmert rows of a level unequally; a binary frame has one row per level."""
    return frame.kind != "binary" and not has_single_cells(frame, entry)


def row_shares(frame: Frame, entry: str | Axis) -> RowShares:
    """The shares of the Helmert rows in the mean of |Pi_l q|^2 over the queries q of an entry, per axis and level l.

    Row j has ones on the first j children of a parent and -j on the next. Let G sum, over parents and queries, the
    products of a query's weights on two children; then the energy of row j is h_j' G h_j / (j (j+1)), up to a factor.

    >>> from privcube.model.schema import Schema
    >>> row_shares(Frame(Schema.from_sizes({"a": 2}), "natural"), "a")
    {(0, 1): [1.0]}
    """
    axis = Axis.of(entry)
    ((number, finest),) = frame.footprint(frame.schema[axis.attribute], axis.level)
    group_of = groups_in_place(frame, entry)
    if group_of is not None and finest == 1:
        return {(number, 1): _shares_of_groups(group_of)}
    sizes, products = frame.sizes[number], asked_products(frame, entry)
    shares = {}
    for level in range(1, finest + 1):
        fan_out = sizes[level] // sizes[level - 1]
        between = _between_children(products, sizes[level], fan_out)
        j = np.arange(1, fan_out)
        first = np.cumsum(between, axis=0)  # row j - 1: the first j children together
        energy = np.cumsum(first, axis=1)[j - 1, j - 1] - 2 * j * first[j - 1, j] + j**2 * between[j, j]
        energy = energy / (j * (j + 1))
        whole = energy.sum()  # nothing at a level that no query sees
        shares[number, level] = (energy / whole if whole > 0 else np.full(len(j), 1 / max(len(j), 1))).tolist()
    return shares


def _shares_of_groups(group_of: Integers) -> list[float]:
    """The shares of the Helmert rows of a flat axis whose queries are groups of its cells, without any matrix.

    Let c_g be the number of the first j cells in group g, and r that of the group of the next cell. Row j times the
    query of a group is c_g, or r - j for that group, so its energy is the sum of the c_g^2, less 2 j r, plus j^2.

    >>> _shares_of_groups(np.array([0, 0, 1]))
    [0.0, 1.0]
    """
    before = np.zeros(int(group_of.max()) + 1)
    earlier = np.zeros(len(group_of))  # r of every cell
    for at, group in enumerate(group_of.tolist()):
        earlier[at] = before[group]
        before[group] += 1
    squares = np.cumsum(2 * earlier + 1)  # after the first j cells
    j = np.arange(1, len(group_of))
    energy = (squares[:-1] - 2 * j * earlier[1:] + j**2) / (j * (j + 1))
    whole = energy.sum()
    return (energy / whole if whole > 0 else np.full(len(j), 1 / max(len(j), 1))).tolist()


def _between_children(products: Floats, nodes: int, fan_out: int) -> Floats:
    """G of `row_shares`, from the products of the queries' weights on two cells."""
    width = len(products) // nodes
    between = products.reshape(nodes, width, nodes, width).sum(axis=(1, 3))
    families = between.reshape(nodes // fan_out, fan_out, nodes // fan_out, fan_out)
    return np.asarray(np.einsum("picp->ic", families.transpose(0, 1, 3, 2)))
