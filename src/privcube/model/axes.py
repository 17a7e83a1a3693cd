"""Axes and tables: what a table has along each of its attributes, and how people call it. Zone: PUBLIC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast, get_args

from privcube.errors import SchemaError, WorkloadError
from privcube.model.schema import Schema, parts_of

Queries = Literal["cells", "prefixes", "ranges", "sum", "count"]  # count: of the records that have a number


class Axis(NamedTuple):
    """One attribute of a table, at a level or by ranges."""

    attribute: str
    level: str | None = None
    queries: Queries = "cells"

    @classmethod
    def of(cls, entry: str | Axis) -> Axis:
        """The axis that an entry of a table denotes.

        >>> Axis.of("age")
        Axis(attribute='age', level=None, queries='cells')
        """
        return entry if isinstance(entry, Axis) else cls(entry)

    @property
    def name(self) -> str:
        """The name of the axis for people, and of the column that holds its labels.

        >>> Axis("age").name, Axis("age", "stage").name, Axis("age", queries="ranges").name
        ('age', 'age by stage', 'ranges of age')
        """
        name = self.attribute if self.level is None else f"{self.attribute} by {self.level}"
        return name if self.queries == "cells" else f"{self.queries} of {name}"

    @property
    def is_ranged(self) -> bool:
        """Whether the axis asks for ranges or prefixes."""
        return self.queries in ("prefixes", "ranges")

    @property
    def is_measured(self) -> bool:
        """Whether the axis asks for one number of a measure."""
        return self.queries in ("sum", "count")


Entry = str | Axis | tuple[str, str]
Table = tuple[str | Axis, ...]


def canonical(schema: Schema, table: Sequence[Entry]) -> Table:
    """A table in canonical form: in schema order, with checked axes, and plain attributes as plain names.

    >>> schema = Schema.from_sizes({"sex": 2, "age": 10})
    >>> canonical(schema, ("age", "sex")), canonical(schema, "sex x age"), canonical(schema, "total")
    (('sex', 'age'), ('sex', 'age'), ())
    """
    entries = [table] if isinstance(table, str) else table
    if not isinstance(entries, Sequence):
        raise WorkloadError("table", expected='attribute names such as ("sex", "age"), or "sex x age"', given=table)
    if list(entries) == ["total"] and "total" not in schema:
        return ()
    axes = [axis for entry in entries for axis in _checked_axes(schema, entry)]
    names = [axis.attribute for axis in axes]
    if len(set(names)) < len(names):
        raise WorkloadError("table", expected="every attribute once", given=", ".join(names))
    axes.sort(key=lambda axis: schema.position(axis.attribute))
    return tuple(axis.attribute if axis == Axis(axis.attribute) else axis for axis in axes)


def table_cells(schema: Schema, table: Table) -> int:
    """How many counts a table has."""
    return math.prod([axis_cells(schema, entry) for entry in table])


def axis_cells(schema: Schema, entry: str | Axis) -> int:
    """How many queries one axis of a table has."""
    if isinstance(entry, str):
        return schema[entry].cells
    axis, attribute = entry, schema[entry.attribute]
    if axis.is_measured:
        return 1
    if axis.queries == "cells":
        return attribute.partition(axis.level).cells if axis.level else attribute.cells
    scale = attribute.ordered_cells
    return scale if axis.queries == "prefixes" else scale * (scale + 1) // 2


def table_name(table: Table) -> str:
    """The name of a table for people.

    >>> table_name(("sex", Axis("age", "5-year"))), table_name((Axis("age", queries="ranges"),)), table_name(())
    ('sex x age by 5-year', 'ranges of age', 'total')
    """
    if not table:
        return "total"
    return " x ".join(Axis.of(entry).name for entry in table)


def _checked_axes(schema: Schema, entry: Entry) -> list[Axis]:
    """The axes that an entry of a table denotes: one, or several if a text names several."""
    if isinstance(entry, str):
        if entry in schema:
            return [Axis(entry, queries="sum" if schema[entry].is_measure else "cells")]
        parts = parts_of(entry, " x ", lambda text: _named_axis(schema, text))
        return [
            _checked_axis(schema, _probable_axis(schema, part) if isinstance(part, str) else part) for part in parts
        ]
    if isinstance(entry, tuple) and 2 <= len(entry) <= 3:
        return [_checked_axis(schema, Axis(*entry))]
    raise WorkloadError("table", expected='attribute names or ("age", "level") pairs', given=entry)


def _named_axis(schema: Schema, text: str) -> Axis | None:
    named = schema.attribute_and_level(text)
    if named is not None:
        return Axis(named[0].name, named[1])
    queries, _, name = text.partition(" of ")
    known = queries in get_args(Queries) and name in schema
    return Axis(name, queries=cast(Queries, queries)) if known else None


def _probable_axis(schema: Schema, text: str) -> Axis:
    """What an unknown name was probably meant to be, so that the error lists the right alternatives."""
    for separator in (".", " by "):
        name, found, level = text.partition(separator)
        if found and name in schema:
            return Axis(name, level)
    return Axis(text)


def _checked_axis(schema: Schema, axis: Axis) -> Axis:
    try:
        attribute = schema[axis.attribute]
    except SchemaError:
        raise WorkloadError(
            "table", expected="attributes of the schema", given=axis.attribute, available=schema.names
        ) from None
    if axis.level is not None and axis.level not in attribute.level_names:
        raise WorkloadError(
            f"level of {axis.attribute!r}",
            expected="a declared level",
            given=axis.level,
            available=attribute.level_names,
        )
    if axis.queries not in get_args(Queries):
        raise WorkloadError("queries", expected="a known kind", given=axis.queries, available=get_args(Queries))
    if attribute.is_measure and axis.queries == "cells":
        axis = axis._replace(queries="sum")
    if axis.is_measured:
        if not attribute.is_measure:
            raise WorkloadError(
                f"{axis.queries} of {axis.attribute!r}", expected="a measure", given=axis.attribute,
                available=schema.measures,
            )  # fmt: skip
        return axis
    if axis.is_ranged and (axis.level is not None or not attribute.ordered):
        raise WorkloadError(
            f"{axis.queries} of {axis.attribute!r}",
            expected="an ordered attribute (bins, integers, or ordered = true), without a level",
        )
    return axis
