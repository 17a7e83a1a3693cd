"""What records should meet: the estimates of a release in orthonormal coordinates, and how uncertain they are.

Zone: RELEASED.

A residual is a set of attributes, each at a depth (`privcube.released.whole.coordinates`); its coordinates are sums
over the records of products of the attributes' functions. The squared error of a workload is a sum over coordinates of
`metric` times the squared error of the coordinate, up to products of different coordinates where ranges or levels of
unequal groups are asked for. The variance of a residual's coordinates follows from the mean variances of the tables
below it, which are triangular in the residuals; it decides only how closely records follow the estimates.

Levels of an attribute that do not nest have coordinates of their own, as if they were different attributes that are
both read off the same column of the records. Sums and counts of measures are no goals: they have no whole numbers.

See THEORY section 5.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Final, NamedTuple

import numpy as np

from privcube.accuracy.layout import cells_table
from privcube.accuracy.predictor import predictor
from privcube.algebra.lattice import Floats
from privcube.errors import Plain, PlanError, QueryError
from privcube.model.attribute import Attribute
from privcube.model.measures.asked import measured_axis
from privcube.model.workload import Axis, Table, Workload
from privcube.released.release import Release
from privcube.released.whole.coordinates import Coordinates, cells_from_queries, coordinates_of

Residual = tuple[tuple[int, int], ...]  # (attribute, depth) pairs, depth above 0, in the order of the attributes

_MOST_RESIDUALS: Final = 4_000_000  # of all tables, counted once per table: beyond this, memory and hours run out
_MOST_CELLS: Final = 2**16  # of an attribute: codes have 16 bits


@dataclass(frozen=True, eq=False)
class Goal:
    """A residual's coordinates as estimated, the weight of a squared error in each, and their variance."""

    estimate: Floats
    metric: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class Goals:
    """The attributes that tables have, and the goals of all residuals of these tables.

    An attribute appears once for every chain of nesting levels that tables ask for; `columns` says which it is.
    """

    attributes: tuple[Coordinates, ...]
    columns: tuple[int, ...]  # of records, from which each of them is read off
    tables: tuple[tuple[int, ...], ...]  # the attributes of every table of the workload
    weights: tuple[float, ...]
    residuals: Mapping[Residual, Goal]
    curvatures: Floats  # per column, what moving one record along it adds to the squared error, on average

    @property
    def recorded(self) -> tuple[Attribute, ...]:
        """The attribute of every column of the records."""
        of = {column: own.attribute for column, own in zip(self.columns, self.attributes, strict=True)}
        return tuple(of[column] for column in range(len(of)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column of the records has."""
        return tuple(own.cells for own in self.recorded)

    @property
    def total(self) -> float:
        """The estimated number of records."""
        return float(self.residuals[()].estimate[0])


def goals_of(release: Release) -> Goals:
    """The goals of a release."""
    tables = counted_tables(release.workload)
    weights = [
        weight for table, weight in zip(release.workload, release.workload.weights, strict=True) if is_counted(table)
    ]
    laid = _laid_out(release.workload)
    attributes, places, depths = laid.attributes, laid.places, laid.depths
    sums: dict[Residual, Floats] = {}
    metric: dict[Residual, Floats] = {}
    curvatures = np.zeros(max(laid.columns, default=-1) + 1)
    known_energies: dict[tuple[int, str | Axis], Floats] = {}
    for table, own in zip(tables, places, strict=True):
        for at, entry in zip(own, table, strict=True):
            if (at, entry) not in known_energies:
                known_energies[at, entry] = attributes[at].energies(entry)
    cells = _all_cells(release, tables)
    for table, own, most, counts, weight in zip(tables, places, depths, cells, weights, strict=True):
        estimates = _coordinates([attributes[at] for at in own], most, counts)
        energies = [known_energies[at, entry] for at, entry in zip(own, table, strict=True)]
        columns = [laid.columns[at] for at in own]
        curvatures[columns] += weight * _curvatures([attributes[at] for at in own], energies)
        for residual, part, energy in _parts(attributes, own, most, estimates, energies):
            if residual in metric:
                metric[residual] += weight * energy
                sums[residual] += weight * energy * part
            else:
                metric[residual], sums[residual] = weight * energy, weight * energy * part
    if release.agrees:
        variances = _variances(release, attributes, places, depths, metric)
    else:
        variances = _direct_variances(release, attributes, places, depths, metric, weights)
    found = {
        residual: Goal(np.divide(sums[residual], own, out=np.zeros(own.shape), where=own > 0), own, variances[residual])
        for residual, own in metric.items()
    }
    return Goals(tuple(attributes), laid.columns, tuple(places), tuple(weights), found, curvatures)


def check_workload(workload: Workload) -> None:
    """Refuse a workload for which no whole numbers are looked for."""
    _laid_out(workload)


def is_counted(table: Table) -> bool:
    """Whether a table has counts of all records, and so can have whole numbers."""
    return measured_axis(table) is None


def counted_tables(workload: Workload) -> list[Table]:
    """The tables of a workload that have counts."""
    return [table for table in workload if is_counted(table)]


class _Layout(NamedTuple):
    """Coordinates, the column of the records of each, and for every table their places and the depths of its levels."""

    attributes: list[Coordinates]
    columns: tuple[int, ...]
    places: list[tuple[int, ...]]
    depths: list[tuple[int, ...]]


def _laid_out(workload: Workload) -> _Layout:
    tables = counted_tables(workload)
    if not tables:
        raise PlanError("whole numbers", expected="a table of counts", given=Plain("sums of measures alone"))
    asked: dict[str, list[Axis]] = {}
    for entry in dict.fromkeys(itertools.chain.from_iterable(tables)):
        asked.setdefault(Axis.of(entry).attribute, []).append(Axis.of(entry))
    attributes: list[Coordinates] = []
    columns: list[int] = []
    place: dict[tuple[str, str | None], int] = {}
    for column, name in enumerate(name for name in workload.schema.names if name in asked):
        attribute = workload.schema[name]
        if attribute.cells > _MOST_CELLS:
            expected = f"attributes of at most {_MOST_CELLS:,} cells for whole numbers"
            raise QueryError(repr(name), expected=expected, given=attribute.cells)
        for chain in _chains(attribute, {axis.level for axis in asked[name]}):
            place |= {(name, level): len(attributes) for level in chain}
            columns.append(column)
            attributes.append(coordinates_of(attribute, [axis for axis in asked[name] if axis.level in chain]))
    axes = [[Axis.of(entry) for entry in table] for table in tables]
    places = [tuple([place[axis.attribute, axis.level] for axis in own]) for own in axes]
    depths = [
        tuple([attributes[at].depth(axis.level) for at, axis in zip(at_places, own, strict=True)])
        for at_places, own in zip(places, axes, strict=True)
    ]
    _require_few(depths)
    return _Layout(attributes, tuple(columns), places, depths)


def _chains(attribute: Attribute, levels: Set[str | None]) -> list[list[str | None]]:
    """Levels in use, from fine to coarse, in few chains in which each merges whole groups of the one before."""
    chains: list[list[str | None]] = []
    for level in [level for level in (None, *attribute.level_names) if level in levels]:
        coarser = attribute.partition(level)
        for chain in chains:
            if coarser.merges(attribute.partition(chain[-1])):
                chain.append(level)
                break
        else:
            chains.append([level])
    return chains


def _require_few(depths: Sequence[Sequence[int]]) -> None:
    residuals = sum(prod([depth + 1 for depth in own]) for own in depths)
    if residuals > _MOST_RESIDUALS:
        given = Plain(f"tables of so many attributes that they have {residuals:,}")
        raise QueryError("whole numbers", expected=f"at most {_MOST_RESIDUALS:,} residuals in all tables", given=given)


def _all_cells(release: Release, tables: Sequence[Table]) -> list[Floats]:
    """The estimated cells of every table, at its levels; from its ranges if nothing else is known.

    Ranges do not count what is beyond the scale. That is then what other tables have more in all, shared out evenly.
    """
    found: list[Floats | None] = [_known_cells(release, table) for table in tables]
    totals = [float(counts.sum()) for counts in found if counts is not None]
    total = sum(totals) / max(len(totals), 1)
    return [
        _cells_from_ranges(release, table, total) if counts is None else counts
        for table, counts in zip(tables, found, strict=True)
    ]


def _known_cells(release: Release, table: Table) -> Floats | None:
    try:
        return release.estimates(cells_table(table))
    except QueryError:
        return None


def _cells_from_ranges(release: Release, table: Table, total: float) -> Floats:
    schema, counts = release.workload.schema, release.estimates(table)
    for at, entry in enumerate(table):
        axis = Axis.of(entry)
        attribute = schema[axis.attribute]
        if axis.queries == "cells":
            continue
        counts = cells_from_queries(counts, at, axis, attribute)
        beyond = attribute.cells - attribute.ordered_cells
        if beyond and counts.sum() > 0:
            rest = max(total - float(counts.sum()), 0.0) / float(counts.sum()) / beyond
            np.moveaxis(counts, at, 0)[-beyond:] = rest * counts.sum(axis=at)
    return counts


def _coordinates(own: Sequence[Coordinates], depths: Sequence[int], counts: Floats) -> Floats:
    """The coordinates of a table, from its cells."""
    for at, (one, depth) in enumerate(zip(own, depths, strict=True)):
        moved = np.moveaxis(counts, at, 0)
        applied = one.on_groups(depth) @ moved.reshape(len(moved), -1)
        counts = np.moveaxis(applied.reshape(-1, *moved.shape[1:]), 0, at)
    return counts


def _parts(
    attributes: Sequence[Coordinates],
    places: Sequence[int],
    depths: Sequence[int],
    coordinates: Floats,
    energies: Sequence[Floats],
) -> Iterator[tuple[Residual, Floats, Floats]]:
    """The residuals of a table, each with its coordinates and their weights in the squared error of the table.

    In the coordinates of a table an attribute outside a residual has the factor 1 / sqrt(cells), which is taken out.
    """
    own = [attributes[place] for place in places]
    for spot in itertools.product(*(range(depth + 1) for depth in depths)):
        where = tuple([one.span(depth) for one, depth in zip(own, spot, strict=True)])
        outside = prod([float(one.cells) for one, depth in zip(own, spot, strict=True) if not depth])
        energy = reduce(np.multiply.outer, [e[w] for e, w in zip(energies, where, strict=True)], np.ones(()))
        yield _residual(places, spot), coordinates[where].ravel() * outside**0.5, np.ravel(energy) / outside


def _curvatures(own: Sequence[Coordinates], energies: Sequence[Floats]) -> Floats:
    """Per attribute of a table, the squares that moving one record along it adds, on average over its cells."""
    here = np.array([energy.sum() / one.cells for one, energy in zip(own, energies, strict=True)])
    moved = np.array([2 * energy[1:].sum() / max(one.cells - 1, 1) for one, energy in zip(own, energies, strict=True)])
    return np.asarray(moved * [prod(np.delete(here, at).tolist()) for at in range(len(own))])


def _residual(places: Sequence[int], depths: Sequence[int]) -> Residual:
    return tuple([(place, depth) for place, depth in zip(places, depths, strict=True) if depth])


def _variances(
    release: Release,
    attributes: Sequence[Coordinates],
    places: Sequence[tuple[int, ...]],
    depths: Sequence[tuple[int, ...]],
    metric: Mapping[Residual, Floats],
) -> dict[Residual, float]:
    table_of = {key: tuple([attributes[place].entry(depth) for place, depth in key]) for key in metric}
    known = predictor(release.plan, list(table_of.values()))
    sums = {key: float(known.variances(table).sum()) for key, table in table_of.items()}
    found: dict[Residual, float] = {}
    for own, most in sorted(zip(places, depths, strict=True), key=lambda both: -len(both[0])):
        if _residual(own, most) in found:
            continue
        keys = [_residual(own, spot) for spot in itertools.product(*(range(depth + 1) for depth in most))]
        lattice = np.array([sums[key] for key in keys]).reshape([depth + 1 for depth in most])
        for at, (place, depth) in enumerate(zip(own, most, strict=True)):
            lattice = np.moveaxis(
                _solved(attributes[place].depth_energies[: depth + 1, : depth + 1], np.moveaxis(lattice, at, 0)), 0, at
            )
        found.update({key: max(float(value), 0.0) for key, value in zip(keys, lattice.ravel(), strict=True)})
    return found


def _solved(triangular: Floats, sums: Floats) -> Floats:
    """Solve along the first axis; a depth without coordinates, as of an attribute with one cell, gets anything."""
    empty = np.flatnonzero(np.diagonal(triangular) == 0)
    matrix = triangular.copy()
    matrix[empty, empty] = 1.0
    solved = np.linalg.solve(matrix, sums.reshape(len(sums), -1))
    return np.asarray(solved.reshape(sums.shape), dtype=np.float64)


def _direct_variances(
    release: Release,
    attributes: Sequence[Coordinates],
    places: Sequence[tuple[int, ...]],
    depths: Sequence[tuple[int, ...]],
    metric: Mapping[Residual, Floats],
    weights: Sequence[float],
) -> dict[Residual, float]:
    """Under direct recovery tables are taken as independent, and so are the cells of a table."""
    every = zip(release.workload, predictor(release.plan).mean_variances(), strict=True)
    mean = [variance for table, variance in every if is_counted(table)]
    found = dict.fromkeys(metric, 0.0)
    for own, most, weight, variance in zip(places, depths, weights, mean, strict=True):
        rows = [attributes[place].on_groups(depth) for place, depth in zip(own, most, strict=True)]
        for spot in itertools.product(*(range(depth + 1) for depth in most)):
            residual = _residual(own, spot)
            squares, energy = 1.0, weight
            for place, depth, deepest, functions in zip(own, spot, most, rows, strict=True):
                span, sizes = attributes[place].span(depth), attributes[place].depth_energies
                values = functions[span]
                squares *= (
                    float((values * values).sum(axis=1).mean())
                    if depth and span.stop > span.start
                    else functions.shape[1]
                )
                energy *= sizes[deepest, depth] / max(span.stop - span.start, 1) if depth else sizes[deepest, 0]
            share = energy / max(float(metric[residual].mean()), 1e-300) if metric[residual].size else 0.0
            found[residual] += share**2 * squares * float(variance)
    return found
