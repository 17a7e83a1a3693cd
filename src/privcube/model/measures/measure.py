"""A measure: a numeric column whose sums and means are published. Zone: PUBLIC.

A measure is an attribute of the schema that is declared by a grid (`privcube.model.measures.grid`). A table that has it
publishes the sum and the mean of the column in every cell of its other attributes (THEORY section 14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from privcube.errors import SchemaError
from privcube.model.amounts import Amount
from privcube.model.attribute import Attribute, Policy, RangePolicy
from privcube.model.measures.asked import measured_axis
from privcube.model.measures.grid import Grid
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Queries, Table


def Measure(  # noqa: N802 - it stands beside Attribute, and makes one
    name: str,
    *,
    low: Amount,
    high: Amount,
    step: Amount,
    knots: Sequence[Amount] = (),
    missing: Policy = "refuse",
    other: Policy = "refuse",
    underflow: RangePolicy = "clamp",
    overflow: RangePolicy = "clamp",
    column: str | None = None,
    trim: bool = False,
    raw: Mapping[str, Sequence[str]] | Sequence[tuple[str, Sequence[str]]] = (),
    draft: bool = False,
) -> Attribute:
    """A column of numbers from `low` to `high` to be added up, rounded to a grid of steps.

    Numbers outside count as the nearest end ("clamp"), stop the release ("refuse"), leave the record out ("drop"), or
    are counted in a cell of their own as well ("category"), in sums as the nearest end. The range must be public
    knowledge: it may not be looked up in the data. More knots between the ends also give a coarse distribution.

    >>> income = Measure("income", low=0, high=100_000, step=100)
    >>> income.is_measure, income.labels, income.grid.steps
    (True, ('near 0', 'near 100000'), 1000)
    """
    try:
        grid = Grid(low=low, high=high, step=step, knots=knots)
    except SchemaError as problem:
        raise SchemaError(f"measure {name!r}, {problem.subject}", expected=problem.expected) from None
    return Attribute(
        name,
        grid=grid,
        missing=missing,
        other=other,
        underflow=underflow,
        overflow=overflow,
        column=column,
        trim=trim,
        raw=raw,
        draft=draft,
    )


def cell_weights(measure: Attribute, queries: Queries) -> NDArray[np.float64]:
    """The weights on the cells of a measure that add up to its sum, in units of its scale, or to its count.

    What lies outside the range is clamped. A record without a number adds nothing to either.

    >>> age = Measure("age", low=-50, high=100, step=1, overflow="category", missing="category")
    >>> age.labels
    ('near -50', 'near 100', '> 100', '(missing)')
    >>> cell_weights(age, "sum").tolist(), cell_weights(age, "count").tolist()
    ([-0.5, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0])
    """
    grid = measure.grid
    assert grid is not None
    if queries == "count":
        return np.asarray(np.arange(measure.cells) < measure.ordered_cells, dtype=np.float64)
    below = grid.knots[:1] * (measure.underflow == "category")
    above = grid.knots[-1:] * (measure.overflow == "category")
    values = [float(knot / _scale(grid)) for knot in (*below, *grid.knots, *above)]
    return np.array([*values, *[0.0] * (measure.cells - len(values))])


def scale_of(schema: Schema, table: Table) -> float:
    """What the numbers of a table are in units of: 1, or for sums the largest number in size that a record can have.

    >>> schema = Schema([Measure("age", low=-50, high=100, step=1)])
    >>> scale_of(schema, (Axis("age", queries="sum"),)), scale_of(schema, (Axis("age", queries="count"),))
    (100.0, 1.0)
    """
    sums = (schema[entry.attribute].grid for entry in table if isinstance(entry, Axis) and entry.queries == "sum")
    return prod([float(_scale(grid)) for grid in sums if grid is not None], start=1.0)


def _scale(grid: Grid) -> Fraction:
    return max(abs(grid.low), abs(grid.high))


def measure_of(table: Table) -> str | None:
    """The measure that a table has sums of, if it has one.

    >>> measure_of(("sex", Axis("pay", queries="sum"))), measure_of(("sex", Axis("pay", queries="count")))
    ('pay', None)
    """
    axis = measured_axis(table)
    return None if axis is None or axis.queries != "sum" else axis.attribute
