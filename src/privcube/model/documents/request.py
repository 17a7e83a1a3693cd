"""The workload as requested in a spec: kept as written, turned into tables on demand. Zone: PUBLIC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from privcube.errors import Plain, SpecError
from privcube.model.documents.toml_reader import Section
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Entry, Workload, checked_weight

_AXIS_KEYS = ("attribute", "level", "queries")


@dataclass(frozen=True, kw_only=True)
class WorkloadRequest:
    """The [workload] of a spec.toml: the union of all parts, in which the weights of named tables take precedence."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "all_kway",
        "kway_plus_half",
        "kway_plus_attribute",
        "full_cube",
        "closure",
        "prefixes",
        "ranges",
        "tables",
        "measures",
        "measure_weight",
    )

    all_kway: tuple[int, ...] = ()
    kway_plus_half: tuple[int, ...] = ()
    kway_plus_attribute: tuple[tuple[int, str], ...] = ()
    full_cube: bool = False
    closure: tuple[tuple[Entry, ...], ...] = ()
    prefixes: tuple[tuple[str, ...], ...] = ()
    ranges: tuple[tuple[str, ...], ...] = ()
    tables: tuple[tuple[tuple[Entry, ...], float], ...] = ()
    measures: tuple[str, ...] = ()  # whose sums are wanted beside every table without a measure
    measure_weight: float = 1.0

    def workload(self, schema: Schema) -> Workload:
        """The requested tables."""
        parts = list(self._parts(schema))
        if not parts:
            raise SpecError("workload", expected="at least one table", given=Plain("none"), available=self.KEYS)
        whole = parts[0]
        for part in parts[1:]:
            whole = whole | part
        return whole.with_sums(self.measures, self.measure_weight) if self.measures else whole

    def _parts(self, schema: Schema) -> Iterator[Workload]:
        yield from (Workload.all_kway(schema, k) for k in self.all_kway)
        yield from (Workload.kway_plus_half(schema, k) for k in self.kway_plus_half)
        yield from (Workload.kway_plus_attribute(schema, k, name) for k, name in self.kway_plus_attribute)
        if self.full_cube:
            yield Workload.full_cube(schema)
        if self.closure:
            yield Workload.closure(schema, self.closure)
        yield from (Workload.prefixes(schema, names) for names in self.prefixes)
        yield from (Workload.ranges(schema, names) for names in self.ranges)
        if self.tables:
            yield Workload.tables(
                schema, [table for table, _ in self.tables], weights=[weight for _, weight in self.tables]
            )

    @classmethod
    def from_section(cls, section: Section) -> WorkloadRequest:
        """Read [workload]."""
        with_attribute = section.sections("kway_plus_attribute", ("k", "attribute"), required=False)
        return cls(
            all_kway=_whole_numbers(section, "all_kway"),
            kway_plus_half=_whole_numbers(section, "kway_plus_half"),
            kway_plus_attribute=tuple((item.integer("k"), item.text("attribute")) for item in with_attribute),
            full_cube=section.flag("full_cube", False),
            closure=tuple(_entries(section, "closure", item) for item in section.array("closure")),
            prefixes=_name_lists(section, "prefixes"),
            ranges=_name_lists(section, "ranges"),
            tables=tuple(
                table
                for index, item in enumerate(section.array("tables"))
                for table in weighted_tables(section, index, item)
            ),
            measures=_names(section, "measures"),
            measure_weight=_weight(section, "measure_weight"),
        )

    def to_document(self) -> dict[str, Any]:
        """Write [workload]."""
        document: dict[str, Any] = {}
        for key in ("all_kway", "kway_plus_half"):
            if getattr(self, key):
                document[key] = list(getattr(self, key))
        if self.kway_plus_attribute:
            document["kway_plus_attribute"] = [{"k": k, "attribute": name} for k, name in self.kway_plus_attribute]
        if self.full_cube:
            document["full_cube"] = True
        if self.closure:
            document["closure"] = [written(table) for table in self.closure]
        for key in ("prefixes", "ranges"):
            if getattr(self, key):
                document[key] = [list(names) for names in getattr(self, key)]
        if self.tables:
            document["tables"] = [
                written(table) if weight == 1.0 else {"attributes": written(table), "weight": weight}
                for table, weight in self.tables
            ]
        if self.measures:
            document["measures"] = list(self.measures)
        if self.measure_weight != 1.0:
            document["measure_weight"] = self.measure_weight
        return document


def _whole_numbers(section: Section, key: str) -> tuple[int, ...]:
    values = section.array(key)
    if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        raise SpecError(section.path(key), expected="a list of whole numbers such as [1, 2]", given=values)
    return tuple(values)


def _names(section: Section, key: str) -> tuple[str, ...]:
    names = section.array(key)
    if not all(isinstance(name, str) for name in names):
        raise SpecError(section.path(key), expected='a list of names such as ["income"]', given=names)
    return tuple(names)


def _weight(section: Section, key: str) -> float:
    weight = section.raw(key, 1.0)
    return checked_weight(float(weight) if isinstance(weight, Decimal) else weight, section.path(key))


def _name_lists(section: Section, key: str) -> tuple[tuple[str, ...], ...]:
    values = section.array(key)
    for names in values:
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise SpecError(section.path(key), expected='lists of attribute names such as [["age"]]', given=names)
    return tuple(tuple(names) for names in values)


def _entries(section: Section, key: str, value: object) -> tuple[Entry, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        expected = 'a list of attributes such as ["sex", "age"], or "sex x age"'
        raise SpecError(section.path(key), expected=expected, given=value)
    entries: list[Entry] = []
    for item in value:
        if isinstance(item, dict):
            axis = Section(section.path(key), item, _AXIS_KEYS)
            queries: Any = axis.text("queries", "cells")
            entries.append(Axis(axis.text("attribute"), axis.text("level", None), queries))
        elif isinstance(item, str):
            entries.append(item)
        else:
            raise SpecError(
                section.path(key),
                expected='attribute names or {attribute = "age", level = "5-year"}',
                given=item,
            )
    return tuple(entries)


def weighted_tables(section: Section, index: int, value: object) -> list[tuple[tuple[Entry, ...], float]]:
    """A table with its weight and, if it has measures, one with each of them; with `counts = false`, those alone."""
    key = f"tables[{index}]"
    if not isinstance(value, dict):
        return [(_entries(section, key, value), 1.0)]
    table = Section(section.path(key), value, ("attributes", "weight", "measures", "measure_weight", "counts", "title"))
    entries = _entries(section, f"{key}.attributes", table.raw("attributes"))
    weight, times, names = _weight(table, "weight"), _weight(table, "measure_weight"), _names(table, "measures")
    sums = [((*entries, name), weight * times) for name in names]
    if not names and ("counts" in table.given or "measure_weight" in table.given):
        raise SpecError(table.path("measures"), expected="the measures that counts and measure_weight are about")
    return [*([(entries, weight)] if table.flag("counts", True) else []), *sums]


def written(table: tuple[Entry, ...]) -> list[Any]:
    """A table as it is written in a spec."""
    return [
        entry
        if isinstance(entry, str)
        else {key: value for key, value in Axis(*entry)._asdict().items() if value not in (None, "cells")}
        for entry in table
    ]
