"""Measures: their grids, what is refused, tables that have them, and plans with them as documents."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcube import Attribute, Axis, Measure, Plan, PureDP, Schema, Spec, Workload, errors, plan
from privcube.model.documents.plans import digest_of
from privcube.model.documents.request import WorkloadRequest
from privcube.model.documents.toml_reader import Section
from privcube.model.frame import Frame
from privcube.model.groups import Block, BlockGroup, MatrixGroup
from privcube.model.measures.grid import Grid
from privcube.model.measures.measure import cell_weights, scale_of
from privcube.model.measures.units import LARGEST_PARTS, group_attributes, parts_of_groups

PAY = Measure("pay", low=0, high=100, step=10)
SCHEMA = Schema([*Schema.from_sizes({"a": 2, "b": 3}), PAY])
SUM = Axis("pay", queries="sum")


@given(
    low=st.integers(-50, 50),
    spacing=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    step=st.fractions(Fraction(1, 7), 5, max_denominator=7),
)
def test_parts_add_up_to_the_record_and_to_its_number(low: int, spacing: list[int], step: Fraction) -> None:
    places = np.cumsum([0, *spacing]).tolist()
    knots = [low + place * step for place in places]
    grid = Grid(low=knots[0], high=knots[-1], step=step, knots=knots[1:-1])
    assert list(grid.knots) == knots
    knot, more = grid.divided()
    for point, (at, upper) in enumerate(zip(knot.tolist(), more.tolist(), strict=True)):
        assert 0 <= upper <= grid.parts
        lower = grid.parts - upper
        assert lower * knots[at] + upper * knots[at + 1] == grid.parts * (low + point * step)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"low": 5, "high": 5, "step": 1}, "low below high"),
        ({"low": 6, "high": 5, "step": 1}, "low below high"),
        ({"low": 0, "high": float("inf"), "step": 1}, "finite"),
        ({"low": float("nan"), "high": 1, "step": 1}, "finite"),
        ({"low": 0, "high": "ten", "step": 1}, "finite"),
        ({"low": 0, "high": 10, "step": 3}, "divides the range"),
        ({"low": 0, "high": 10, "step": 0}, "a step above 0"),
        ({"low": 0, "high": 10, "step": -1}, "a step above 0"),
        ({"low": 0, "high": 10, "step": "1e-9"}, "at most 1,000,000 steps"),
        ({"low": 10**20, "high": 10**20 + 4, "step": 1}, "steps"),  # no floats between
        ({"low": 0, "high": 10**30 + 10**25, "step": 10**25}, "1e30"),
        ({"low": -(10**30) - 10**25, "high": 0, "step": 10**25}, "1e30"),
        ({"low": 0, "high": "1e-29", "step": "5e-31"}, "1e-30"),
        ({"low": 0, "high": 10, "step": 1, "knots": [11]}, "between low and high"),
        ({"low": 0, "high": 10, "step": 1, "knots": [-1]}, "between low and high"),
        ({"low": 0, "high": 10, "step": 1, "knots": ["1.5"]}, "numbers of the grid"),
        ({"low": 0, "high": 10, "step": 1, "knots": [2, 2]}, "different numbers"),
        ({"low": 0, "high": 10, "step": 1, "knots": "2"}, "a list"),
        ({"low": 0, "high": 10, "step": 1, "missing": "clamp"}, "one that is known"),
    ],
)
def test_measures_that_make_no_sense_are_refused(declared: dict, said: str) -> None:
    with pytest.raises(errors.SchemaError, match=said):
        Measure("pay", **declared)


def test_grids_reach_up_to_their_limits() -> None:
    assert Grid(low=-(10**30), high=10**30, step=10**29).steps == 20
    assert Grid(low=0, high="1e-29", step="1e-30").steps == 10


def test_a_grid_is_declared_by_the_knots_between_its_ends() -> None:
    grid = Grid(low=0, high=4, step="0.5", knots=[4, 0, 3, 1])
    assert grid.document == {"low": "0", "high": "4", "step": "0.5", "knots": ["1", "3"]}
    assert Grid(low=0, high=4, step=1).document == {"low": "0", "high": "4", "step": "1"}
    assert len(Grid(low=0, high=1_001, step=1, knots=range(1, 1_001)).knots) == 1_002
    with pytest.raises(errors.SchemaError, match="at most 1,000 numbers"):
        Grid(low=0, high=1_002, step=1, knots=range(1, 1_002))


def test_a_measure_has_no_levels_and_no_order() -> None:
    with pytest.raises(errors.SchemaError, match="neither for a measure"):
        Attribute("pay", grid=Grid(low=0, high=1, step=1), ordered=True)
    with pytest.raises(errors.WorkloadError, match="ordered attribute"):
        Workload.ranges(SCHEMA, ["pay"])


def test_names_of_sums() -> None:
    wanted = [("a", SUM)]
    assert list(Workload.tables(SCHEMA, ["a x pay"])) == wanted
    assert list(Workload.tables(SCHEMA, ["a x sum of pay"])) == wanted
    assert list(Workload.tables(SCHEMA, [("pay", "a")])) == wanted
    for wrong, said in (("sum of a", "a measure"), ("a x count of pay", "sums of measures"), ("a.x", "level")):
        with pytest.raises(errors.WorkloadError, match=said):
            Workload.tables(SCHEMA, [wrong])
    two = Schema([*SCHEMA, Measure("age", low=0, high=1, step=1)])
    with pytest.raises(errors.WorkloadError, match="one measure at most"):
        Workload.tables(two, ["pay x age"])


def test_cubes_have_no_measures_unless_asked() -> None:
    assert len(Workload.full_cube(SCHEMA)) == 4
    assert len(Workload.all_kway(SCHEMA, 2)) == 1
    assert len(Workload.full_cube(SCHEMA).with_sums(weight=2)) == 8
    assert Workload.full_cube(SCHEMA).with_sums(weight=2).weight(("a", "pay")) == 2
    with pytest.raises(errors.WorkloadError, match="a measure"):
        Workload.all_kway(SCHEMA, 1).with_sums(["b"])
    assert list(Workload.closure(SCHEMA, [("a", "pay")])) == [(), ("a",), (SUM,), ("a", SUM)]


@pytest.mark.parametrize("policies", [{"missing": "category"}, {"other": "category"}], ids=str)
def test_counts_stand_beside_sums_of_what_records_may_lack(policies: dict) -> None:
    """However sums are asked for; with the weight of the sum, unless they have their own."""
    lacked = Schema([*Schema.from_sizes({"a": 2}), Measure("pay", low=0, high=10, step=1, **policies)])
    count = Axis("pay", queries="count")
    sums, both = [("a", SUM)], [("a", SUM), ("a", count)]
    assert list(Workload.exactly(lacked, sums)) == sums
    weighted = Workload.tables(lacked, ["a x sum of pay"], weights=[3])
    assert (list(weighted), weighted.weights) == (both, (3.0, 3.0))
    assert Workload.tables(lacked, ["a x count of pay", "a x pay"], weights=[2, 3]).weights == (3.0, 2.0)
    assert list(Workload.tables(lacked, [("a", count)])) == both[1:]
    assert list(Workload.closure(lacked, ["a x pay"])) == [(), ("a",), (SUM,), (count,), *both]
    with_sums = Workload.all_kway(lacked, 1).with_sums(weight=2)
    assert (list(with_sums), with_sums.weights) == ([("a",), *both], (1.0, 2.0, 2.0))
    assert with_sums.with_sums(weight=2) == with_sums
    request = {"tables": [{"attributes": ["a"], "measures": ["pay"], "measure_weight": 2}]}
    asked = WorkloadRequest.from_section(Section("workload", request, WorkloadRequest.KEYS))
    assert asked.workload(lacked) == with_sums
    for queries in ("sum", "count"):
        made = plan(Workload.exactly(lacked, [("a", Axis("pay", queries=queries))]), PureDP(1), "marginals")
        assert len(Plan.from_json(made.to_json()).workload) == 1


def test_weights_of_cells() -> None:
    own = Measure("x", low=-5, high=20, step=5, underflow="category", overflow="category", other="category")
    assert own.labels == ("< -5", "near -5", "near 20", "> 20", "(other)")
    assert own.codes == 1 + 6 + 1 + 1
    assert cell_weights(own, "sum").tolist() == [-0.25, -0.25, 1.0, 1.0, 0.0]
    assert cell_weights(own, "count").tolist() == [1, 1, 1, 1, 0]
    assert scale_of(Schema([own]), (Axis("x", queries="sum"),)) == 20


SPEC = """
[data]
source = "people.csv"
[privacy]
epsilon = 1
[[attributes]]
name = "a"
size = 2
[[measures]]
name = "pay"
low = 0
high = "99.5"
step = 0.5
overflow = "category"
column = "PAY"
knots = [10]
title = "Pay"
[workload]
{workload}
"""


def test_a_spec_with_measures_reads_back() -> None:
    spec = Spec.from_toml(SPEC.format(workload='all_kway = [1]\nmeasures = ["pay"]\nmeasure_weight = 3'))
    assert list(spec.workload) == [("a",), ("a", SUM)]
    assert spec.workload.weight(("a", "pay")) == 3
    assert spec.schema["pay"].column == "PAY"
    assert spec.words.axis_title("pay") == "Pay"
    again = Spec.from_toml(spec.to_toml())
    assert (again.schema, again.workload) == (spec.schema, spec.workload)


def test_tables_of_a_spec_with_measures() -> None:
    text = SPEC.format(workload='tables = [{ attributes = ["a"], measures = ["pay"], title = "Pay by a" }]')
    spec = Spec.from_toml(text)
    assert list(spec.workload) == [("a",), ("a", SUM)]
    assert spec.words.tables == {("a",): "Pay by a"}
    alone = text.replace('measures = ["pay"]', 'measures = ["pay"], counts = false, measure_weight = 2')
    assert list(Spec.from_toml(alone).workload) == [("a", SUM)]
    for wrong in ('measures = ["a"]', 'measures = ["pey"]', "measures = [1]", 'measures = ["pay"], measure_weight = 0'):
        with pytest.raises(errors.PrivcubeError):
            Spec.from_toml(text.replace('measures = ["pay"]', wrong))
    with pytest.raises(errors.SpecError, match="measures that counts"):
        Spec.from_toml(text.replace('measures = ["pay"]', "counts = false"))


def test_parts_of_a_bundle_are_common_ones_and_bounded() -> None:
    made = plan(Workload.all_kway(SCHEMA, 1).with_sums(), PureDP(1), "marginals")
    assert made.parts == (1, 1, 10, 10)
    assert made.drawn_scale(2) == 10 * made.noise_scale(2)
    bundles = [(0, 2), (1,), (3,)]
    assert parts_of_groups(made.frame, made.groups, bundles, ["max_norm"] * 3) == (10, 1, 10, 10)
    rounded = ["rounded_max_norm", "max_norm", "max_norm"]
    assert parts_of_groups(made.frame, made.groups, bundles, rounded) == (64, 1, 70, 10)
    assert parts_of_groups(Frame(Schema.from_sizes({"a": 2}), "natural"), made.groups[:1], [(0,)], ["max_norm"]) == (1,)
    fine = Schema([Measure(name, low=0, high=2**17, step=1) for name in "xy"])
    cells = [MatrixGroup((name,), ((1, 0), (0, 1))) for name in "xy"]
    both = MatrixGroup(("x", "y"), ((1, 0, 0, 1),))
    assert parts_of_groups(Frame(fine, "natural"), [*cells, both], [(0, 1, 2)], ["max_norm"]) == (LARGEST_PARTS,) * 3
    fine = Schema([Measure(name, low=0, high=10**6, step=1) for name in "abc"])
    with pytest.raises(errors.PlanError, match=f"at most {LARGEST_PARTS:,} parts"):
        plan(Workload.tables(fine, ["a", "b", "c"]), PureDP(1), "base_counts")
    assert plan(Workload.tables(fine, ["a", "b", "c"]), PureDP(1)).workload.schema == fine


def test_a_block_is_counted_in_parts_of_the_measures_it_has_or_contrasts() -> None:
    frame, cells = Frame(SCHEMA, "natural"), MatrixGroup(("b",), ((1, 0, 0), (0, 1, 1)))
    own, contrasted = Block(("a",), MatrixGroup(("pay",), ((1, 0), (0, 1)))), Block(("a", "pay"), cells)
    plain = Block(("a",), cells)
    assert group_attributes(frame, own) == ("a", "pay")
    assert group_attributes(frame, BlockGroup((plain, contrasted))) == ("a", "b", "pay")
    groups = [BlockGroup((own,)), BlockGroup((plain,)), BlockGroup((plain, contrasted))]
    bundles = [[0], [1], [2]]
    assert parts_of_groups(frame, groups, bundles, ["max_norm"] * 3) == (10, 1, 10)


def document_of(made: Plan) -> dict:
    return json.loads(made.to_json())


def stamped(document: dict) -> str:
    document = {key: value for key, value in document.items() if key != "digest"}
    return json.dumps({**document, "digest": digest_of(document)})


@pytest.mark.parametrize(
    "edit",
    [
        {"step": "0"},
        {"step": "-10"},
        {"step": "3"},
        {"step": "1e-60"},
        {"high": "1e60"},
        {"high": "0"},
        {"low": "nan"},
        {"knots": ["5"]},
        {"knots": ["10"] * 2000},
        {"knots": 7},
        {"low": None},
        {"more": 1},
    ],
)
def test_hostile_grids_in_plans_are_refused(edit: dict) -> None:
    document = document_of(plan(Workload.tables(SCHEMA, ["a x pay"]), PureDP(1), "marginals"))
    assert Plan.from_json(stamped(document))
    document["attributes"][2]["grid"] |= edit
    with pytest.raises(errors.PrivcubeError):
        Plan.from_json(stamped(document))
