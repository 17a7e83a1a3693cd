"""Levels are nested partitions of an attribute's cells; the padded chain keeps exactly that nesting."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube.errors import SchemaError, WorkloadError
from privcube.model.attribute import Attribute
from privcube.model.levels import TOGETHER, Level, Partition, chain_of
from privcube.model.schema import Schema
from privcube.model.workload import Workload, table_name

CITY_LEVELS = [
    Level("state", groups={"CA": ["LA", "SF", "SD"], "NY": ["NYC"], "ON": ["Toronto", "Ottawa"]}),
    Level("country", groups={"US": ["CA", "NY"], "Canada": ["ON"]}),
]
CITIES = ["LA", "NYC", "Toronto", "SF", "Ottawa", "SD"]  # not in the order of their states


def groups_of(attribute: Attribute, level: str) -> dict[object, list[object]]:
    """Which labels of the single values each group of a level holds."""
    partition = attribute.partition(level)
    groups: dict[object, list[object]] = {label: [] for label in partition.labels}
    for label, group in zip(attribute.labels, partition.group_of, strict=True):
        groups[partition.labels[group]].append(label)
    return groups


def test_groups_nest_city_state_country() -> None:
    city = Attribute("city", values=CITIES, levels=CITY_LEVELS, missing="category")
    assert groups_of(city, "state") == {
        "CA": ["LA", "SF", "SD"],
        "NY": ["NYC"],
        "ON": ["Toronto", "Ottawa"],
        "(missing)": ["(missing)"],
    }
    assert groups_of(city, "country") == {
        "US": ["LA", "NYC", "SF", "SD"],
        "Canada": ["Toronto", "Ottawa"],
        "(missing)": ["(missing)"],
    }
    assert city.level_names == ("state", "country")


def test_chain_of_city_state_country() -> None:
    """Worked by hand: 3 countries with (missing), at most 2 states in one, at most 3 cities in one."""
    city = Attribute("city", values=CITIES, levels=CITY_LEVELS, missing="category")
    assert city.chain.fan_outs == (3, 2, 3)
    assert city.chain.sizes == (1, 3, 6, 18)
    expected = {"LA": 0, "SF": 1, "SD": 2, "NYC": 3, "Toronto": 6, "Ottawa": 7, "(missing)": 12}
    assert dict(zip(city.labels, city.chain.positions, strict=True)) == expected


def test_width_joins_neighbors() -> None:
    age = Attribute("age", size=7, other="category", levels=[Level("three", width=3)])
    assert groups_of(age, "three") == {"[0, 3)": [0, 1, 2], "[3, 6)": [3, 4, 5], "[6, 7)": [6], "(other)": ["(other)"]}
    grade = Attribute("grade", values=["A", "B", "C"], ordered=True, levels=[Level("pass", width=2)])
    assert groups_of(grade, "pass") == {"A to B": ["A", "B"], "C": ["C"]}


def test_bins_join_by_edges() -> None:
    """Too small, too large and missing values stay by themselves at every level."""
    age = Attribute(
        "age",
        bins=[0, 10, 20, 40, 80],
        underflow="category",
        overflow="category",
        missing="category",
        levels=[Level("broad", bins=[0, 20, 80]), Level("all", bins=["0", "80.0"])],
    )
    assert groups_of(age, "broad") == {
        "[0, 20)": ["[0, 10)", "[10, 20)"],
        "[20, 80)": ["[20, 40)", "[40, 80)"],
        "< 0": ["< 0"],
        ">= 80": [">= 80"],
        "(missing)": ["(missing)"],
    }
    assert set(groups_of(age, "all")) == {"[0, 80)", "< 0", ">= 80", "(missing)"}


def test_integers_reach_to_the_next() -> None:
    years = Attribute("years", values=[1990, 1995, 2000, 2005], levels=[Level("decade", bins=[1990, 2000, 2006])])
    assert groups_of(years, "decade") == {"[1990, 2000)": [1990, 1995], "[2000, 2006)": [2000, 2005]}


def test_levels_that_do_not_nest_merge_what_they_say() -> None:
    city = Attribute(
        "city",
        values=CITIES,
        missing="category",
        levels=[
            *CITY_LEVELS,
            Level("coast", groups={"inland": ["Ottawa", "Toronto"], "sea": ["LA", "SD", "SF", "NYC"]}, of="city"),
            Level("old", groups={"NY and ON": ["NY", "ON"], "CA": ["CA"]}, of="state"),
        ],
    )
    assert groups_of(city, "coast") == {
        "inland": ["Toronto", "Ottawa"],
        "sea": ["LA", "NYC", "SF", "SD"],
        "(missing)": ["(missing)"],
    }
    assert groups_of(city, "old")["NY and ON"] == ["NYC", "Toronto", "Ottawa"]
    assert not city.nests
    assert Attribute("city", values=CITIES, levels=CITY_LEVELS).nests
    state, coast, old = map(city.partition, ("state", "coast", "old"))
    assert old.merges(state)
    assert coast.merges(state)
    assert not coast.merges(old)
    assert not state.merges(old)
    both = city.partition(TOGETHER.join(["old", "coast"]))
    assert both.merges(both)
    assert old.merges(both)
    assert coast.merges(both)
    assert both.cells == 4  # California, New York, Ontario and (missing)
    assert state.over(city.partition()).tolist() == list(state.group_of)


def test_the_common_groups_are_those_that_no_level_splits_by_pairs() -> None:
    """Two cells stay together if they do in both, worked out pair by pair."""
    one, other = Partition(("x", "y", "z"), (0, 1, 1, 0, 2, 2)), Partition(("p", "q"), (1, 1, 1, 1, 0, 1))
    both = one.common_with(other)
    for a in range(6):
        for b in range(6):
            together = one.group_of[a] == one.group_of[b] and other.group_of[a] == other.group_of[b]
            assert (both.group_of[a] == both.group_of[b]) == together
    assert not Partition(("x", "y"), (0, 0, 1)).is_even_over(Partition(("a", "b", "c"), (0, 1, 2)))
    assert Partition(("x", "y"), (0, 1, 1, 0)).is_even_over(Partition(("a", "b", "c", "d"), (0, 1, 2, 3)))


def test_closure_goes_to_the_levels_that_merge_a_table() -> None:
    age = Attribute("age", size=12, levels=[Level("two", width=2), Level("three", width=3, of="age"),
                                            Level("six", width=6, of="age")])  # fmt: skip
    schema = Schema([age])
    names = [table_name(table) for table in Workload.closure(schema, [(("age", "two"),)])]
    assert names == ["total", "age by two", "age by six"]  # six merges both, whatever it is declared to merge
    assert len(Workload.full_cube(schema)) == 5
    with pytest.raises(WorkloadError, match="every attribute once"):
        Workload.tables(schema, [(("age", "two"), ("age", "three"))])


def test_order_that_is_not_of_the_numbers_has_no_intervals() -> None:
    """An interval label such as [3, 2) would be nonsense."""
    shuffled = Attribute("a", values=[3, 1, 2], ordered=True, levels=[Level("pairs", width=2)])
    assert shuffled.partition("pairs").labels == ("3 to 1", "2")
    flags = Attribute("a", values=[True, False], ordered=True, levels=[Level("both", width=2)])
    assert flags.partition("both").labels == ("True to False",)
    with pytest.raises(SchemaError, match="no numeric scale"):
        Attribute("a", values=[3, 1, 2], ordered=True, levels=[Level("pairs", bins=[3, 2])])


def test_without_levels_the_chain_is_flat() -> None:
    chain = Attribute("a", size=5).chain
    assert (chain.fan_outs, tuple(chain.positions), chain.sizes) == ((5,), (0, 1, 2, 3, 4), (1, 5))


# Nesting, on random partitions


@st.composite
def nested_groups(draw: st.DrawFn) -> tuple[int, list[list[list[int]]]]:
    """A number of cells and, from fine to coarse, groups of the groups below, each level with fewer of them."""
    cells = count = draw(st.integers(2, 14))
    levels = []
    while count > 1 and len(levels) < 3 and draw(st.booleans()):
        fewer = draw(st.integers(1, count - 1))
        order = draw(st.permutations(range(count)))
        extra = draw(st.lists(st.integers(0, fewer - 1), min_size=count - fewer, max_size=count - fewer))
        groups: list[list[int]] = [[] for _ in range(fewer)]
        for member, group in zip(order, [*range(fewer), *extra], strict=True):
            groups[group].append(member)
        levels.append(groups)
        count = fewer
    return cells, levels


def partitions_of(cells: int, levels: list[list[list[int]]]) -> list[tuple[int, ...]]:
    """The group of every cell at every level, from fine to coarse, by plain substitution."""
    current = tuple(range(cells))
    result = []
    for groups in levels:
        parent = {member: number for number, members in enumerate(groups) for member in members}
        current = tuple(parent[group] for group in current)
        result.append(current)
    return result


def check_chain(fan_outs: tuple[int, ...], positions: tuple[int, ...], partitions: list[tuple[int, ...]]) -> None:
    cells = len(positions)
    coarse_to_fine = [(0,) * cells, *reversed(partitions), tuple(range(cells))]
    assert len(fan_outs) == len(coarse_to_fine) - 1
    assert len(set(positions)) == cells
    assert all(0 <= position < prod(fan_outs) for position in positions)
    for depth, groups in enumerate(coarse_to_fine):
        tail = prod(fan_outs[depth:])
        for one in range(cells):
            for another in range(one):
                together = groups[one] == groups[another]
                assert (positions[one] // tail == positions[another] // tail) is together
    for depth, (coarse, fine) in enumerate(pairwise(coarse_to_fine)):
        children = {group: len({f for c, f in zip(coarse, fine, strict=True) if c == group}) for group in coarse}
        assert fan_outs[depth] == max(children.values())  # no more padding than the widest group needs


@settings(deadline=None)
@given(nested_groups())
def test_chain_keeps_the_nesting(case: tuple[int, list[list[list[int]]]]) -> None:
    cells, levels = case
    partitions = partitions_of(cells, levels)
    chain = chain_of([Partition(tuple(range(max(p) + 1)), p) for p in partitions], cells)
    check_chain(chain.fan_outs, tuple(chain.positions), partitions)


@settings(deadline=None)
@given(nested_groups(), st.booleans())
def test_declared_groups_become_the_same_partitions(case: tuple[int, list[list[list[int]]]], missing: bool) -> None:
    """The same by way of names, as a spec declares them, with and without an extra category."""
    cells, levels = case
    declared = [
        Level(f"level{depth}", groups={f"{depth}.{n}": [f"{depth - 1}.{m}" for m in ms] for n, ms in enumerate(groups)})
        for depth, groups in enumerate(levels)
    ]
    attribute = Attribute(
        "a",
        values=[f"-1.{cell}" for cell in range(cells)],
        levels=declared,
        missing="category" if missing else "refuse",
    )
    expected = partitions_of(cells, levels)
    if missing:
        expected = [(*groups, max(groups) + 1) for groups in expected]
    assert [partition.group_of for partition in attribute.partitions] == expected
    assert [partition.cells for partition in attribute.partitions] == [max(groups) + 1 for groups in expected]
    check_chain(attribute.chain.fan_outs, tuple(attribute.chain.positions), expected)


# Refused

AB = {"values": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("declared", "levels", "message"),
    [
        (AB, [Level("l", groups={"x": ["a", "b"]})], "group for every member.*none for c"),
        (AB, [Level("l", groups={})], "group for every member"),
        (AB, [Level("l", groups={"x": ["a", "b"], "y": ["b", "c"]})], "b in two"),
        (AB, [Level("l", groups={"x": ["a", "a"], "y": ["b", "c"]})], "a in two"),
        (AB, [Level("l", groups={"x": ["a", "b", "d"], "y": ["c"]})], "members from the level below it, given 'd'"),
        (AB, [Level("l", groups={"x": ["a", "b", "c"], "y": []})], "at least one member.*'y'"),
        (AB, [Level("l", groups={"x": ["a"], "y": ["b"], "z": ["c"]})], "fewer than the 3 groups"),
        (AB, [Level("l", groups={"x": ["a", ["b"]], "y": ["c"]})], "members from the level below it"),
        (AB, [Level("l", width=2)], "need an ordered attribute"),
        (AB, [Level("l", bins=[0, 1])], "need an ordered attribute"),
        ({**AB, "ordered": True}, [Level("l", bins=[0, 1])], "no numeric scale"),
        (
            {**AB, "missing": "category"},
            [Level("l", groups={"x": ["a", "b"], "y": ["c", "(missing)"]})],
            r"given '\(missing\)'",
        ),
        (
            {**AB, "other": "category"},
            [Level("l", groups={"(other)": ["a", "b"], "y": ["c"]})],
            "names that differ from each other and from the extra categories",
        ),
        ({"values": [0, 1, 2]}, [Level("l", groups={"x": [False, True], "y": [2]})], "given False"),
        ({"values": [0, 1, 2]}, [Level("l", groups={"x": ["0", "1"], "y": [2]})], "given '0'"),
        ({"size": 6}, [Level("l", width=2), Level("m", width=3)], r"whole groups.*of = .*\[2, 4\) split"),
        (
            {"size": 6},
            [Level("l", width=2), Level("m", width=3, of="n")],
            "of.*or a level declared before.*'n'.*: a, l",
        ),
        ({"size": 6}, [Level("l", width=2, of="m"), Level("m", width=3)], "or a level declared before, given 'm'"),
        ({"size": 6}, [Level("l", width=2, of="l")], "or a level declared before, given 'l'"),
        ({"size": 6}, [Level("l", width=2), Level("m", bins=[0, 1, 2, 3, 4, 5, 6], of="a")], "fewer than the 6 groups"),
        ({"size": 6}, [Level("l", width=3), Level("m", width=3)], "fewer than the 2 groups"),
        ({"size": 6}, [Level("l", width=3), Level("m", width=2)], "split"),
        ({"size": 1}, [Level("l", width=2)], "fewer than the 1 groups"),
        ({"size": 4}, [Level("l", width=2), Level("l", width=4)], "names that differ"),
        ({"size": 4}, [Level("a", width=2)], "names that differ from each other and from the attribute's"),
        ({"bins": [0, 1, 2, 3]}, [Level("l", bins=[0, 1.5, 3])], "edges of the attribute, given '1.5'"),
        ({"bins": [0, 1, 2, 3]}, [Level("l", bins=[1, 3])], "increasing edges from 0 to 3"),
        ({"bins": [0, 1, 2, 3]}, [Level("l", bins=[0, 2])], "increasing edges from 0 to 3"),
        ({"bins": [0, 1, 2, 3]}, [Level("l", bins=[0, 2, 1, 3])], "increasing edges from 0 to 3"),
        ({"bins": [0, 1, 2, 3]}, [Level("l", bins=[0, 1, 1, 3])], "increasing edges from 0 to 3"),
        ({"bins": [0, 1, 2, 3]}, [Level("l", bins=[0, 1, 2, 3])], "fewer than"),
        (
            {"bins": [0, 1, 2, 3, 4]},
            [Level("l", bins=[0, 2, 4]), Level("m", bins=[0, 1, 4])],
            "split",
        ),
        (
            {"values": ["a", "b to c", "a to b", "c"], "ordered": True},
            [Level("l", width=2)],
            "names that differ",
        ),
    ],
)
def test_refuses_levels(declared: dict[str, object], levels: list[Level], message: str) -> None:
    with pytest.raises(SchemaError, match=f"(?s)attribute 'a', level.*{message}"):
        Attribute("a", **declared, levels=levels)


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"width": 2, "bins": [0, 1]},
        {"groups": {"x": ["a"]}, "width": 2},
        *({"groups": groups} for groups in ([], "x", {"x": "ab"}, {"x": 5}, {"x": None}, {1: ["a"]}, {"": ["a"]})),
        *({"width": 2, "of": of} for of in (3, ["a"])),
        *({"width": width} for width in (0, 1, -2, True, 2.0, "2")),
        *({"bins": bins} for bins in ([], [0], "01", 5, [0, "x"], [0, float("nan")], [0, True])),
    ],
    ids=repr,
)
def test_refuses_level(declared: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match=r"^level 'coarse'"):
        Level("coarse", **declared)


@pytest.mark.parametrize("name", ["", " ", "a\nb", None, 3])
def test_refuses_level_name(name: object) -> None:
    with pytest.raises(SchemaError, match=r"^level name"):
        Level(name, width=2)
