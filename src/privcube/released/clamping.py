"""What clamping takes from a sum, estimated from an attribute with bins beyond the range. Zone: RELEASED.

A measure counts a number x outside its range as the nearest end, e(x). The sum of x - e(x) over all records is what the
published sum lacks: the bias of clamping. Let an attribute of the same column have bins, some of them beyond the range.
A record in the bin from a to b lacks between the least and the most of x - e(x) over that bin, so

    sum of (least of a bin) x (its count)  <=  bias  <=  sum of (most of a bin) x (its count),

and both ends are linear in the counts, with error laws of their own. The interval is from the lower end of the one to
the upper end of the other: it misses the bias only if one of the two misses, each to its own side. Laws of noise are
symmetric, so that is no more often than stated for one. The estimate takes the middle of each bin.

An open end (a bin that numbers beyond it are clamped to, or a category) has no most: the interval is open, and the
estimate takes its edge, so it is too small in size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np

from privcube.accuracy.predictor import Predictor
from privcube.algebra.lattice import Floats
from privcube.errors import QueryError
from privcube.model.attribute import Attribute
from privcube.model.workload import Table
from privcube.released.presentation.numbers import confidence_text, in_digits

_ROUNDING: Final = 1e-6  # as in intervals of counts, times what rounds


@dataclass(frozen=True)
class Clamped:
    """What a sum lacks, with an interval."""

    estimate: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        parts = (("estimate", self.estimate), ("low", self.low), ("high", self.high))
        estimate, low, high = (in_digits(name, number, 4, most_decimals=4) for name, number in parts)
        return f"{estimate}, from {low} to {high} ({confidence_text(self.confidence)})"


def lacking(measure: Attribute, by: Attribute) -> tuple[Floats, tuple[bool, bool]]:
    """The least, middle and most that a record in each cell lacks, and whether the ends below and above are open.

    >>> from privcube.model.measures.measure import Measure
    >>> days = Measure("days", low=0, high=60, step=1)
    >>> lacking(days, Attribute("stay", column="days", bins=[0, 30, 80, 160], overflow="refuse"))[0].tolist()
    [[0.0, 0.0, 20.0], [0.0, 10.0, 60.0], [0.0, 20.0, 100.0]]
    """
    grid, edges = measure.grid, by.bins
    if grid is None or edges is None or by.column != measure.column:
        raise QueryError(
            f"attribute {by.name!r}",
            expected=f"one with bins of the measure's column, {measure.column!r}, some of them beyond its range",
        )

    def beyond(number: Fraction) -> float:
        return float(number - min(max(number, grid.low), grid.high))

    rows = np.zeros((by.cells, 3))  # nothing is lacking where there is no number
    for at, (a, b) in enumerate(pairwise(edges), start=by.first_declared):
        rows[at] = beyond(a), (beyond(a) + beyond(b)) / 2, beyond(b)
    if by.underflow == "category":
        rows[0] = beyond(edges[0])
    if by.overflow == "category":
        rows[by.ordered_cells - 1] = beyond(edges[-1])
    return rows.T, (by.underflow in ("category", "clamp"), by.overflow in ("category", "clamp"))


def clamped_in(
    predictor: Predictor,
    table: Table,
    cells: Floats,
    weights: list[Floats],
    opens: tuple[bool, bool],
    confidence: float,
) -> Clamped:
    """What is lacking, from the cells of a table and the weights on them of the least, middle and most of each bin."""
    least, middle, most = (float(np.sum(own * cells)) for own in weights)
    below, above = (predictor.query_law(table, weights[at]).half_width(confidence) + _ROUNDING for at in (0, 2))
    return Clamped(middle, -math.inf if opens[0] else least - below, math.inf if opens[1] else most + above, confidence)
