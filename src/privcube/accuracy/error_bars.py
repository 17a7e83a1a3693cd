"""The errors of published numbers: their variances, and the laws that intervals follow from. Zone: PUBLIC.

A published number is a linear query q on the padded cells of a table. Optimal recovery answers it by sum_g r_g . z_g
over the noisy answers z_g of the groups, with r_g = S_g C q / v_g and C = sum_b Pi_b / p_b (THEORY section 2). So
- its variance is sum_b |Pi_b q|^2 spread_b / p_b^2, with spread_b = sum_g f_gb u_g / v_g^2, where u_g is the variance
  of the whole-number noise drawn and v_g that of continuous noise, by which recovery weights the groups. |Pi_b q|^2 is
  a product over the entries of a table, so the variances of all its cells are computed at once, in closed form;
- its fourth cumulant is a sum over slices of bundles, in terms of sum r_i^2 and sum r_i^4 over each group.
  Gaussian noise has none; a row of Laplace noise of variance u has 3 u^2 + u; max-norm noise is a radius with the
  distribution Gamma(m + 1) times uniform points of L1 balls, whose moments are those of Dirichlet variables. The signs
  of rows are symmetric, so odd cross moments vanish.
Intervals follow from these moments where noise is wide, and from r itself where it is narrow
(`privcube.accuracy.intervals`).

See THEORY section 11.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, NamedTuple, get_args

import numpy as np

from privcube.accuracy.errors.bundles import BundleErrors
from privcube.accuracy.errors.covariances import Covariances, PairClasses, pair_classes
from privcube.accuracy.errors.row_weights import energies, row_norms, row_weights, squares_in_slices
from privcube.accuracy.intervals import ErrorLaw, TableErrors, is_wide
from privcube.accuracy.layout import recovered_table
from privcube.accuracy.moments import (
    exact_noise_variances,
    fourth_cumulant,
    helmert_variance_at_most,
    narrow_groups,
)
from privcube.accuracy.published import (
    has_single_cells,
    numbers_of,
    padded_cells,
)
from privcube.accuracy.structure import group_family
from privcube.algebra.lattice import Floats, Integers, ResidualIndex, silenced
from privcube.algebra.residuals import from_residuals, level_slice, to_residuals
from privcube.errors import Plain, PlanError
from privcube.model.groups import (
    GroupPart,
    PartKind,
    QueryGroup,
    cells_groups,
    has_helmert,
    product_groups,
)
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.workload import Axis, Table, axis_cells, table_name

_MANY_TABLES: Final = 20_000  # beyond this, residuals are looked up on demand to save memory
_NOTHING: Final = 1e-12  # coordinates below this are rounding errors
_SHOWS: Final = 20.0  # variance v; rounding adds at most 1/24 to that of a row: 1/(48 v) of a standard error, 0.1 %
_KINDS: Final = get_args(PartKind)  # cells first, as `_parts` relies on


class _Below(NamedTuple):
    """What the groups have to do with a table."""

    table: Table
    footprint: QueryGroup
    kept: Integers  # the groups that say something about it
    same: Integers  # for each of them, which of these patterns it has on the axes of the table:
    insides: list[list[GroupPart]]  # their parts there,
    told: list[list[int]]  # what another group tells,
    norms: list[Floats]  # and the norms of their rows
    repeats: Floats  # for each kept group, its rows below those of its pattern


class ErrorBars:
    """Error bars for tables of one plan with structured groups and optimal recovery."""

    def __init__(self, plan: Plan, tables: Sequence[Table]) -> None:
        """`tables` must include every table that will be queried."""
        if plan.sources is not None:
            raise PlanError("error bars", expected="a plan with optimal recovery", given=Plain("direct recovery"))
        self._plan, self._frame = plan, plan.frame
        self._known_residuals: dict[Table, list[tuple[tuple[int, ...], int]]] = {}
        self._groups = product_groups(plan.groups)
        self._weighted_by = plan.noise_variances()
        self._parts_of_record = np.array(plan.parts, dtype=np.float64)  # in which noise is drawn, per group
        tables = list(dict.fromkeys(tables))
        footprints = cells_groups(self._frame, [recovered_table(self._frame, table) for table in tables])
        wanted = group_family(self._frame, footprints)
        self._index = ResidualIndex([len(c) for c in self._frame.fan_outs], wanted)
        if len(tables) <= _MANY_TABLES:
            self._known_residuals = {table: [] for table in tables}
            for batch in self._index.batches(wanted):
                for member, number in zip(batch.members.tolist(), batch.residuals.tolist(), strict=True):
                    self._known_residuals[tables[member]].append((batch.levels, number))
        says = silenced(self._index.incidence(group_family(self._frame, self._groups)), plan.told_by)
        self._precisions = says.transposed_times(1.0 / self._weighted_by)
        self._drawn = _drawn_at_most(plan)
        self._spread = says.transposed_times(self._drawn / self._weighted_by**2)
        bundles = plan.noised_together if isinstance(plan.guarantee, PureDP) else ()
        self._single = np.array([bundle[0] for bundle in bundles if len(bundle) == 1], dtype=np.int64)
        laplace = plan.drawn_variances()[self._single].tolist()
        fourth_cumulants = np.array([fourth_cumulant("laplace", variance) for variance in laplace])
        self._fourth_cumulants = fourth_cumulants / self._parts_of_record[self._single] ** 4
        laws = zip(bundles, plan.noise_laws, strict=False)
        self._bundled = [BundleErrors.of(plan, bundle, law) for bundle, law in laws if len(bundle) > 1]
        self._known_energies: dict[str | Axis, tuple[Floats, int]] = {}
        self._known_classes: dict[str | Axis, PairClasses | None] = {}
        self._last: _Below | None = None

    @cached_property
    def _uneven(self) -> bool:
        """Whether noise is so narrow that several Helmert rows of a level differ by what would show."""
        drawn = self._plan.drawn_variances()
        groups = [number for number in narrow_groups(self._plan) if drawn[number] <= _SHOWS]
        narrow = [part for number in groups for part in self._groups[number]]
        return any(part.kind == "helmert" and self._frame.fan_outs[part.axis][part.level - 1] > 2 for part in narrow)

    @cached_property
    def _parts(self) -> Integers:
        """Per group and axis, a code for its part: 0 for none, and a multiple of the number of kinds for cells."""
        codes = np.zeros((len(self._groups), len(self._frame.fan_outs)), dtype=np.int64)
        for number, group in enumerate(self._groups):
            for part in group:
                codes[number, part.axis] = part.level * len(_KINDS) + _KINDS.index(part.kind)
        return codes

    @cached_property
    def _widths(self) -> Floats:
        """Per group and axis, one over the sum of r^2 along it in a table that lacks it: its cells, or 1 if none.

        Of the products of Helmert rows below a node of f children only those of a row with itself count, 1 / sqrt(2)
        over the number of cells each.
        """
        widths = np.ones((len(self._groups), len(self._frame.fan_outs)))
        for number, group in enumerate(self._groups):
            for part in group:
                widths[number, part.axis] = self._frame.sizes[part.axis][part.level]
                if part.kind == "squares":
                    children = self._frame.fan_outs[part.axis][part.level - 1]
                    widths[number, part.axis] *= 2 * children / (children - 1)
        return widths

    @cached_property
    def _told(self) -> Integers:
        """Per group and axis, the level up to which another group tells, in the last column whether one does."""
        levels = np.zeros((len(self._groups), len(self._frame.fan_outs) + 1), dtype=np.int64)
        tellers = np.full(len(self._groups), -1) if self._plan.told_by is None else self._plan.told_by
        for number in np.flatnonzero(tellers >= 0).tolist():
            for part in self._groups[int(tellers[number])]:
                levels[number, part.axis] = part.level
            levels[number, -1] = 1
        return levels

    def determines(self, table: Table) -> bool:
        """Whether the measurements cover every residual of a table."""
        return all(self._precisions[number] > 0 for _, number in self._residuals(table))

    def variances(self, table: Table) -> Floats:
        """The variance of every published number of a table."""
        for entry in table:
            if entry not in self._known_energies:
                self._known_energies[entry] = energies(self._frame, entry)
        known = [self._known_energies[entry] for entry in table]
        scale = math.prod([padded_cells(self._frame, entry) for entry in table])
        total = np.zeros([len(own) for own, _ in known])
        for levels, number in self._residuals(table):
            if self._precisions[number] <= 0:
                raise PlanError(table_name(table), expected="a table that the measurements determine")
            term = np.full((), self._spread[number] / self._precisions[number] ** 2)
            start = 0
            for own, axes in known:
                column = own.reshape(len(own), -1)[:, np.ravel_multi_index(levels[start : start + axes], own.shape[1:])]
                term = np.multiply.outer(term, column)
                start += axes
            total += term
        return total / scale

    def covariances(self, table: Table) -> Covariances | None:
        """The covariance of any two numbers of a table; None where it has no short form."""
        for entry in table:
            if entry not in self._known_classes:
                self._known_classes[entry] = pair_classes(self._frame, entry)
        classes = [self._known_classes[entry] for entry in table]
        known = [own for own in classes if own is not None]
        if len(known) < len(classes) or self._uneven or not self.determines(table):
            return None
        scale = math.prod([padded_cells(self._frame, entry) for entry in table])
        total = np.zeros([len(own.products) for own in known])
        for levels, number in self._residuals(table):
            term = np.full((), self._spread[number] / self._precisions[number] ** 2 / scale)
            start = 0
            for own in known:
                shape = own.products.shape
                place = np.ravel_multi_index(levels[start : start + len(shape) - 1], shape[1:])
                term = np.multiply.outer(term, own.products.reshape(shape[0], -1)[:, place])
                start += len(shape) - 1
            total += term
        return Covariances(tuple(own.class_of for own in known), total)

    def residual_variances(self, table: Table) -> list[tuple[tuple[int, ...], float]]:
        """For every residual below a table, its levels and spread_b / p_b^2, the variance of a unit of it."""
        return [
            (levels, float(self._spread[number] / self._precisions[number] ** 2))
            for levels, number in self._residuals(table)
        ]

    def query_variance(self, table: Table, padded_weights: Floats) -> float:
        """The variance of a sum of weights times the padded cells of a table."""
        return self.law(table, padded_weights).variance

    def errors(self, table: Table) -> TableErrors:
        """The errors of the published numbers of a table."""
        sizes = [axis_cells(self._frame.schema, entry) for entry in table]
        numbers = [numbers_of(self._frame, entry) for entry in table]

        def law_of(number: int) -> ErrorLaw:
            weights = np.ones(())
            for own, at in zip(numbers, np.unravel_index(number, sizes), strict=True):
                weights = np.multiply.outer(weights, own(int(at)))
            return self.law(table, weights)

        single = all(has_single_cells(self._frame, entry) for entry in table)  # symmetric but for Helmert rows
        return TableErrors.of(self.variances(table), law_of, alike=single and not self._uneven)

    def _residuals(self, table: Table) -> list[tuple[tuple[int, ...], int]]:
        """The levels and the number of every residual below a table, cached."""
        if table not in self._known_residuals:
            (footprint,) = cells_groups(self._frame, [recovered_table(self._frame, table)])
            batches = self._index.batches(group_family(self._frame, [footprint]))
            found = [(batch.levels, int(batch.residuals[0])) for batch in batches]
            if any(number < 0 for _, number in found):
                raise PlanError(table_name(table), expected="a table that error bars were prepared for")
            self._known_residuals[table] = found
        return self._known_residuals[table]

    def law(self, table: Table, padded_weights: Floats) -> ErrorLaw:
        """The law of the error of a sum of weights times the padded cells of a table, from recovery's weights r."""
        below = self._last
        if below is None or below.table != table:  # queries come table by table
            below = self._last = self._below(table)
        footprint, kept, same, norms, repeats = below.footprint, below.kept, below.same, below.norms, below.repeats
        smoothed = self._smoothed(table, footprint, padded_weights)
        rows = [
            row_weights(self._frame, footprint, smoothed, inside, told)
            for inside, told in zip(below.insides, below.told, strict=True)
        ]
        steps = np.array([np.max(np.abs(own) / norm) for (own, _), norm in zip(rows, norms, strict=True)])
        powers = np.array([_powers(*each) for each in rows])[same]
        squares, fourths = np.zeros(len(self._groups)), np.zeros(len(self._groups))
        squares[kept], fourths[kept] = powers[:, 0] / repeats, powers[:, 1] / repeats**3
        squares /= self._weighted_by**2
        fourths /= self._weighted_by**4
        variance = float(squares @ self._drawn)
        parts = self._parts_of_record[kept]
        step = float(np.max(steps[same] / (repeats * self._weighted_by[kept] * parts)))
        pure, continuous, fourth = isinstance(self._plan.guarantee, PureDP), 0.0, 0.0
        if pure and np.any(np.delete(squares, self._single) > _NOTHING * squares.max()):  # bundles
            patterns = dict(zip(kept.tolist(), zip(same.tolist(), repeats.tolist(), strict=True), strict=True))
            continuous = float(squares @ np.maximum(self._drawn, self._weighted_by))
            fourth = 3 * float(self._weighted_by[self._single] ** 2 @ fourths[self._single])
            fourth += sum(self._fourth_of(bundle, footprint, rows, patterns, fourths) for bundle in self._bundled)
        elif pure:
            fourth = float(self._fourth_cumulants @ fourths[self._single])
        kurtosis = fourth / max(variance, continuous) ** 2 if max(variance, continuous) ** 2 > 0 else 0.0
        if not continuous and not is_wide(variance, kurtosis, step):
            alike_draws = np.stack([same, repeats, self._weighted_by[kept], parts])
            draws = _draws(list(zip(rows, norms, strict=True)), alike_draws)
            return replace(ErrorLaw.of(self._plan.guarantee.noise, *draws), variance=variance)
        used = np.array([repeated * np.count_nonzero(own) for own, repeated in rows])[same] * repeats
        moved = float(used @ (self._drawn[kept] * parts**2))
        return ErrorLaw(variance, kurtosis, step, moved=moved, continuous=continuous)

    def _below(self, table: Table) -> _Below:
        """What the groups have to do with a table."""
        (footprint,) = cells_groups(self._frame, [recovered_table(self._frame, table)])
        own_axes = [part.axis for part in footprint]
        kept = self._kept(own_axes)
        alike = np.concatenate([self._parts[kept][:, own_axes], self._told[kept][:, [*own_axes, -1]]], axis=1)
        _, first, same = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        insides = [[part for part in self._groups[group] if part.axis in own_axes] for group in kept[first].tolist()]
        norms = [row_norms(self._frame, footprint, inside) for inside in insides]
        widths = self._widths[kept]
        widths[:, own_axes] = 1.0
        told = self._told[kept[first]].tolist()
        return _Below(table, footprint, kept, same.ravel(), insides, told, norms, widths.prod(axis=1))

    def _fourth_of(
        self,
        bundle: BundleErrors,
        footprint: QueryGroup,
        rows: Sequence[tuple[Floats, int]],
        patterns: dict[int, tuple[int, float]],
        fourths: Floats,
    ) -> float:
        """The fourth cumulant of what a bundle adds; `patterns` has the place in `rows` of each group, and repeats."""
        chosen = [group for group in bundle.rows if group in patterns]
        if not chosen:
            return 0.0
        squares_of = {
            at: squares_in_slices(self._frame, footprint, rows[at], bundle.levels)
            for at in {patterns[group][0] for group in chosen}
        }
        scaled = np.array([patterns[group][1] * self._weighted_by[group] ** 2 for group in chosen])[:, None]
        per_slice = np.array([squares_of[patterns[group][0]] for group in chosen]) / scaled
        return bundle.fourth_cumulant(chosen, per_slice, fourths[chosen])

    def _kept(self, own_axes: Sequence[int]) -> Integers:
        """The groups that are informative about a table: those with only cells on all other axes."""
        other = np.isin(self._parts % len(_KINDS), [_KINDS.index("contrast"), _KINDS.index("helmert")])
        other[:, own_axes] = False
        return np.flatnonzero(~other.any(axis=1))

    def _smoothed(self, table: Table, footprint: QueryGroup, padded_weights: Floats) -> Floats:
        """C q: the residuals of the query, each divided by its precision."""
        chains = [self._frame.fan_outs[part.axis][: part.level] for part in footprint]
        shape = [self._frame.sizes[part.axis][part.level] for part in footprint]
        weights = np.asarray(padded_weights, dtype=np.float64)
        if weights.size != math.prod(shape) or not np.all(np.isfinite(weights)):
            expected = f"{math.prod(shape):,} finite numbers, one per padded cell"
            raise PlanError(f"weights on {table_name(table)}", expected=expected, given=weights.shape)
        coordinates = weights.reshape(shape)
        for axis, chain in enumerate(chains):
            coordinates = to_residuals(coordinates, axis, chain)
        for levels, number in self._residuals(table):
            where = tuple(level_slice(chain, level) for chain, level in zip(chains, levels, strict=True))
            if self._precisions[number] > 0:
                coordinates[where] /= self._precisions[number]
            elif np.any(np.abs(coordinates[where]) > _NOTHING):
                raise PlanError(table_name(table), expected="a query that the measurements determine")
        for axis, chain in enumerate(chains):
            coordinates = from_residuals(coordinates, axis, chain)
        return coordinates


def _drawn_at_most(plan: Plan) -> Floats:
    """The variances of the noise drawn; for Helmert rows, which differ slightly, an upper bound on all of them."""
    exact, continuous = exact_noise_variances(plan), plan.noise_variances()
    for number, group in enumerate(plan.groups):
        if has_helmert(group):
            finer = plan.parts[number] ** 2
            exact[number] = helmert_variance_at_most(plan, float(continuous[number]) * finer, group) / finer
    return exact


def _powers(rows: Floats, repeats: int) -> tuple[float, float]:
    """The sums of r^2 and r^4 over the rows of a group, before division by its variance."""
    return repeats * float(np.sum(rows**2)), repeats * float(np.sum(rows**4))


def _draws(patterns: Sequence[tuple[tuple[Floats, int], Floats]], drawn: Floats) -> tuple[Floats, Floats, Floats]:
    """The weight of every draw in the error, how often it occurs, and the variance of continuous noise for it.

    `drawn` has a column per group: the place of its pattern, how often it is repeated, the variance of its noise, and
    the parts of a record in which that is drawn.
    """
    weights, counts, parameters = [], [], []
    alike, groups = np.unique(drawn, axis=1, return_counts=True)
    for (at, times, variance, parts), number in zip(alike.T.tolist(), groups.tolist(), strict=True):
        (rows, repeated), norms = patterns[int(at)]
        weights.append((rows / norms / (times * variance * parts)).ravel())
        counts.append(np.full(rows.size, number * repeated * times))
        parameters.append(np.ravel(variance * parts**2 * np.ones_like(rows) * norms**2))
    return np.concatenate(weights), np.concatenate(counts), np.concatenate(parameters)
