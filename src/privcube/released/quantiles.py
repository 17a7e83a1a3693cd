"""Quantiles of an ordered attribute, the median above all, from a release. Zone: RELEASED.

Let F(x) be the number of records up to x and N that of all. The quantile to the part p is where F(x) reaches p N. The
error of f(x) - p n is a linear combination of the noise with a known law, so the test |f(x) - p n| <= h(x) fails at the
true quantile with at most the stated probability, and the range of all x that pass it is an interval for the quantile.
Only ends of cells are tested. Within a bin F is taken to rise evenly, as it does in the mean over possible positions;
which bins the interval touches does not depend on that. If the interval of n contains 0, there may be no records, and
the quantile is not determined.

See THEORY section 11.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from privcube.accuracy.predictor import Predictor
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import QueryError
from privcube.model.attribute import Attribute
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table
from privcube.released.labels import Label
from privcube.released.presentation.numbers import confidence_text, in_digits
from privcube.released.selection import Selection, selected_weights

_MOST_TESTS: Final = 64  # ends of cells that are all tested; of more cells, so many first, then those beside the ends
_ROUNDING: Final = 1e-6  # added to half-widths, as to those of counts

HalfWidth = Callable[
    [int], float
]  # of f(x) - p n at the end of a group; at -1, before the first; at their number, of n


@dataclass(frozen=True)
class Quantile:
    """Where a part of the records is reached: a number for bins, a label for others; None if it is not determined.

    An end in a cell without a bound, such as "< 18", is minus or plus infinity. `cells` are the first and the last cell
    that the interval touches.
    """

    part: float
    estimate: Label | float | None
    low: Label | float | None
    high: Label | float | None
    cells: tuple[Label, Label] | None
    confidence: float

    @property
    def determined(self) -> bool:
        """Whether there are records for sure, so that there is a quantile."""
        return self.cells is not None

    def __str__(self) -> str:
        if not self.determined:
            return f"not determined ({confidence_text(self.confidence)})"
        estimate, low, high = (
            in_digits(name, each, 4) if isinstance(each, float) else str(each)  # ends are rounded outward
            for name, each in (("estimate", self.estimate), ("low", self.low), ("high", self.high))
        )
        return f"{estimate}, from {low} to {high} ({confidence_text(self.confidence)})"


def checked_part(part: float) -> float:
    """The part, if it is one between none and all."""
    if isinstance(part, bool) or not isinstance(part, int | float) or not 0 < part < 1:
        raise QueryError("quantile", expected="a number above 0 and below 1, such as 0.5 for the median", given=part)
    return float(part)


def ordered_attribute(schema: Schema, name: str) -> Attribute:
    """The attribute, if its values have an order."""
    found = schema[name]
    if not found.ordered or found.is_measure:
        raise QueryError(f"quantile of {name!r}", expected="an ordered attribute, such as one with bins")
    return found


def selections(schema: Schema, attribute: Attribute, where: Mapping[str, Selection]) -> Iterator[dict[str, Floats]]:
    """Weights on the cells of attributes, for the cells of one and then for each of its levels that is in order.

    Its first row gives each group a number of its own, so that no coarser level fits.
    """
    masks = {name: selected_weights(schema[name], selection)[None] for name, selection in where.items()}
    wanted = masks.get(attribute.name, np.ones((1, attribute.cells)))
    for level in (None, *attribute.level_names):
        groups = np.asarray(attribute.partition(level).group_of)
        if contiguous(groups[: attribute.ordered_cells]):
            yield {**masks, attribute.name: np.vstack([1.0 + groups, wanted])}


def contiguous(groups: Integers) -> bool:
    """Whether the groups of ordered cells are one after the other, so that they are ordered as well.

    >>> contiguous(np.array([0, 0, 2, 1])), contiguous(np.array([0, 1, 0]))
    (True, False)
    """
    changes = groups[np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1))]
    return len(set(changes.tolist())) == len(changes)


def quantile_in(
    predictor: Predictor,
    attribute: Attribute,
    table: Table,
    estimate: Floats,
    parts: Sequence[Floats],
    part: float,
    confidence: float,
) -> Quantile:
    """The quantile of an attribute of a table.

    Along every other entry the first row of its part has the weights of the records that are counted; the attribute has
    those weights in its second row.
    """
    place = [Axis.of(entry).attribute for entry in table].index(attribute.name)
    wanted = parts[place][1]
    group_of = np.asarray(attribute.partition(Axis.of(table[place]).level).group_of)[: attribute.ordered_cells]
    used = [group for group in dict.fromkeys(group_of.tolist()) if wanted[group] > 0]  # in the order of their cells
    if not used:
        raise QueryError(f"quantile of {attribute.name!r}", expected="conditions that leave some of its ordered values")
    beside: Floats = np.ones(())
    for at, rows in enumerate(parts):
        beside = np.multiply.outer(beside, np.ones(1) if at == place else rows[0])
    counts = np.moveaxis(estimate * beside, place, 0).reshape(len(wanted), -1).sum(axis=1)

    @cache
    def half_width(last: int) -> float:
        own = np.zeros(len(wanted))
        own[used] = -part if last < len(used) else 0.0
        own[used[: last + 1]] += 1.0
        weights = beside * own.reshape([-1 if at == place else 1 for at in range(len(parts))])
        return predictor.query_law(table, weights).half_width(confidence)

    groups = [np.flatnonzero(group_of == group) for group in used]
    return quantile_of(attribute, groups, counts[used], half_width, part, confidence)


def quantile_of(
    attribute: Attribute,
    groups: Sequence[Integers],
    counts: Floats,
    half_width: HalfWidth,
    part: float,
    confidence: float,
) -> Quantile:
    """The quantile from the noisy counts of groups of adjacent cells, in order."""
    sums = np.concatenate([[0.0], np.cumsum(counts)])  # f at the start of every group, and at the end of the last
    everything = half_width(len(counts)) + _ROUNDING
    if sums[-1] <= everything:
        return Quantile(part, None, None, None, None, confidence)
    gaps = sums - part * sums[-1]  # f - p n

    def widths(places: Integers) -> Floats:
        return np.array([half_width(place - 1) for place in places.tolist()]) + _ROUNDING

    lower = _first(lambda places: gaps[places] + widths(places) >= 0, len(gaps))
    upper = len(gaps) - 1 - _first(lambda places: gaps[::-1][places] - widths(len(gaps) - 1 - places) <= 0, len(gaps))
    rising = (np.maximum.accumulate(gaps) + np.minimum.accumulate(gaps[::-1])[::-1]) / 2
    middle = int(np.argmax(rising >= 0))
    edges = _edges(attribute, groups)
    first, last = max(lower - 1, 0), min(upper, len(counts) - 1)  # the groups that the ends are in
    cells = (attribute.labels[int(groups[first][0])], attribute.labels[int(groups[last][-1])])
    if edges is None:
        at = attribute.labels[int(groups[min(max(middle - 1, first), last)][0])]
        return Quantile(part, at, cells[0], cells[1], cells, confidence)
    low = _between(edges, lower, gaps + _near(widths, lower, len(gaps)))
    high = _between(
        edges, min(upper + 1, len(gaps) - 1), gaps - _near(widths, min(upper + 1, len(gaps) - 1), len(gaps))
    )
    estimate = min(max(_between(edges, middle, rising), low), high)
    return Quantile(part, estimate, low, high, cells, confidence)


def _first(passes: Callable[[Integers], Floats], places: int) -> int:
    """The first place that passes a test. Of many places, some are tested, and then those before the first of these."""
    start, stop, step = 0, places, max(1, math.ceil(places / _MOST_TESTS))
    while True:
        tried = np.unique(np.append(np.arange(start, stop, step), stop - 1))
        found = np.flatnonzero(passes(tried))
        at = int(found[0]) if len(found) else len(tried) - 1
        if step == 1 or at == 0:
            return int(tried[at])
        start, stop, step = int(tried[at - 1]) + 1, int(tried[at]) + 1, 1


def _near(widths: Callable[[Integers], Floats], place: int, places: int) -> Floats:
    """The half-widths beside a place, and 0 elsewhere."""
    near = np.zeros(places)
    own = np.array([each for each in (place - 1, place) if 0 <= each < places])
    near[own] = widths(own)
    return near


def _between(edges: Floats, place: int, values: Floats) -> float:
    """Where values that are negative before a place and not at it cross 0, between its edge and the one before."""
    if place == 0 or not (np.isfinite(edges[place - 1]) and np.isfinite(edges[place])):
        return float(edges[place] if place == 0 else edges[place - 1] if np.isinf(edges[place - 1]) else edges[place])
    before, after = float(values[place - 1]), float(values[place])
    part = 1.0 if after <= before else min(max(-before / (after - before), 0.0), 1.0)
    return float(edges[place - 1] + part * (edges[place] - edges[place - 1]))


def _edges(attribute: Attribute, groups: Sequence[Integers]) -> Floats | None:
    """The edges of groups of bins, infinite where a group has no bound; None for labels."""
    if attribute.bins is None:
        return None
    bins = [float(edge) for edge in attribute.bins]
    below, above = [-math.inf] * (attribute.underflow == "category"), [math.inf] * (attribute.overflow == "category")
    edges = [*below, *bins, *above]
    return np.array([edges[int(own[0])] for own in groups] + [edges[int(groups[-1][-1]) + 1]])
