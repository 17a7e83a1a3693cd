"""Levels cost nothing: "auto" is never worse than a named strategy, nor than asking for finer tables and adding up."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import privcube as pc
from privcube.accuracy.matrix_structure import structure_of
from privcube.accuracy.published import is_padded
from privcube.errors import PlanError, PrivcubeError
from privcube.model.documents.plans import digest_of
from privcube.model.frame import Frame
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee
from privcube.model.workload import Axis, Table
from privcube.planning.frames import frames
from privcube.strategies import STRATEGIES

EXAMPLES = 3 * int(os.environ.get("PRIVCUBE_AUDIT_SCHEMAS", "1"))
SLACK = 1.001
pytestmark = [pytest.mark.usefixtures("whole_search")] if EXAMPLES > 3 else []  # `make audit`
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
    structure = structure_of(workload, made.frame, made.groups, told_by=made.told_by)
    weights = np.array(workload.weights) * np.array(workload.sizes)
    return float(weights @ structure.table_variances(made.noise_variances()))


AREA = pc.Attribute(
    "area",
    values=list("abcdef"),
    levels=[
        pc.Level("pair", groups={"ab": ["a", "b"], "cd": ["c", "d"], "ef": ["e", "f"]}),
        pc.Level("most", groups={"abcd": ["ab", "cd"], "ef": ["ef"]}),
        pc.Level("half", groups={"abc": ["a", "b", "c"], "def": ["d", "e", "f"]}, of="area"),
    ],
)
SCHEMA = pc.Schema([AREA, pc.Attribute("sex", values=["F", "M"])])


def tables(*wanted: tuple[str | Axis, ...], weights: list[float] | None = None) -> pc.Workload:
    return pc.Workload.tables(SCHEMA, wanted, weights=weights)


PAIR, MOST, HALF = (Axis("area", level) for level in ("pair", "most", "half"))


@pytest.mark.parametrize(
    ("wanted", "levels"),
    [
        ([("area",), (PAIR,)], ("pair",)),  # three pairs need no padding
        ([("area",), (MOST,)], ()),  # four and two do
        ([("area",), (PAIR,), (MOST,)], ("pair",)),
        ([("area",), (PAIR,), (HALF,)], ("pair",)),  # the first of two that cross
        ([(MOST,)], ("most",)),  # nothing finer is asked for
        ([(PAIR,), (MOST,)], ("pair",)),
        ([(PAIR,), (HALF,)], ("pair\nhalf", "half")),  # ab, c, d, ef; halves of two each, pairs of 1, 2 and 1
        ([(MOST,), (HALF,), ("sex",)], ("most\nhalf",)),  # abc, d, ef
        ([("area",), ("sex",)], ()),
    ],
)  # fmt: skip
def test_levels_of_axes_without_padding(wanted: list[Table], levels: tuple[str, ...]) -> None:
    frame = Frame.unpadded(tables(*wanted))
    assert frame.levels_of(AREA) == levels
    for table in wanted:
        for entry in table:
            assert not is_padded(frame, entry)


def test_padding_is_used_where_it_pays() -> None:
    """Two large groups that matter far more than the many cells are worth two padded cells."""
    big = pc.Attribute("big", size=60, levels=[pc.Level("two", bins=[0, 31, 60])])
    schema = pc.Schema([big])
    workload = pc.Workload.tables(schema, [("big",), (("big", "two"),)], weights=[1, 100])
    for guarantee in (pc.PureDP(1), pc.ZCDP(1)):
        plain, padded = frames(workload, guarantee)
        assert (plain.fan_outs, padded.fan_outs) == (((60,),), ((2, 31),))
    even = pc.Workload.tables(schema, [("big",), (("big", "two"),)], weights=[100, 1])
    assert frames(even, pc.ZCDP(1)) == [Frame.unpadded(even)]


@pytest.mark.parametrize(
    ("kind", "leveled", "kept", "message"),
    [
        ("natural", {"area"}, (), "levels that nest, if all are to be kept"),
        ("natural", (), (("area", ()),), "levels that nest, from fine to coarse"),
        ("natural", (), (("area", ("most", "pair")),), "levels that nest, from fine to coarse"),
        ("natural", (), (("area", ("pair", "half")),), "levels that nest, from fine to coarse"),
        ("natural", (), (("area", ("pair", "pair")),), "levels that nest, from fine to coarse"),
        ("tree", (), (("area", ("pair",)),), "levels that nest, from fine to coarse"),
        ("natural", (), (("area", ("pair",)), ("area", ("most",))), "each attribute with levels once"),
        ("natural", {"sex"}, (("sex", ()),), "each attribute with levels once"),
        ("natural", (), (("area", ("wide",)),), "one of its levels, given 'wide'"),
        ("natural", (), (("area", ("pair\npair\npair\npair",)),), "one of its levels"),
        ("natural", (), (("town", ("pair",)),), "a name in the schema, given 'town'"),
    ],
)
def test_refuses_levels_that_are_no_chain(kind: str, leveled: set[str], kept: object, message: str) -> None:
    with pytest.raises(PrivcubeError, match=message):
        Frame(SCHEMA, kind, leveled=frozenset(leveled), kept=kept)  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [[], {"area": "pair"}, {"area": [3]}, {"area": []}, {"area": ["wide"]}])
def test_refuses_a_plan_document_with_other_levels(kept: object) -> None:
    made = pc.plan(tables((PAIR,), (HALF,)), pc.PureDP(1), "marginals")
    document = json.loads(made.to_json())
    assert document["frame"]["kept"] == {"area": ["pair\nhalf", "pair"]}
    assert pc.Plan.from_json(made.to_json()) == made
    del document["digest"]
    document["frame"]["kept"] = kept
    with pytest.raises(PrivcubeError, match=r"kept|levels"):
        pc.Plan.from_json(json.dumps({**document, "digest": digest_of(document)}))


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


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    derandomize=EXAMPLES == 3,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
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
