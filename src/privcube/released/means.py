"""Means of measures with intervals: a mean is a share. Zone: RELEASED.

A measure with numbers from low to high puts the part (x - low)/(high - low) of a record with number x above low. The
sum of these parts over the number of records lies between 0 and 1. It is a share of the records, and

    mean = low + (high - low) x share.

So means have the intervals of shares (`privcube.released.ratios`), which hold however few records there are, and a mean
is not determined if there may be none.

See THEORY sections 11.3 and 14.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Final

import numpy as np

from privcube.accuracy.predictor import Predictor
from privcube.algebra.lattice import Floats
from privcube.model.attribute import Attribute
from privcube.model.measures.measure import cell_weights
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table
from privcube.released.ratios import Ratio, Ratios, share_of, shares_of

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
    shape = [size for place, size in enumerate(cells.shape) if place != at]
    if math.prod(shape) > _MOST_ONE_BY_ONE:
        return None
    rows: list[list[float]] = []
    for place in np.ndindex(*shape):
        chosen = np.zeros(shape)
        chosen[place] = 1.0
        upper, every = (np.moveaxis(np.multiply.outer(chosen, own), -1, at) for own in (part, whole))
        surer = 1 - (1 - confidence) / max(math.prod(shape), 1)
        alone, together = (share_of(predictor, asked, cells, upper, every, sure) for sure in (confidence, surer))
        rows.append([alone.estimate, alone.low, alone.high, together.low, together.high])
    return Ratios(*(_in_units(measure, column.reshape(shape)) for column in np.array(rows).reshape(-1, 5).T))


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


def cells_of(table: Table) -> Table:
    """A table with the cells of its measure in place of their sum."""
    return tuple([entry.attribute if isinstance(entry, Axis) and entry.is_measured else entry for entry in table])


def _in_units(measure: Attribute, shares: Floats) -> Floats:
    low, width, _ = _range(measure)
    return np.asarray(low + width * shares)


def _range(measure: Attribute) -> tuple[float, float, float]:
    grid = measure.grid
    assert grid is not None
    return float(grid.low), float(grid.high - grid.low), float(max(abs(grid.low), abs(grid.high)))


def _columns(ratios: Ratios) -> list[Floats]:
    return [getattr(ratios, field.name) for field in fields(ratios)]
