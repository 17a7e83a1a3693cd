"""What a statement says of measures: their range, how they are counted, what error bars leave out. Zone: RELEASED."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from privcube.model.amounts import decimal_text
from privcube.model.attribute import Attribute
from privcube.model.measures.measure import measure_of
from privcube.model.plan import Plan
from privcube.model.workload import Axis

_OUTSIDE: Final = {
    "clamp": "count as that end",
    "category": "count as that end, and in a cell of their own",
    "drop": "leave their record out",
    "refuse": "stop the release",
}


def published_numbers(plan: Plan) -> str:
    """What the tables are of."""
    return "counts and sums" if measures_in(plan) else "counts"


def measures_in(plan: Plan) -> list[Attribute]:
    """The measures that some table has sums of."""
    used = {measure_of(table) for table in plan.workload}
    return [attribute for attribute in plan.workload.schema if attribute.name in used]


def _counted_in(plan: Plan) -> list[str]:
    """The measures that some table has counts of."""
    axes = {Axis.of(entry) for table in plan.workload for entry in table}
    return [name for name in plan.workload.schema.measures if Axis(name, queries="count") in axes]


def measure_lines(plan: Plan) -> Iterator[str]:
    """What to know about sums and means, if there are any."""
    for measure in measures_in(plan):
        grid = measure.grid
        assert grid is not None
        low, high, step = map(decimal_text, (grid.low, grid.high, grid.step))
        yield (
            f"- In tables with the sum of {measure.name}, `estimate` is that sum, and error bars are about it. Numbers "
            f"are from {low} to {high}, rounded to steps of {step}; those below {_OUTSIDE[measure.underflow]}, those "
            f"above {_OUTSIDE[measure.overflow]}. A record is divided between the ends of the range, in {grid.parts:,} "
            "equal parts, so it counts as one record and adds no more to a sum than the larger end. Error bars are "
            f"those of the noise. They leave out rounding, at most {decimal_text(grid.step / 2)} for each record, and "
            "what is cut off outside the range."
        )
    for name in _counted_in(plan):
        yield (
            f"- In tables with the count of {name}, `estimate` is the number of records that have a number for it. "
            "A mean is the sum over this count."
        )
    if measures_in(plan):
        yield (
            "- `mean` is the sum over the count, and `mean_low` to `mean_high` contain the true mean with the same "
            "probability as `low` to `high`. They are NaN where the noise leaves open whether there is any record."
        )
