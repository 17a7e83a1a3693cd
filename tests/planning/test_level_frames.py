"""Levels cost nothing: "auto" is never worse than a named strategy, nor than asking for finer tables and adding up."""

from __future__ import annotations

import os
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.accuracy.matrix_structure import structure_of
from privcube.errors import PlanError
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Axis, Table
from privcube.strategies import STRATEGIES

EXAMPLES = int(os.environ.get("PRIVCUBE_LEVEL_EXAMPLES", "12"))
SLACK = 1.001
GUARANTEES = [
    pc.PureDP(1),
    pc.PureDP(1, neighbors="replace_one"),
    pc.ZCDP("0.5"),
    pc.ZCDP("0.5", neighbors="replace_one"),
    pc.ApproxDP(1, "1e-6"),
    pc.ApproxDP(1, "1e-6", neighbors="replace_one"),
]


def error_on(workload: pc.Workload, made: Plan) -> float:
    """The weighted error of a workload under a plan that was made for another one."""
    structure = structure_of(workload, made.frame, made.groups)
    weights = np.array(workload.weights) * np.array(workload.sizes)
    return float(weights @ structure.table_variances(made.noise_variances()))


@st.composite
def attributes(draw: st.DrawFn, name: str) -> pc.Attribute:
    """An attribute with one or two random groupings, nested or not, of any sizes."""
    cells = draw(st.integers(2, 6))
    values = [f"{name}{number}" for number in range(cells)]
    levels, members = [], values
    for number in range(draw(st.integers(1, 2))):
        nested = number > 0 and len(members) > 1 and draw(st.booleans())
        merged = members if nested else values
        count = draw(st.integers(1, len(merged) - 1))
        home = [*range(count), *(draw(st.integers(0, count - 1)) for _ in merged[count:])]
        groups = {
            f"{name}.{number}.{g}": [m for m, own in zip(merged, home, strict=True) if own == g] for g in range(count)
        }
        levels.append(pc.Level(f"l{number}", groups=groups, of=None if nested or number == 0 else name))
        members = list(groups)
    missing = draw(st.sampled_from(["refuse", "refuse", "category"]))
    return pc.Attribute(name, values=values, levels=levels, missing=missing)


@st.composite
def workloads(draw: st.DrawFn) -> pc.Workload:
    schema = pc.Schema([draw(attributes("a")), draw(attributes("b")), pc.Attribute("c", size=draw(st.integers(2, 3)))])
    tables: dict[Table, float] = {}
    for _ in range(draw(st.integers(2, 4))):
        entries: list[str | Axis] = []
        for attribute in schema:
            level = draw(st.sampled_from(["out", None, *attribute.level_names, *attribute.level_names]))
            if level != "out":
                entries.append(attribute.name if level is None else Axis(attribute.name, level))
        tables[tuple(entries)] = draw(st.sampled_from([1.0, 1.0, 4.0]))
    return pc.Workload(schema, tables)


def finer(workload: pc.Workload) -> list[pc.Workload]:
    """The workload with one table at a level replaced by its cells, and with all of them."""
    found, weights = [], dict(zip(workload, workload.weights, strict=True))

    def cells(table: Table) -> Table:
        return tuple(Axis.of(entry).attribute for entry in table)

    for table in workload:
        if cells(table) != table:
            left = {other: weight for other, weight in weights.items() if other != table}
            found.append(pc.Workload(workload.schema, {cells(table): weights[table]} | left))
    return [*found, pc.Workload(workload.schema, {cells(table): weight for table, weight in weights.items()})]


@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(workload=workloads(), guarantee=st.sampled_from(GUARANTEES))
def test_auto_is_never_worse(workload: pc.Workload, guarantee: Guarantee) -> None:
    found = pc.plan(workload, guarantee, effort="fast")
    own = found.weighted_variance
    assert own == pytest.approx(error_on(workload, found), rel=1e-9)
    # Where replaced records are priced group by group, residuals are not optimal, with or without levels.
    by_residuals = not isinstance(guarantee, pc.PureDP) and guarantee.neighbors == "replace_one"
    for strategy in ("residual",) if by_residuals else STRATEGIES:
        with suppress(PlanError):
            named = pc.plan(workload, guarantee, strategy, budgets="iterated")
            assert own <= named.weighted_variance * SLACK, strategy
    for other in finer(workload):
        added_up = error_on(workload, pc.plan(other, guarantee, "residual" if by_residuals else "auto", effort="fast"))
        assert own <= added_up * SLACK, list(other)
