"""The workload: which tables are wanted, and how much each of them matters. Zone: PUBLIC.

A table is a tuple of attributes, `("sex", "age")`; the empty tuple is the grand total. An attribute may be requested
at a declared level, `Axis("age", level="5-year")`, or by ranges on its scale: `Axis("age", queries="prefixes")` means
the counts up to every cell, `queries="ranges"` the counts between any two. In code, the pair ("age", "5-year") is
shorthand for a level. Names work, too: "sex x age", "age.5-year", "age by 5-year", "ranges of age", "total".

A table may have one measure (`privcube.Measure`): then its numbers are sums, in units of the largest number in size
that a record can have (`privcube.model.measures.measure.scale_of`), which makes sums and counts comparable. The name
of the measure, or "sum of income", stands for `Axis("income", queries="sum")`. If a record may count without having a
number (missing="category"), the mean is over those that have one. Their count is a table, too: "count of income".

Order. Attributes within a table are in schema order. Tables are sorted by number of attributes, then lexicographically
by the attributes' positions in the schema, then from fine to coarse levels, then cells, prefixes, ranges, sums, counts.
The order of the request does not matter, so equal workloads compare equal.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, get_args

from privcube.errors import Plain, WorkloadError
from privcube.model.axes import Axis as Axis
from privcube.model.axes import Entry as Entry
from privcube.model.axes import Queries as Queries
from privcube.model.axes import Table as Table
from privcube.model.axes import axis_cells as axis_cells
from privcube.model.axes import canonical as canonical
from privcube.model.axes import table_cells as table_cells
from privcube.model.axes import table_name as table_name
from privcube.model.measures.asked import counts_beside_sums, measured_axis, refuse_measures
from privcube.model.schema import Schema

_MOST_NAMED: Final = 4  # tables named when a workload is shown
_MOST_TABLES: Final = 2_000_000  # of a workload: a careless k or closure must not fill the memory


@dataclass(frozen=True, init=False, repr=False)
class Workload:
    """Tables over a schema, each with the weight of its cells' variances in the total (the paper's vector a).

    >>> schema = Schema.from_sizes({"sex": 2, "race": 5, "age": 10})
    >>> workload = Workload.tables(schema, [("race", "sex"), ("sex",)], weights=[2, 1])
    >>> list(workload), workload.weights, workload.cells
    ([('sex',), ('sex', 'race')], (1.0, 2.0), 12)
    >>> len(Workload.all_kway(schema, 2) | Workload.all_kway(schema, 1))
    6
    """

    schema: Schema
    _weights: Mapping[Table, float]

    def __init__(self, schema: Schema, weights: Mapping[Table, float]) -> None:
        """Take canonical tables with their weights, in any order; prefer the builders below."""
        if not weights:
            raise WorkloadError("workload", expected="at least one table", given=Plain("none"))
        _refuse_too_many(len(weights))
        if schema.measures:
            refuse_measures(schema, weights)
        object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "_weights", {table: weights[table] for table in sorted(weights, key=self._place)})

    # Builders

    @classmethod
    def tables(
        cls, schema: Schema, tables: Iterable[Sequence[Entry]], weights: Sequence[float] | None = None
    ) -> Workload:
        """These tables, none of them twice, and the counts that means of their sums need (`with_counts`)."""
        return cls.exactly(schema, tables, weights).with_counts()

    @classmethod
    def exactly(
        cls, schema: Schema, tables: Iterable[Sequence[Entry]], weights: Sequence[float] | None = None
    ) -> Workload:
        """These tables and no others, none of them twice."""
        wanted = [canonical(schema, table) for table in tables]
        checked = [1.0] * len(wanted) if weights is None else [checked_weight(weight) for weight in weights]
        if len(checked) != len(wanted):
            raise WorkloadError("weights", expected=f"one for each of the {len(wanted)} tables", given=len(checked))
        weighted = dict(zip(wanted, checked, strict=True))
        if len(weighted) < len(wanted):
            twice = next(table for table, times in Counter(wanted).items() if times > 1)
            raise WorkloadError("tables", expected="every table once", given=Plain(f"{table_name(twice)} twice"))
        return cls(schema, weighted)

    @classmethod
    def all_kway(cls, schema: Schema, k: int) -> Workload:
        """Qk: all tables of k attributes, without measures."""
        return cls(schema, dict.fromkeys(_kway(schema, k), 1.0))

    @classmethod
    def kway_plus_half(cls, schema: Schema, k: int) -> Workload:
        """Qk*: all tables of k attributes and every other one of k+1, in lexicographic order from the first.

        >>> binary = Schema.from_sizes({f"a{i}": 2 for i in range(16)})
        >>> workload = Workload.kway_plus_half(binary, 2)
        >>> len(workload), workload.cells
        (400, 2720)
        """
        half = itertools.islice(_kway(schema, k, more=1), 0, None, 2)
        return cls(schema, dict.fromkeys([*_kway(schema, k), *half], 1.0))

    @classmethod
    def kway_plus_attribute(cls, schema: Schema, k: int, attribute: str) -> Workload:
        """Qka: all tables of k attributes, and those of k+1 that include this one."""
        schema.position(attribute)
        with_it = (table for table in _kway(schema, k, more=1) if attribute in table)
        return cls(schema, dict.fromkeys([*_kway(schema, k), *with_it], 1.0))

    @classmethod
    def full_cube(cls, schema: Schema) -> Workload:
        """The data cube: every set of attributes, each at every declared level, and the grand total; no measures."""
        return cls.closure(schema, [schema.dimensions])

    @classmethod
    def closure(cls, schema: Schema, tables: Iterable[Sequence[Entry]]) -> Workload:
        """These tables, and all that follow from them by dropping attributes or going to coarser levels.

        >>> schema = Schema.from_sizes({"sex": 2, "race": 5})
        >>> list(Workload.closure(schema, [("sex", "race")]))
        [(), ('sex',), ('race',), ('sex', 'race')]
        """
        below: dict[Table, float] = {}
        for table in [canonical(schema, table) for table in tables]:
            choices = [[None, *_coarser(schema, axis)] for axis in table]
            _refuse_too_many(math.prod(map(len, choices)))
            _refuse_too_many(len(below))
            for choice in itertools.product(*choices):
                below[tuple(axis for axis in choice if axis is not None)] = 1.0
        return cls(schema, below).with_counts()

    @classmethod
    def prefixes(cls, schema: Schema, attributes: Sequence[str]) -> Workload:
        """The counts up to every cell of one ordered attribute, or of every combination of several."""
        return cls.tables(schema, [_each(attributes, "prefixes")])

    @classmethod
    def ranges(cls, schema: Schema, attributes: Sequence[str]) -> Workload:
        """The counts between any two cells of one ordered attribute, or of every combination of several.

        >>> Workload.ranges(Schema.from_sizes({"age": 64}), ["age"]).cells
        2080
        """
        return cls.tables(schema, [_each(attributes, "ranges")])

    def with_sums(self, measures: Sequence[str] | None = None, weight: float = 1.0) -> Workload:
        """These tables, and for each of them the sums of some measures, by default of all.

        A sum has this weight, times that of its table. With the default, an error of a sum matters as much as one of a
        count if it is the same part of what a record can add. Counts that means need are added (`with_counts`).

        >>> from privcube.model.measures.measure import Measure
        >>> schema = Schema([*Schema.from_sizes({"sex": 2}), Measure("income", low=0, high=1000, step=10)])
        >>> Workload.all_kway(schema, 1).with_sums()
        <workload of 2 tables, 4 cells: sex, sex x sum of income>
        """
        names = self.schema.measures if measures is None else [measures] if isinstance(measures, str) else measures
        for name in names:
            if name not in self.schema.measures:
                raise WorkloadError("measures", expected="a measure", given=name, available=self.schema.measures)
        times = checked_weight(weight, "weight of sums")
        sums = {
            canonical(self.schema, (*table, name)): own * times
            for table, own in self._weights.items()
            for name in names
            if measured_axis(table) is None
        }
        return Workload(self.schema, {**self._weights, **sums}).with_counts()

    def with_counts(self) -> Workload:
        """These tables, and beside sums of a measure that some records lack, how many records have it.

        Without it a plan would hardly measure what means are divided by. A count has the weight of its sum.
        """
        counts = counts_beside_sums(self.schema, self._weights) if self.schema.measures else {}
        return Workload(self.schema, {**counts, **self._weights}) if counts else self

    def __or__(self, other: Workload) -> Workload:
        """The union of two workloads; a table in both has the weight from the right."""
        if self.schema != other.schema:
            raise WorkloadError("workloads", expected="the same schema on both sides")
        return Workload(self.schema, {**self._weights, **other._weights})

    # Contents

    def __iter__(self) -> Iterator[Table]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __contains__(self, table: object) -> bool:
        try:
            return canonical(self.schema, table) in self._weights  # type: ignore[arg-type]
        except WorkloadError:
            return False

    def __repr__(self) -> str:
        named = ", ".join(map(table_name, itertools.islice(self, _MOST_NAMED)))
        more = ", ..." if len(self) > _MOST_NAMED else ""
        tables = "1 table" if len(self) == 1 else f"{len(self):,} tables"
        return f"<workload of {tables}, {self.cells:,} cells: {named}{more}>"

    __hash__ = None  # type: ignore[assignment]

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of each table, in table order."""
        return tuple(self._weights.values())

    def weight(self, table: Sequence[Entry]) -> float:
        """The weight of one table."""
        wanted = canonical(self.schema, table)
        if wanted not in self._weights:
            names = map(table_name, self)
            raise WorkloadError("table", expected="a table of the workload", given=table_name(wanted), available=names)
        return self._weights[wanted]

    @property
    def cells(self) -> int:
        """How many counts are requested in total, the paper's q."""
        return sum(self.sizes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many counts each table has."""
        known = {entry: axis_cells(self.schema, entry) for entry in set(itertools.chain.from_iterable(self))}
        return tuple([math.prod([known[entry] for entry in table]) for table in self])

    @property
    def leveled(self) -> frozenset[str]:
        """The attributes that some table requests at a level."""
        axes = (entry for table in self for entry in table if isinstance(entry, Axis))
        return frozenset(axis.attribute for axis in axes if axis.level is not None)

    @property
    def levels(self) -> dict[str, set[str | None]]:
        """The levels at which tables request each of the `leveled` attributes; None stands for its cells."""
        leveled = self.leveled
        axes = {Axis.of(entry) for table in self for entry in table if leveled}
        names = [name for name in self.schema.names if name in leveled]
        return {name: {axis.level for axis in axes if axis.attribute == name} for name in names}

    def _place(self, table: Table) -> tuple[object, ...]:
        axes = [Axis.of(entry) for entry in table]
        positions = tuple([self.schema.position(axis.attribute) for axis in axes])
        if all(isinstance(entry, str) for entry in table):
            return (len(axes), positions)
        details = tuple(
            (
                -1 if axis.level is None else self.schema[axis.attribute].level_names.index(axis.level),
                get_args(Queries).index(axis.queries),
            )
            for axis in axes
        )
        return (len(axes), positions, details)


def checked_weight(weight: object, subject: str = "weight") -> float:
    """A weight as a float; it must be finite and above 0."""
    number = not isinstance(weight, bool) and isinstance(weight, int | float)
    if not number or not 0 < weight <= sys.float_info.max:  # type: ignore[operator]
        raise WorkloadError(subject, expected="a finite number above 0", given=weight)
    return float(weight)  # type: ignore[arg-type]


def _each(attributes: Sequence[str], queries: Queries) -> list[Entry]:
    if isinstance(attributes, str):
        raise WorkloadError(queries, expected='a list of attribute names such as ["age"]', given=attributes)
    return [Axis(name, queries=queries) for name in attributes]


def _kway(schema: Schema, k: int, more: int = 0) -> Iterator[Table]:
    """All tables of k + more attributes."""
    names = schema.dimensions
    most = len(names) - more
    if isinstance(k, bool) or not isinstance(k, int) or not 0 <= k <= most:
        raise WorkloadError(
            "k", expected=f"a whole number from 0 to {most}, for a schema of {len(names)} attributes", given=k
        )
    _refuse_too_many(math.comb(len(names), k + more))
    return itertools.combinations(names, k + more)


def _coarser(schema: Schema, entry: str | Axis) -> list[str | Axis]:
    """An axis and its coarser levels."""
    axis = Axis.of(entry)
    attribute = schema[axis.attribute]
    above = attribute.level_names
    if axis.level is not None:
        own = attribute.partition(axis.level)
        above = tuple(name for name in above if name != axis.level and attribute.partition(name).merges(own))
    if axis.queries != "cells":  # ranges and sums
        above = ()
    return [entry, *(Axis(axis.attribute, level) for level in above)]


def _refuse_too_many(count: int) -> None:
    if count > _MOST_TABLES:
        raise WorkloadError("workload", expected=f"at most {_MOST_TABLES:,} tables", given=count)
