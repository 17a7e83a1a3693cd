"""Every way of holding a table, as something that tests can count from."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import factories
import pytest
from factories import Columns, Factory

from privcube import Attribute, Schema
from privcube.sensitive.counts import ExactCounts
from privcube.sensitive.engine import CountRequest, Engine
from privcube.sensitive.engines.local import LocalEngine
from privcube.sensitive.sources import engine_for

KEY = bytes(range(32))


@dataclass(frozen=True)
class Holder:
    """One way of holding a table, and what it then says."""

    name: str
    make: Factory
    told: Callable[[Columns], Columns]

    def engine(self, columns: Columns, folder: Path) -> Engine:
        """The engine over a source made for these columns."""
        return engine_for(*self.make(columns, folder))

    def count(self, columns: Columns, folder: Path, request: CountRequest) -> ExactCounts:
        """Prepare and count, as the gate does; local engines check in counting what they check in preparing."""
        engine = self.engine(columns, folder)
        if not isinstance(engine, LocalEngine):
            engine.prepare(request)
        return engine.count(request)


def request_for(
    attributes: Sequence[Attribute],
    tables: Sequence[tuple[str, ...]] | None = None,
    person: str | None = None,
    max_rows: int = 1,
) -> CountRequest:
    """By default, one table for each attribute, every second pair of neighbors, and the total."""
    schema = Schema(attributes)
    if tables is None:
        names = schema.names
        tables = [(), *((name,) for name in names), *zip(names[::2], names[1::2], strict=False)]
    return CountRequest(schema, tuple(tables), person, max_rows, KEY)


def holders(local: Collection[str] = factories.FACTORIES, *, spark: bool = True) -> list[object]:
    """All of them, or fewer local ones; those of one server or session are kept in one test process."""
    found: list[object] = []
    for module, group in (("factories", None), ("factory_postgres", "postgres"), ("factory_spark", "spark")):
        if not Path(__file__).with_name(f"{module}.py").exists() or (group == "spark" and not spark):
            continue
        marks = [] if group is None else [pytest.mark.xdist_group(group)]
        for name, make in importlib.import_module(module).FACTORIES.items():
            if group is None and name not in local:
                continue
            told = factories.TOLD.get(name, lambda columns: columns)
            found.append(pytest.param(Holder(name, make, told), id=name, marks=marks))
    return found
