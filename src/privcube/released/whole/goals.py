"""What records should meet: the estimates of a release in orthonormal coordinates, and how uncertain they are.

Zone: RELEASED.

A residual is a set of attributes, each at a depth (`privcube.released.whole.coordinates`); its coordinates are sums
over the records of products of the attributes' functions. The squared error of a workload is a sum over coordinates of
`metric` times the squared error of the coordinate, up to products of different coordinates where ranges or levels of
unequal groups are asked for. The variance of a residual's coordinates follows from the mean variances of the tables
below it, which are triangular in the residuals; it decides only how closely records follow the estimates.

See THEORY section 5.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Final

import numpy as np

from privcube.accuracy.layout import cells_table
from privcube.accuracy.predictor import predictor
from privcube.algebra.lattice import Floats
from privcube.errors import Plain, PlanError, QueryError
from privcube.model.measures.measure import measure_of
from privcube.model.workload import Axis, Table, Workload
from privcube.released.release import Release
from privcube.released.whole.coordinates import Coordinates, cells_from_queries, coordinates_of

Residual = tuple[tuple[int, int], ...]  # (attribute, depth) pairs, depth above 0, in the order of the attributes

_MOST_RESIDUALS: Final = 4_000_000  # of all tables, counted once per table: beyond this, memory and hours run out
_MOST_CELLS: Final = 4096  # of an attribute: its coordinates are a square matrix


@dataclass(frozen=True, eq=False)
class Goal:
    """A residual's coordinates as estimated, the weight of a squared error in each, and their variance."""

    estimate: Floats
    metric: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class Goals:
    """The attributes that tables have, and the goals of all residuals of these tables."""

    attributes: tuple[Coordinates, ...]
    tables: tuple[tuple[int, ...], ...]  # the attributes of every table of the workload
    weights: tuple[float, ...]
    residuals: Mapping[Residual, Goal]
    curvatures: Floats  # per attribute, what moving one record along it adds to the squared error, on average

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each attribute has."""
        return tuple(own.cells for own in self.attributes)

    @property
    def total(self) -> float:
        """The estimated number of records."""
        return float(self.residuals[()].estimate[0])


def goals_of(release: Release) -> Goals:
    """The goals of a release."""
    workload = release.workload
    attributes, places, depths = _laid_out(workload)
    number = {own.attribute.name: at for at, own in enumerate(attributes)}
    sums: dict[Residual, Floats] = {}
    metric: dict[Residual, Floats] = {}
    curvatures = np.zeros(len(attributes))
    known_energies = {
        entry: attributes[number[Axis.of(entry).attribute]].energies(entry)
        for entry in dict.fromkeys(itertools.chain.from_iterable(workload))
    }
    cells = _all_cells(release)
    for table, own, most, counts, weight in zip(workload, places, depths, cells, workload.weights, strict=True):
        estimates = _coordinates([attributes[at] for at in own], most, counts)
        energies = [known_energies[entry] for entry in table]
        curvatures[list(own)] += weight * _curvatures([attributes[at] for at in own], energies)
        for residual, part, energy in _parts(attributes, own, most, estimates, energies):
            if residual in metric:
                metric[residual] += weight * energy
                sums[residual] += weight * energy * part
            else:
                metric[residual], sums[residual] = weight * energy, weight * energy * part
    variances = _variances(release, attributes, places, depths, metric)
    found = {
        residual: Goal(np.divide(sums[residual], own, out=np.zeros(own.shape), where=own > 0), own, variances[residual])
        for residual, own in metric.items()
    }
    return Goals(tuple(attributes), tuple(places), workload.weights, found, curvatures)


def check_workload(workload: Workload) -> None:
    """Refuse a workload for which no whole numbers are looked for."""
    _laid_out(workload)


def _laid_out(workload: Workload) -> tuple[list[Coordinates], list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The attributes, and for every table their places and the depths of its levels."""
    if any(measure_of(table) is not None for table in workload):
        raise PlanError("whole numbers", expected="tables of counts, without measures")
    attributes = _attributes(workload)
    number = {own.attribute.name: at for at, own in enumerate(attributes)}
    places = [tuple([number[Axis.of(entry).attribute] for entry in table]) for table in workload]
    depths = [
        tuple([attributes[at].depth(Axis.of(entry).level) for at, entry in zip(own, table, strict=True)])
        for own, table in zip(places, workload, strict=True)
    ]
    _require_few(depths)
    return attributes, places, depths


def _attributes(workload: Workload) -> list[Coordinates]:
    asked: dict[str, list[Axis]] = {}
    for entry in dict.fromkeys(itertools.chain.from_iterable(workload)):
        asked.setdefault(Axis.of(entry).attribute, []).append(Axis.of(entry))
    schema = workload.schema
    for name in asked:
        if schema[name].is_measure:
            given = Plain(f"sums of {name!r}, which no whole records have (leave the measure out)")
            raise QueryError("whole numbers", expected="tables of counts", given=given)
        if schema[name].cells > _MOST_CELLS:
            expected = f"attributes of at most {_MOST_CELLS:,} cells for whole numbers"
            raise QueryError(repr(name), expected=expected, given=schema[name].cells)
        used = [level for level in schema[name].level_names if level in {axis.level for axis in asked[name]}]
        for fine, coarse in itertools.pairwise(used):
            if not schema[name].partition(coarse).merges(schema[name].partition(fine)):
                given = Plain(f"{fine} and {coarse}")
                raise QueryError(repr(name), expected="levels that nest, for whole numbers", given=given)
    return [coordinates_of(schema[name], asked[name]) for name in schema.names if name in asked]


def _require_few(depths: Sequence[Sequence[int]]) -> None:
    residuals = sum(prod([depth + 1 for depth in own]) for own in depths)
    if residuals > _MOST_RESIDUALS:
        given = Plain(f"tables of so many attributes that they have {residuals:,}")
        raise QueryError("whole numbers", expected=f"at most {_MOST_RESIDUALS:,} residuals in all tables", given=given)


def _all_cells(release: Release) -> list[Floats]:
    """The estimated cells of every table, at its levels; from its ranges if nothing else is known.

    Ranges do not count what is beyond the scale. That is then what other tables have more in all, shared out evenly.
    """
    found: list[Floats | None] = [_known_cells(release, table) for table in release.workload]
    totals = [float(counts.sum()) for counts in found if counts is not None]
    total = sum(totals) / max(len(totals), 1)
    return [
        _cells_from_ranges(release, table, total) if counts is None else counts
        for table, counts in zip(release.workload, found, strict=True)
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
        counts = np.moveaxis(np.tensordot(one.on_groups(depth), counts, axes=(1, at)), 0, at)
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
    if not release.agrees:
        return _direct_variances(release, attributes, places, depths, metric)
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
) -> dict[Residual, float]:
    """Under direct recovery tables are taken as independent, and so are the cells of a table."""
    mean = predictor(release.plan).mean_variances()
    found = dict.fromkeys(metric, 0.0)
    for own, most, weight, variance in zip(places, depths, release.workload.weights, mean, strict=True):
        rows = [attributes[place].on_groups(depth) for place, depth in zip(own, most, strict=True)]
        for spot in itertools.product(*(range(depth + 1) for depth in most)):
            residual = _residual(own, spot)
            squares, energy = 1.0, weight
            for place, depth, deepest, functions in zip(own, spot, most, rows, strict=True):
                span, sizes = attributes[place].span(depth), attributes[place].depth_energies
                squares *= (
                    float((functions[span] ** 2).sum(axis=1).mean())
                    if depth and span.stop > span.start
                    else functions.shape[1]
                )
                energy *= sizes[deepest, depth] / max(span.stop - span.start, 1) if depth else sizes[deepest, 0]
            share = energy / max(float(metric[residual].mean()), 1e-300) if metric[residual].size else 0.0
            found[residual] += share**2 * squares * float(variance)
    return found
