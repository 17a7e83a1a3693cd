"""Workloads: which tables are asked for, in which order, with which weights, and how many cells they have."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import PureDP, plan
from privcube.errors import PrivcubeError, WorkloadError
from privcube.model.attribute import Attribute
from privcube.model.levels import Level
from privcube.model.schema import Schema
from privcube.model.workload import Axis, Table, Workload, canonical, table_cells, table_name

SMALL = Schema.from_sizes({"sex": 2, "race": 5, "age": 10})
BINARY = Schema.from_sizes({f"a{i}": 2 for i in range(16)})
LEVELS = Schema(
    [
        Attribute("sex", values=["F", "M"], missing="category"),
        Attribute("age", size=12, levels=[Level("three", width=3), Level("six", width=6)]),
        Attribute(
            "income",
            bins=[0, 1, 2, 4, 8],
            underflow="category",
            overflow="category",
            other="category",
            missing="category",
            levels=[Level("half", bins=[0, 2, 8])],
        ),
        Attribute(
            "city", values=["LA", "SF", "NYC"], levels=[Level("state", groups={"CA": ["LA", "SF"], "NY": ["NYC"]})]
        ),
    ]
)
schemas = st.lists(st.integers(1, 6), min_size=1, max_size=6).map(
    lambda sizes: Schema.from_sizes({f"a{number}": size for number, size in enumerate(sizes)})
)


def names_of(schema: Schema, k: int) -> list[tuple[str, ...]]:
    """All k-way tables, straight from the definition."""
    return [tuple(schema.names[i] for i in places) for places in combinations(range(len(schema)), k)]


# The paper's workloads against their definitions


@given(schemas, st.data())
def test_all_kway(schema: Schema, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(schema)))
    workload = Workload.all_kway(schema, k)
    assert list(workload) == names_of(schema, k)
    assert set(workload.weights) == {1.0}
    assert workload.cells == sum(math.prod(schema[name].cells for name in table) for table in names_of(schema, k))


@given(schemas, st.data())
def test_kway_plus_half(schema: Schema, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(schema) - 1))
    half = [table for place, table in enumerate(names_of(schema, k + 1)) if place % 2 == 0]
    assert list(Workload.kway_plus_half(schema, k)) == [*names_of(schema, k), *half]


@given(schemas, st.data())
def test_kway_plus_attribute(schema: Schema, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(schema) - 1))
    name = data.draw(st.sampled_from(schema.names))
    with_it = [table for table in names_of(schema, k + 1) if name in table]
    assert list(Workload.kway_plus_attribute(schema, k, name)) == [*names_of(schema, k), *with_it]


def test_the_papers_size() -> None:
    """Q2* on 16 binary attributes: 120 + 560/2 tables, 4 * 120 + 8 * 280 cells."""
    workload = Workload.kway_plus_half(BINARY, 2)
    assert (len(workload), workload.cells) == (400, 2720)


# Order, equality, weights


@settings(deadline=None)
@given(st.data())
def test_order_asked_plays_no_role(data: st.DataObject) -> None:
    axes = [[name, *[Axis(name, level) for level in LEVELS[name].level_names]] for name in LEVELS.names]
    every = list({table for k in range(5) for some in combinations(axes, k) for table in product(*some)})
    tables = data.draw(st.lists(st.sampled_from(sorted(every, key=str)), min_size=1, max_size=8, unique=True))
    weights = data.draw(st.lists(st.floats(0.1, 10), min_size=len(tables), max_size=len(tables)))
    shuffled = data.draw(st.permutations(range(len(tables))))
    straight = Workload.tables(LEVELS, tables, weights)
    mixed = Workload.tables(
        LEVELS, [data.draw(st.permutations(tables[i])) for i in shuffled], [weights[i] for i in shuffled]
    )
    assert straight == mixed
    assert list(straight) == list(mixed)
    assert straight.weights == mixed.weights
    assert {table: straight.weight(table) for table in tables} == dict(zip(tables, weights, strict=True))


def test_order_is_by_number_place_level_and_queries() -> None:
    asked = [("age", "sex"), ("age",), (Axis("age", "six"),), (Axis("age", queries="ranges"),), ("sex",), ()]
    asked += [(("age", "three"),), (Axis("age", queries="prefixes"),), ("sex", ("age", "six"))]
    assert [table_name(table) for table in Workload.tables(LEVELS, asked)] == [
        "total",
        "sex",
        "age",
        "prefixes of age",
        "ranges of age",
        "age by three",
        "age by six",
        "sex x age",
        "sex x age by six",
    ]


def test_union_keeps_the_weight_on_the_right() -> None:
    left = Workload.tables(SMALL, [("sex",), ("race",)], weights=[2, 3])
    right = Workload.tables(SMALL, [("race",), ("age",)], weights=[5, 7])
    assert dict(zip(left | right, (left | right).weights, strict=True)) == {("sex",): 2, ("race",): 5, ("age",): 7}
    assert (right | left).weight(("race",)) == 3
    assert Workload.all_kway(SMALL, 1) | Workload.all_kway(SMALL, 2) == Workload.all_kway(SMALL, 2) | Workload.all_kway(
        SMALL, 1
    )


def test_weights_are_part_of_equality() -> None:
    assert Workload.tables(SMALL, [("sex",)]) == Workload.tables(SMALL, [("sex",)], weights=[1])
    assert Workload.tables(SMALL, [("sex",)]) != Workload.tables(SMALL, [("sex",)], weights=[2])


def test_contains_and_weight() -> None:
    workload = Workload.all_kway(SMALL, 1)
    assert ("sex",) in workload
    assert ("sex", "age") not in workload
    with pytest.raises(WorkloadError, match=r"a table of the workload, given 'sex x age'.*available: sex, race, age"):
        workload.weight(("sex", "age"))


# The cube


def test_full_cube_counts_levels() -> None:
    """Each attribute is left out, taken at one of its levels, or as single values: levels + 2 choices."""
    cube = Workload.full_cube(LEVELS)
    assert len(cube) == 2 * 4 * 3 * 3
    assert cube.cells == (3 + 1) * (12 + 4 + 2 + 1) * (8 + 6 + 1) * (3 + 2 + 1)
    assert next(iter(cube)) == ()


@given(schemas)
def test_full_cube_is_every_subset(schema: Schema) -> None:
    assert list(Workload.full_cube(schema)) == [table for k in range(len(schema) + 1) for table in names_of(schema, k)]


def test_closure_goes_to_coarser_levels_only() -> None:
    closure = Workload.closure(LEVELS, [("sex", Axis("age", "three")), ("city",)])
    assert set(closure) == {
        (),
        ("sex",),
        ("city",),
        (Axis("city", "state"),),
        *((Axis("age", level),) for level in ("three", "six")),
        *(("sex", Axis("age", level)) for level in ("three", "six")),
    }
    assert set(closure.weights) == {1.0}


def test_closure_of_ranges_leaves_them_or_takes_them() -> None:
    ranges = Axis("age", queries="ranges")
    assert set(Workload.closure(LEVELS, [("sex", ranges)])) == {(), ("sex",), (ranges,), ("sex", ranges)}


# Ranges


@given(st.integers(1, 20), st.integers(1, 20))
def test_cells_of_ranges_and_prefixes(one: int, another: int) -> None:
    schema = Schema.from_sizes({"x": one, "y": another})
    ends = {n: [(low, high) for low in range(n) for high in range(low, n)] for n in (one, another)}
    assert Workload.prefixes(schema, ["x"]).cells == one
    assert Workload.ranges(schema, ["x"]).cells == len(ends[one])
    assert Workload.ranges(schema, ["x", "y"]).cells == len(ends[one]) * len(ends[another])


def test_other_and_missing_lie_outside_the_scale() -> None:
    """Income has below, 4 bins, above on its scale; (other) and (missing) belong to no range."""
    assert LEVELS["income"].cells == 8
    assert Workload.prefixes(LEVELS, ["income"]).cells == 6
    assert Workload.ranges(LEVELS, ["income"]).cells == 6 * 7 // 2
    assert Workload.tables(LEVELS, [("sex", Axis("income", queries="prefixes"))]).cells == 3 * 6
    assert table_cells(LEVELS, (Axis("income", "half"),)) == 2 + 4
    assert Workload.tables(LEVELS, [("sex", "income")]).cells == 3 * 8


# Refused


@pytest.mark.parametrize(
    "tables",
    [
        [],
        "sex",
        [("sex", "sexx")],
        [("sex", "sex")],
        [("age", Axis("age", "three"))],
        [("sex",), ("sex",)],
        [("sex", "age"), ("age", "sex")],
        [(Axis("sex"),), ("sex",)],
        [5],
        [None],
        [{"sex"}],
        [(None,)],
        [(1,)],
        [(["sex"],)],
        [(("sex",),)],
        [((["age"], "three"),)],
        [(("age", "decade"),)],
        [(("age", ["three"]),)],
        [(("sex", "three"),)],
        [(("age", None, "averages"),)],
        [(("age", "three", "cells", "more"),)],
        [(Axis("city", queries="ranges"),)],
        [(Axis("sex", queries="prefixes"),)],
        [(Axis("age", "three", "ranges"),)],
    ],
    ids=repr,
)
def test_refuses_tables(tables: list[Table]) -> None:
    with pytest.raises(WorkloadError):
        Workload.tables(LEVELS, tables)
    if len(tables) != 2:  # a closure may name what it already holds
        with pytest.raises(WorkloadError):
            Workload.closure(LEVELS, tables)


def test_messages_name_the_offender() -> None:
    with pytest.raises(WorkloadError, match="given 'incme'; did you mean 'income'"):
        Workload.tables(LEVELS, [("incme",)])
    with pytest.raises(WorkloadError, match="sex x age twice"):
        Workload.tables(LEVELS, [("sex", "age"), ("age", "sex")])
    with pytest.raises(WorkloadError, match="ranges of 'city': expected an ordered attribute"):
        Workload.ranges(LEVELS, ["city"])
    with pytest.raises(WorkloadError, match="a declared level, given 'thre'; did you mean 'three'"):
        canonical(LEVELS, [("age", "thre")])


@pytest.mark.parametrize("build", [Workload.prefixes, Workload.ranges])
def test_refuses_a_string_of_attributes(build) -> None:
    """With one-letter names a string would pass for a list of attributes."""
    with pytest.raises(WorkloadError, match="a list of attribute names"):
        build(Schema.from_sizes({"a": 2, "b": 2}), "ab")


@pytest.mark.parametrize(
    "weight",
    [0, -1, 0.0, float("nan"), float("inf"), -float("inf"), True, "1", None, 10**400, [1]],
    ids=lambda w: str(w)[:9],
)
def test_refuses_weight(weight: object) -> None:
    with pytest.raises(WorkloadError, match=r"^weight: expected a finite number above 0"):
        Workload.tables(SMALL, [("sex",), ("race",)], weights=[1, weight])


@pytest.mark.parametrize("weights", [[], [1], [1, 1, 1]])
def test_refuses_number_of_weights(weights: list[float]) -> None:
    with pytest.raises(WorkloadError, match="one for each of the 2 tables"):
        Workload.tables(SMALL, [("sex",), ("race",)], weights=weights)


@pytest.mark.parametrize("k", [-1, 4, True, 1.0, "1", None, 10**30], ids=repr)
def test_refuses_k(k: object) -> None:
    for build in (
        lambda: Workload.all_kway(SMALL, k),
        lambda: Workload.kway_plus_half(SMALL, k),
        lambda: Workload.kway_plus_attribute(SMALL, k, "sex"),
    ):
        with pytest.raises(WorkloadError, match=f"^k: expected a whole number.*given {k!r}"):
            build()


def test_more_attributes_than_there_are() -> None:
    """All 3-way tables exist, but no 4-way ones to add to them; the message repeats the k that was given."""
    assert len(Workload.all_kway(SMALL, 3)) == 1
    with pytest.raises(WorkloadError, match=r"from 0 to 2, .*given 3"):
        Workload.kway_plus_half(SMALL, 3)
    with pytest.raises(PrivcubeError, match="did you mean 'race'"):
        Workload.kway_plus_attribute(SMALL, 1, "rac")


def test_refuses_another_schema() -> None:
    with pytest.raises(WorkloadError, match="the same schema"):
        Workload.all_kway(SMALL, 1) | Workload.all_kway(BINARY, 1)


WIDE = Schema.from_sizes({f"a{i}": 2 for i in range(3000)})


@pytest.mark.parametrize(
    "build",
    [
        lambda: Workload.all_kway(WIDE, 3),
        lambda: Workload.all_kway(WIDE, 1500),
        lambda: Workload.kway_plus_half(WIDE, 2),
        lambda: Workload.kway_plus_attribute(WIDE, 2, "a0"),
        lambda: Workload.full_cube(WIDE),
        lambda: Workload.closure(WIDE, [WIDE.names[:40]]),
    ],
)
def test_billions_of_tables_are_refused_at_once(build, effort: Any) -> None:
    """The work is that of reading names, not that of listing tables."""
    with effort.counted(), pytest.raises(WorkloadError, match="at most 2,000,000 tables"):
        build()
    assert effort.calls < 100 * len(WIDE)
    assert effort.most_bytes < 2**20


def test_many_closures_are_refused_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each closure may be small enough and all of them together too many."""
    monkeypatch.setattr("privcube.model.workload._MOST_TABLES", 20)
    assert len(Workload.closure(BINARY, [BINARY.names[:4]])) == 16
    with pytest.raises(WorkloadError, match="at most 20 tables"):
        Workload.closure(BINARY, [BINARY.names[start : start + 4] for start in range(0, 16, 4)])
    with pytest.raises(WorkloadError, match="at most 20 tables"):
        Workload.all_kway(BINARY, 1) | Workload.closure(BINARY, [BINARY.names[:4]])


def test_a_table_can_be_given_by_name() -> None:
    by_name = Workload.tables(LEVELS, ["sex", "sex x age.three", ["age by three", "city"], "prefixes of age", "total"])
    three = Axis("age", "three")
    assert by_name == Workload.tables(
        LEVELS, [("sex",), ("sex", three), (three, "city"), (Axis("age", queries="prefixes"),), ()]
    )
    assert "sex x age.three" in by_name
    assert by_name.weight("sex") == 1.0


def test_a_long_text_is_refused_soon() -> None:
    with pytest.raises(WorkloadError, match="attributes of the schema"):
        Workload.tables(LEVELS, [" x ".join(["sxe"] * 2_000)])


def test_a_workload_and_a_plan_are_shown_in_one_line() -> None:
    workload = Workload.all_kway(Schema.from_sizes({f"a{number}": 2 for number in range(40)}), 2)
    assert repr(workload) == "<workload of 780 tables, 3,120 cells: a0 x a1, a0 x a2, a0 x a3, a0 x a4, ...>"
    made = plan(Workload.tables(LEVELS, ["sex"]), PureDP(1), "marginals")
    assert repr(made).startswith(
        "<plan for 1 table, marginals, epsilon = 1 (pure), adding or removing one row, standard "
    )
