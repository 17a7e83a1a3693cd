"""The grid of a measure: how a number becomes whole parts of a few cells. Zone: PUBLIC.

A measure is a numeric column whose sums are published. Its numbers are put on a grid of `step` from `low` to `high`,
and the grid has a few *knots*, at least its two ends. A record does not fall into one cell, as it does for any other
attribute. It is divided between the two knots next to its number, in proportion to how near they are: with knots a and
b, a number x adds (b - x)/(b - a) to the cell of a and (x - a)/(b - a) to that of b. These parts add up to 1, and the
parts times their knots add up to x. Hence, over any set of records,

    the sum of all cells is the number of records, and the sum of cells times knots is the sum of the numbers.

On the grid the parts are whole multiples of 1/`parts`, with `parts` the least common multiple of the steps between
neighboring knots. So exact counts are whole numbers of such parts, and so is the noise.

Formal guarantee. A record is a convex combination of records that have a knot each. The norms that price a plan are
convex, hence it costs no more than one of these (THEORY section 14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import lcm
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privcube.errors import Plain, SchemaError
from privcube.model.amounts import Amount, decimal_text, exact

MOST_STEPS: Final = 1_000_000  # finer than any noise, and few enough to list what becomes of each
_MOST_KNOTS: Final = 1_000
_LEAST_STEP: Final = Fraction(1, 10**30)  # databases stop at numbers that are too small for a float
_LARGEST: Final = Fraction(10**30)


@dataclass(frozen=True, init=False)
class Grid:
    """Numbers from `low` to `high` in steps, divided between knots.

    >>> grid = Grid(low=0, high=100, step=10)
    >>> grid.steps, grid.parts, grid.values
    (10, 10, (0.0, 100.0))
    >>> Grid(low=0, high=100, step=10, knots=[50]).parts
    5
    """

    low: Fraction
    high: Fraction
    step: Fraction
    knots: tuple[Fraction, ...]

    def __init__(self, *, low: Amount, high: Amount, step: Amount, knots: Sequence[Amount] = ()) -> None:
        ends = {key: exact(given, key, SchemaError) for key, given in (("low", low), ("high", high), ("step", step))}
        first, last, width = ends["low"], ends["high"], ends["step"]
        if not first < last:
            given = Plain(f"low = {decimal_text(first)}, high = {decimal_text(last)}")
            raise SchemaError("low and high", expected="low below high", given=given)
        if max(abs(first), abs(last)) > _LARGEST or not width >= _LEAST_STEP:
            expected = "low and high from -1e30 to 1e30, and a step above 0, of at least 1e-30"
            raise SchemaError("low, high and step", expected=expected, given=Plain(f"step = {decimal_text(width)}"))
        steps = (last - first) / width
        if steps.denominator != 1:
            range_ = decimal_text(last - first)
            expected = f"a step that divides the range from low to high, {range_}, into whole steps"
            raise SchemaError("step", expected=expected, given=decimal_text(width))
        if steps > MOST_STEPS or float(first + width) == float(first) or float(last - width) == float(last):
            raise SchemaError("step", expected=f"at most {MOST_STEPS:,} steps", given=Plain(f"{int(steps):,}"))
        object.__setattr__(self, "low", first)
        object.__setattr__(self, "high", last)
        object.__setattr__(self, "step", width)
        object.__setattr__(self, "knots", self._checked_knots(knots))

    def _checked_knots(self, knots: Sequence[Amount]) -> tuple[Fraction, ...]:
        if isinstance(knots, str) or not isinstance(knots, Sequence) or len(knots) > _MOST_KNOTS:
            raise SchemaError("knots", expected=f"a list of at most {_MOST_KNOTS:,} numbers", given=knots)
        given = [exact(knot, "knots", SchemaError) for knot in knots]
        found = sorted({self.low, self.high, *given})
        inside = [knot for knot in given if self.low < knot < self.high]
        on_grid = all(((knot - self.low) / self.step).denominator == 1 for knot in found)
        if len(set(inside)) < len(inside) or found[0] < self.low or found[-1] > self.high or not on_grid:
            raise SchemaError("knots", expected="different numbers of the grid between low and high", given=knots)
        return tuple(found)

    @property
    def steps(self) -> int:
        """How many steps the grid has."""
        return int((self.high - self.low) / self.step)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The knots, in steps from `low`."""
        return tuple(int((knot - self.low) / self.step) for knot in self.knots)

    @cached_property
    def parts(self) -> int:
        """Into how many equal parts a record can be divided, so that each knot gets a whole number of them."""
        return lcm(*(right - left for left, right in pairwise(self.places)))

    @property
    def values(self) -> tuple[float, ...]:
        """The knots as floats."""
        return tuple(map(float, self.knots))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the cells of the knots."""
        return tuple(f"near {decimal_text(knot)}" for knot in self.knots)

    def divided(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each point of the grid, the knot at or below it, and how many parts go to the next one.

        >>> [found.tolist() for found in Grid(low=0, high=3, step=1).divided()]
        [[0, 0, 0, 0], [0, 1, 2, 3]]
        >>> [found.tolist() for found in Grid(low=0, high=4, step=1, knots=[2]).divided()]
        [[0, 0, 1, 1, 1], [0, 1, 0, 1, 2]]
        """
        point, places = np.arange(self.steps + 1), np.array(self.places)
        knot = np.clip(np.searchsorted(places, point, side="right") - 1, 0, len(places) - 2)
        width = (places[1:] - places[:-1])[knot]
        return knot, (point - places[knot]) * (self.parts // width)

    @property
    def document(self) -> dict[str, str | list[str]]:
        """How a document declares it."""
        written: dict[str, str | list[str]] = {
            key: decimal_text(number) for key, number in (("low", self.low), ("high", self.high), ("step", self.step))
        }
        between = [decimal_text(knot) for knot in self.knots[1:-1]]
        return {**written, **({"knots": between} if between else {})}
