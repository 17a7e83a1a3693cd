"""The point of a grid next to a number, as SQL that all databases work out alike. Zone: SENSITIVE."""

from __future__ import annotations

from typing import Final

from privcube.model.attribute import Attribute
from privcube.model.measures.grid import Grid

_HALVES_BELOW: Final = 2**52  # floats hold all halves of integers up to here


def point_of_grid(attribute: Attribute, value: str, outside: tuple[str, str]) -> str:
    """The code of the point of the grid next to a number, or the codes for what is too small and too large.

    Each operation is one of 64-bit floats, which databases round alike. The first step is apart because PostgreSQL
    stops at quotients that are too small for a float.
    """
    grid = attribute.grid
    assert grid is not None
    low, high, step, half = (
        f"CAST('{float(number)!r}' AS FLOAT8)" for number in (grid.low, grid.high, grid.step, grid.low + grid.step / 2)
    )
    below, above = outside
    first, last = attribute.first_declared, attribute.first_declared + grid.steps
    steps = f"CAST(ceil(({value} - {low}) / {step} - CAST('0.5' AS FLOAT8)) AS INT8)"
    return (
        f"CASE WHEN {value} < {low} THEN {below} WHEN {value} > {high} THEN {above} "
        f"WHEN {value} <= {half} THEN {first} ELSE LEAST({steps} + {first}, {last}) END"
    )


def is_plain(grid: Grid) -> bool:
    """Whether the points of a grid are integers that follow one another, and floats hold what lies halfway between.

    >>> is_plain(Grid(low=-5, high=5, step=1)), is_plain(Grid(low="0.5", high="5.5", step=1))
    (True, False)
    """
    return grid.step == 1 and grid.low.denominator == 1 and max(abs(grid.low), abs(grid.high)) < _HALVES_BELOW


def whole_point_of_grid(attribute: Attribute, value: str, outside: tuple[str, str]) -> str:
    """`point_of_grid` of an integer on a plain grid: the same codes in a third of the time."""
    grid = attribute.grid
    assert grid is not None
    below, above = outside
    return (
        f"CASE WHEN {value} < ({grid.low}) THEN {below} WHEN {value} > ({grid.high}) THEN {above} "
        f"ELSE CAST({value} AS INT8) - ({grid.low - attribute.first_declared}) END"
    )
