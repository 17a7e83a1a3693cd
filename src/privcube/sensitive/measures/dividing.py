"""Counting records that are divided between cells: the measures of a table. Zone: SENSITIVE.

A record at a point of a measure's grid adds some of its `parts` to the cell of the knot below and the others to the
next cell (`privcube.model.measures.grid`). A table with several measures divides a record by each of them in turn, so
that it adds the product of their parts in all. With p the parts of a measure and u those that go to the next cell, a
cell j gets the sum of p - u over the records whose knot is j, and of u over those whose knot is j - 1. So it is enough
to add up, for every set A of the measures, the product of the u over A (`Sums`): for the empty set that is a count, and
for a single measure it takes one count and one sum, however many steps the grid has.

Formal guarantee. A record adds whole numbers of at least 0 to the cells of a table, exactly the product of the parts in
all, and what it adds is a product over measures: a convex combination of what records at knots add (THEORY section 14).
The gate compares the total of every table with the number of records (`privcube.sensitive.gate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from privcube.errors import Plain, PlanError
from privcube.model.attribute import Attribute
from privcube.model.measures.units import LARGEST_PARTS

Counts = NDArray[np.int64]
Which = tuple[int, ...]  # positions of measures
Sums = Mapping[Which, Counts]  # by sets of measures: the sum of what goes to the next cells


@dataclass(frozen=True, eq=False)
class Divided:
    """What becomes of each code of a measure."""

    parts: int
    cell: NDArray[np.uint32]  # the cell of the knot below
    more: NDArray[np.int64]  # how many parts go to the next cell

    @classmethod
    def of(cls, attribute: Attribute) -> Divided | None:
        """How the codes of an attribute are divided; None if each is a cell."""
        grid = attribute.grid
        if grid is None:
            return None
        knot, more = grid.divided()
        first = attribute.first_declared
        above = np.arange(first + attribute.declared_cells, attribute.cells)
        cell = np.concatenate([np.arange(first), knot + first, above])
        return cls(grid.parts, cell.astype(np.uint32), np.concatenate([np.zeros(first, dtype=int), more, 0 * above]))

    @cached_property
    def lower_cells(self) -> NDArray[np.int64]:
        """The cells of knots below codes, each once: of a measure with two knots and nothing else, only the first."""
        return np.flatnonzero(np.bincount(self.cell))

    @cached_property
    def lower(self) -> NDArray[np.unsignedinteger]:
        """For each code, the number of its cell among the lower cells."""
        found = np.searchsorted(self.lower_cells, self.cell)
        return found.astype(np.min_scalar_type(len(self.lower_cells)))


@dataclass(frozen=True, eq=False)
class CountAndSum:
    """The weights of a measure's codes by which one pass over records counts them and adds up what goes to next cells.

    A record weighs `one`, a power of two, and what it adds to the next cell. `one` is more than the latter can come to
    in `most` records, so their sum tells both apart, and they weigh less than 2^53, so floats add them up exactly.

    >>> both = CountAndSum.of(Divided(4, np.zeros(5, dtype=np.uint32), np.arange(5)))
    >>> weights = both.weigh(np.array([3, 4, 4], dtype=np.uint8), np.empty(3))
    >>> [each.tolist() for each in both.apart(np.bincount([0, 1, 1], weights, minlength=3))]
    [[1, 2, 0], [3, 8, 0]]
    """

    one: int
    most: int
    weights: NDArray[np.float64]
    in_order: bool  # whether a code is what it adds to the next cell: then to add is faster than to look up

    @classmethod
    def of(cls, divided: Divided) -> CountAndSum:
        """The weights with which most records can be weighed at once."""
        parts = divided.parts
        most, one = max((min((2**bits - 1) // parts, (2**53 - 1) // (2**bits + parts)), 2**bits) for bits in range(53))
        in_order = np.array_equal(divided.more, np.arange(len(divided.more)))
        return cls(one, most, (divided.more + one).astype(np.float64), in_order)

    def weigh(self, codes: NDArray[np.unsignedinteger], out: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights of some codes."""
        if self.in_order:
            np.add(codes, float(self.one), out=out, dtype=np.float64)
        else:
            np.take(self.weights, codes, out=out, mode="clip")
        return out

    def apart(self, weighed: NDArray[np.float64]) -> tuple[Counts, Counts]:
        """How many records a sum of weights has, and how much they add to next cells."""
        whole = weighed.astype(np.int64)
        return whole >> (self.one.bit_length() - 1), whole & (self.one - 1)


def divided_places(attributes: Sequence[Attribute]) -> dict[int, Divided]:
    """The measures among some attributes, by their position."""
    found = {place: Divided.of(attribute) for place, attribute in enumerate(attributes)}
    return {place: each for place, each in found.items() if each is not None}


def subsets(measures: Which) -> list[Which]:
    """All sets of some measures.

    >>> subsets((2, 5))
    [(), (2,), (5,), (2, 5)]
    """
    return list(chain.from_iterable(combinations(measures, size) for size in range(len(measures) + 1)))


def checked_parts(measures: Which, divided: Mapping[int, Divided]) -> int:
    """Into how many parts a table with some measures divides a record; refused if sums could become too large."""
    parts = prod([divided[place].parts for place in measures])
    if parts > LARGEST_PARTS:
        expected = f"at most {LARGEST_PARTS:,} parts of a record in a table (coarser steps of measures have fewer)"
        raise PlanError("tables to count", expected=expected, given=Plain(f"{parts:,}"))
    return parts


def assembled(sums: Sums, attributes: Which, divided: Mapping[int, Divided]) -> Counts:
    """A table from the sums of its records by knots: each has one axis per attribute.

    >>> one = Divided(4, np.zeros(5, dtype=np.uint32), np.arange(5))
    >>> count, more = np.array([[3, 0], [1, 0]]), np.array([[7, 0], [4, 0]])
    >>> assembled({(): count, (1,): more}, (0, 1), {1: one}).tolist()
    [[5, 7], [0, 4]]
    """
    found = dict(sums)
    for place in [place for place in attributes if place in divided]:
        at = attributes.index(place)
        merged = {}
        for which in [which for which in found if place not in which]:
            upper = found[tuple(sorted((*which, place)))]
            merged[which] = divided[place].parts * found[which] - upper
            _add_to_next_cell(merged[which], upper, at)
        found = merged
    return found[()]


def by_cells(sums: Sums, attributes: Which, divided: Mapping[int, Divided], sizes: Sequence[int]) -> Sums:
    """Sums by all cells, from those by the lower cells of measures: there is nothing in others.

    >>> one = Divided(4, np.zeros(5, dtype=np.uint32), np.arange(5))
    >>> by_cells({(): np.array([[3], [1]])}, (0, 1), {1: one}, [2, 2])[()].tolist()
    [[3, 0], [1, 0]]
    """
    return {which: _by_cells(own, attributes, divided, sizes) for which, own in sums.items()}


def _by_cells(counts: Counts, attributes: Which, divided: Mapping[int, Divided], sizes: Sequence[int]) -> Counts:
    for at, place in enumerate(attributes):
        if place in divided:
            wide = np.zeros((*counts.shape[:at], sizes[place], *counts.shape[at + 1 :]), dtype=np.int64)
            np.moveaxis(wide, at, 0)[divided[place].lower_cells] = np.moveaxis(counts, at, 0)
            counts = wide
    return counts


def records_of(counts: Counts, attributes: Which, table: Which, divided: Mapping[int, Divided]) -> Counts:
    """A table in its own parts, from its counts in those of a block: a record adds all the parts of each measure.

    >>> one = Divided(4, np.zeros(5, dtype=np.uint32), np.arange(5))
    >>> records_of(np.array([12, 8]), (0, 1), (0,), {1: one}).tolist()
    [3, 2]
    """
    parts = prod([divided[place].parts for place in attributes if place in divided and place not in table])
    return counts if parts == 1 else np.asarray(counts // parts)


def _add_to_next_cell(counts: Counts, upper: Counts, axis: int) -> None:
    """Add what goes to next cells along an axis; in its last cell there is nothing to move."""
    before: tuple[slice, ...] = (slice(None),) * axis
    if np.any(upper[(*before, slice(-1, None))]):
        raise PlanError("counts of a measure", expected="no parts beyond its last cell")
    counts[(*before, slice(1, None))] += upper[(*before, slice(None, -1))]


def cell_and_more(attribute: Attribute, code: str) -> tuple[str, str]:
    """SQL for the cell of the knot below a code of a measure, and for how many parts go to the next one, NULL for none.

    A database works the code out again wherever it is named, so only cases that a measure has are written.

    >>> from privcube.model.measures.measure import Measure
    >>> cell_and_more(Measure("hours", low=0, high=100, step=1), "c0")
    ('CASE WHEN c0 < 101 THEN 0 END', 'c0')
    """
    grid = attribute.grid
    assert grid is not None
    first, last = attribute.first_declared, len(grid.places) - 2
    missing = [f"WHEN {code} < {first} THEN"] if first else []
    cells, mores, start = [f"{case} {code}" for case in missing], [f"{case} NULL" for case in missing], first
    for knot, (left, right) in enumerate(zip(grid.places, grid.places[1:], strict=False)):
        end = first + (right if knot < last else right + 1)  # the last knot is the end of its stretch
        times = grid.parts // (right - left)
        more = (f"({code} - {start})" if start else code) + (f" * {times}" if times > 1 else "")
        cells.append(f"WHEN {code} < {end} THEN {first + knot}")
        mores.append(f"WHEN {code} < {end} THEN {more}")
        start = first + right
    beyond = attribute.cells - first - attribute.declared_cells
    others = f" ELSE {code} - {grid.steps + 1 - attribute.declared_cells}" if beyond else ""
    alone = not (missing or last or beyond)
    return f"CASE {' '.join(cells)}{others} END", more if alone else f"CASE {' '.join(mores)} END"
