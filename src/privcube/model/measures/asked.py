"""What tables may ask of measures, and the counts that means need beside sums. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from privcube.errors import Plain, WorkloadError
from privcube.model.axes import Axis, Table
from privcube.model.schema import Schema


def measured_axis(table: Table) -> Axis | None:
    """The axis of a table that asks for one number of a measure, its sum or its count, if it has one."""
    return next((entry for entry in table if isinstance(entry, Axis) and entry.is_measured), None)


def cells_of(table: Table) -> Table:
    """A table with the cells of its measure in place of their sum or count.

    >>> cells_of(("sex", Axis("pay", queries="sum")))
    ('sex', 'pay')
    """
    return tuple([entry.attribute if isinstance(entry, Axis) and entry.is_measured else entry for entry in table])


def counts_beside_sums(schema: Schema, weights: Mapping[Table, float]) -> dict[Table, float]:
    """For tables with the sum of a measure that some records lack: how many records have it, with the same weights.

    >>> from privcube.model.measures.measure import Measure
    >>> schema = Schema([*Schema.from_sizes({"sex": 2}), Measure("pay", low=0, high=10, step=1, missing="category")])
    >>> counts_beside_sums(schema, {("sex",): 1.0, ("sex", Axis("pay", queries="sum")): 2.0})
    {('sex', Axis(attribute='pay', level=None, queries='count')): 2.0}
    """
    found = {}
    for table, weight in weights.items():
        axis = measured_axis(table)
        if axis is not None and axis.queries == "sum" and _is_lacked(schema, axis):
            found[tuple([axis._replace(queries="count") if entry == axis else entry for entry in table])] = weight
    return found


def refuse_measures(schema: Schema, tables: Iterable[Table]) -> None:
    """Refuse tables with several measures, and counts that equal those of the table without the measure."""
    for table in tables:
        measured = [entry for entry in table if isinstance(entry, Axis) and entry.is_measured]
        if len(measured) > 1:
            names = ", ".join(axis.attribute for axis in measured)
            raise WorkloadError("table", expected="one measure at most (ask for a table of each)", given=Plain(names))
        if measured and measured[0].queries == "count" and not _is_lacked(schema, measured[0]):
            expected = "sums of measures (the table without the measure has the counts)"
            raise WorkloadError("table", expected=expected, given=Plain(measured[0].name))


def _is_lacked(schema: Schema, axis: Axis) -> bool:
    """Whether records without a number for a measure count as well."""
    return schema[axis.attribute].ordered_cells < schema[axis.attribute].cells
