"""The point of a grid next to a number, as SQL that all databases work out alike. Zone: SENSITIVE."""

from __future__ import annotations

from privcube.model.attribute import Attribute


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
