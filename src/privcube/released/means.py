"""Means of measures with intervals: a mean is a share. Zone: RELEASED.

A measure with numbers from low to high puts the part (x - low)/(high - low) of a record with number x above low. The
sum of these parts over the number of records lies between 0 and 1. It is a share of the records, and

    mean = low + (high - low) x share.

So means have the intervals of shares (`privcube.released.ratios`), which hold however few records there are, and a mean
is not determined if there may be none.

See THEORY sections 11.3 and 14.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

import numpy as np

from privcube.accuracy.intervals import ErrorLaw
from privcube.accuracy.predictor import Predictor
from privcube.algebra.lattice import Floats
from privcube.model.attribute import Attribute
from privcube.model.measures.asked import cells_of
from privcube.model.measures.measure import cell_weights
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table
from privcube.released.ratios import Ratio, Ratios, Variances, ratios_of, share_of, shares_of

_MOST_ONE_BY_ONE: Final = 512  # means of a measure with more cells than its two ends


class Mean(Ratio):
    """The mean of a measure with an interval; NaN if the records are too few to determine it."""


def part_and_whole(measure: Attribute) -> tuple[Floats, Floats]:
    """The weights on the cells of a measure of the share that its mean follows from.

    >>> from privcube.model.measures.measure import Measure
    >>> [own.tolist() for own in part_and_whole(Measure("age", low=20, high=60, step=1, missing="category"))]
    [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    """
    low, width, scale = _range(measure)
    whole = cell_weights(measure, "count")
    return np.clip((cell_weights(measure, "sum") * scale - low * whole) / width, 0.0, 1.0), whole


def means_of(predictor: Predictor, schema: Schema, table: Table, cells: Floats, confidence: float) -> Ratios | None:
    """The mean of every cell of a table of sums, from the cells of its measure; None if they are too many."""
    at = next(at for at, entry in enumerate(table) if Axis.of(entry).is_measured)
    measure = schema[Axis.of(table[at]).attribute]
    asked = cells_of(table)
    part, whole = part_and_whole(measure)
    if part.tolist() == [0.0, 1.0] and whole.tolist() == [1.0, 1.0]:
        found = shares_of(predictor, asked, cells, (at,), confidence)
        return Ratios(*(_in_units(measure, np.take(each, 1, axis=at)) for each in _columns(found)))
    shape = tuple([size for place, size in enumerate(cells.shape) if place != at])
    variances = _variances(predictor, measure, table, at, shape)
    if variances is None:
        return None

    def law_of(cell: int, of_part: float, of_whole: float) -> ErrorLaw:
        return predictor.query_law(asked, _weights(shape, at, cell, of_part * part + of_whole * whole))

    n, d = (np.tensordot(cells, own, axes=([at], [0])) for own in (part, whole))
    found = ratios_of(n, d, variances, law_of, confidence)
    return Ratios(*(_in_units(measure, column) for column in _columns(found)))


def _variances(
    predictor: Predictor, measure: Attribute, table: Table, at: int, shape: tuple[int, ...]
) -> Variances | None:
    """The variances of the parts above low, of counts, and their covariances, for every cell of the other attributes.

    Cells whose sums and counts have equal variances are taken to have equal covariances, if two of each kind do. If
    not, each is worked out by itself; None if they are too many for that.
    """
    asked, (part, whole) = cells_of(table), part_and_whole(measure)
    counts = tuple([Axis(measure.name, queries="count") if place == at else entry for place, entry in enumerate(table)])
    known = np.stack([np.squeeze(predictor.variances(own), axis=at).ravel() for own in (table, counts)])
    scaled = np.round(known / np.maximum(known.max(axis=1, keepdims=True), 1e-300), 9)
    _, kind = np.unique(scaled, axis=1, return_inverse=True)
    kind = kind.ravel()

    def worked_out(cell: int) -> list[float]:
        laws = [predictor.query_law(asked, _weights(shape, at, cell, own)) for own in (part, whole, part + whole)]
        numerator, denominator, both = (law.variance for law in laws)
        return [numerator, (both - numerator - denominator) / 2, denominator]

    found = np.zeros((3, known.shape[1]))
    for own in range(int(kind.max(initial=-1)) + 1):
        places = np.flatnonzero(kind == own)
        first, last = (np.array(worked_out(int(place))) for place in (places[0], places[-1]))
        if not np.allclose(first, last, rtol=1e-7, atol=1e-12):
            if known.shape[1] > _MOST_ONE_BY_ONE:
                return None
            found = np.array([worked_out(cell) for cell in range(known.shape[1])]).T
            break
        found[:, places] = first[:, None]
    return Variances(*found.reshape(3, *shape))


def _weights(shape: tuple[int, ...], at: int, cell: int, own: Floats) -> Floats:
    """Weights on a table with the cells of a measure: these, in one cell of the other attributes."""
    chosen = np.zeros(shape)
    chosen.flat[cell] = 1.0
    return np.moveaxis(np.multiply.outer(chosen, own), -1, at)


def mean_of(
    predictor: Predictor,
    measure: Attribute,
    table: Table,
    cells: Floats,
    part: Floats,
    whole: Floats,
    confidence: float,
) -> Mean:
    """The mean over some cells of a table with the cells of a measure, as a share of a part in a whole."""
    found = share_of(predictor, table, cells, part, whole, confidence)
    estimate, low, high = _in_units(measure, np.array([found.estimate, found.low, found.high])).tolist()
    return Mean(estimate, low, high, confidence)


def _in_units(measure: Attribute, shares: Floats) -> Floats:
    low, width, _ = _range(measure)
    return np.asarray(low + width * shares)


def _range(measure: Attribute) -> tuple[float, float, float]:
    grid = measure.grid
    assert grid is not None
    return float(grid.low), float(grid.high - grid.low), float(max(abs(grid.low), abs(grid.high)))


def _columns(ratios: Ratios) -> list[Floats]:
    return [getattr(ratios, field.name) for field in fields(ratios)]
