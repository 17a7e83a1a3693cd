"""What a plan promises for sums and means, in words. Not in a zone.

The mean of a measure over n records is low + (high - low) u / n, with u the sum of their parts above low. The error of
u / n is about that of u - r n over n, with r the true share. It is largest where r is 0 or 1, the share of one end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from privcube.accuracy.predictor import Predictor, predictor
from privcube.errors import PlanError
from privcube.model.attribute import Attribute
from privcube.model.measures.measure import measure_of, scale_of
from privcube.model.plan import Plan
from privcube.model.workload import Axis, Table, table_name
from privcube.released.means import part_and_whole

_PEOPLE: Final = 500
_MOST: Final = 4  # measures that are spoken of
_SURE: Final = 0.95


def measure_hints(plan: Plan) -> Iterator[str]:
    """For each measure, how well the sum and the mean of 500 records of its finest table are known.

    A mean is not determined if it is known to within no less than the range of the measure.

    >>> from privcube import Measure, PureDP, Schema, Workload, plan
    >>> schema = Schema([*Schema.from_sizes({"sex": 2}), Measure("pay", low=0, high=1000, step=10)])
    >>> list(measure_hints(plan(Workload.all_kway(schema, 1).with_sums(), PureDP(1))))
    ['sex x sum of pay: the sum over 500 records is known to within 3,316.62, their mean to within 6.633 (95 %)']
    """
    schema = plan.workload.schema
    for name in schema.measures[:_MOST]:
        tables = [table for table in plan.workload if measure_of(table) == name]
        if not tables:
            continue
        table = max(tables, key=len)
        found, grid = predictor(plan, [table]), schema[name].grid
        assert grid is not None
        margin = float(np.max(found.errors(table).half_widths(_SURE))) * scale_of(schema, table)
        line = f"{table_name(table)}: the sum over {_PEOPLE} records is known to within {margin:,.6g}"
        cells = tuple([name if Axis.of(entry).is_measured else entry for entry in table])
        try:
            known = found.determines(cells)
        except PlanError:
            known = False
        if known:
            share = _widest(found, schema[name], table, cells) / _PEOPLE  # of the range
            within = f"to within {share * float(grid.high - grid.low):,.4g}"
            line += f", their mean {within if share < 1 else 'is not determined'}"
        yield f"{line} ({_SURE:.0%})".replace("%)", " %)")


def _widest(found: Predictor, measure: Attribute, table: Table, cells: Table) -> float:
    """The larger half width of the parts above low and of those below high, where the sum is known least."""
    if measure.cells == 2:
        return float(np.max(found.errors(cells).half_widths(_SURE)))
    variances = found.variances(table)
    at = next(at for at, entry in enumerate(table) if Axis.of(entry).is_measured)
    chosen = np.zeros(variances.size)
    chosen[np.argmax(variances)] = 1.0
    chosen = np.squeeze(chosen.reshape(variances.shape), axis=at)
    part, whole = part_and_whole(measure)
    weights = [np.moveaxis(np.multiply.outer(chosen, own), -1, at) for own in (part, whole - part)]
    return max(found.query_law(cells, own).half_width(_SURE) for own in weights)
