"""An attribute's cells are exactly what was declared, extra categories included, whatever the data will hold."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from privcube.errors import SchemaError, quoted
from privcube.model.attribute import Attribute
from privcube.model.columns.dates import Dates
from privcube.model.levels import Level


@pytest.mark.parametrize(("missing", "other"), list(product(["refuse", "category"], repeat=2)))
def test_labels_of_values_and_size(missing: str, other: str) -> None:
    extra = ("(other)",) * (other == "category") + ("(missing)",) * (missing == "category")
    by_values = Attribute("sex", values=["Female", "Male"], missing=missing, other=other)
    by_size = Attribute("race", size=3, missing=missing, other=other)
    assert tuple(by_values.labels) == ("Female", "Male", *extra)
    assert tuple(by_size.labels) == (0, 1, 2, *extra)
    assert (by_values.cells, by_size.cells) == (2 + len(extra), 3 + len(extra))
    assert (by_values.ordered_cells, by_size.ordered_cells) == (2, 3)


@pytest.mark.parametrize("policies", list(product(["refuse", "category", "clamp"], repeat=2)), ids=" ".join)
@pytest.mark.parametrize("extra", list(product(["refuse", "category"], repeat=2)), ids=" ".join)
def test_labels_of_bins(policies: tuple[str, str], extra: tuple[str, str]) -> None:
    """Clamped values go into the first or last bin, so only "category" adds a cell."""
    (underflow, overflow), (other, missing) = policies, extra
    age = Attribute("age", bins=[0, "17.5", 65], underflow=underflow, overflow=overflow, other=other, missing=missing)
    expected = []
    if underflow == "category":
        expected.append("< 0")
    expected += ["[0, 17.5)", "[17.5, 65)"]
    if overflow == "category":
        expected.append(">= 65")
    on_scale = len(expected)
    expected += ["(other)"] * (other == "category") + ["(missing)"] * (missing == "category")
    assert list(age.labels) == expected
    assert (age.cells, age.ordered_cells) == (len(expected), on_scale)


def test_edges_are_exact() -> None:
    income = Attribute("income", bins=[-0.1, Decimal("0.2"), "1/3", 10**30])
    assert income.bins == (Fraction(-1, 10), Fraction(1, 5), Fraction(1, 3), Fraction(10**30))
    assert income.labels == ("[-0.1, 0.2)", "[0.2, 1/3)", f"[1/3, {10**30})")


@pytest.mark.parametrize(
    ("declared", "ordered"),
    [
        ({"size": 4}, True),
        ({"bins": [0, 1, 2]}, True),
        ({"values": [1, 5, 9]}, True),
        ({"values": [5, 1, 9]}, False),
        ({"values": ["a", "b"]}, False),
        ({"values": [False, True]}, False),
        ({"values": ["low", "high"], "ordered": True}, True),
        ({"size": 4, "ordered": False}, False),
    ],
)
def test_order_is_that_of_numbers_unless_said(declared: dict[str, object], ordered: bool) -> None:
    assert Attribute("a", **declared).ordered is ordered


def test_largest_size_is_quick(effort: Any) -> None:
    """Codes are a range: nothing is written out for each of them."""
    with effort.counted():
        assert Attribute("code", size=10**8).cells == 10**8
    assert effort.calls < 1000
    assert effort.most_bytes < 2**16


def test_values_of_each_kind() -> None:
    assert Attribute("a", values=["é", 'qu"ote', "\\"]).cells == 3
    assert Attribute("a", values=range(-3, 3)).values == (-3, -2, -1, 0, 1, 2)
    assert Attribute("a", values=[-(2**63), 2**63 - 1]).cells == 2
    assert Attribute("a", values=["(missing)", "x"]).labels == ("(missing)", "x")


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"values": ["a"], "size": 2},
        {"size": 2, "bins": [0, 1]},
        *({"values": values} for values in ("ab", 5, {"a"}, {"a": 1}, [], ["a", "a"], [1, 2, 1], [True, True])),
        *({"values": values} for values in (["a", 1], [2, True], [1.5], [None], [["a"]], [b"a"], [float("nan")])),
        *(
            {"values": [value]}
            for value in ("a\ufffe", "\uffff", "\ufdd0", "\ufdef", "\U0001fffe", "\U0010ffff", "\x85")
        ),
        *({"values": values} for values in ([""], ["  "], ["a\nb"], ["\x00"], ["\ud800"], ["x" * 1001], [2**63])),
        {"values": [16**9000, 16**9000]},
        *({"size": size} for size in (0, -1, True, 2.0, "2", 10**8 + 1, 10**10_000, Fraction(2))),
        *({"bins": bins} for bins in ([], [0], [0, 0], [1, 0], [0, 2, 1], "01", 5, {0}, [0, None], [0, True])),
        *({"bins": bins} for bins in ([0, float("nan")], [float("nan"), 0], [0, float("inf")], ["a", "b"], [0, [1]])),
        {"values": ["(missing)", "x"], "missing": "category"},
        {"values": ["(other)", "x"], "other": "category"},
        *({"size": 2, key: policy} for key in ("missing", "other") for policy in ("clamp", "", None, True, ["refuse"])),
        *({"bins": [0, 1], key: policy} for key in ("underflow", "overflow") for policy in ("ignore", None, True)),
        *({"size": 2, "case": case} for case in ("fold", "lower", None)),
        *({"values": ["a"], "raw": raw} for raw in ("b", {"b": ["x"]}, {"a": "x"}, {"a": [1]}, {"a": [""]}, [("a",)])),
        {"values": ["a", "b"], "raw": {"a": ["x"], "b": ["x"]}},
        {"values": ["a", "b"], "raw": {"a": ["b"]}},
        {"values": ["a", "A"], "case": "fold"},
        {"values": ["a", " a"], "trim": True},
        {"values": ["a"], "raw": {"a": ["x"], "(missing)": ["x"]}},
        *({"size": 2, "raw": raw} for raw in ({"1": ["x"]}, {"0": ["no"]})),
        *({"dates": dates} for dates in ({"by": "month"}, "month", 5)),
        {"dates": Dates(by="weekday"), "underflow": "clamp"},
        *({"size": 2, "column": column} for column in ("", " ", "a\nb", 5)),
        {"size": 2, "trim": "yes"},
        {"size": 2, "underflow": "clamp"},
        {"values": ["a"], "overflow": "category"},
        {"size": 2, "ordered": 1},
        {"size": 2, "draft": "yes"},
        {"size": 2, "levels": ["coarse"]},
        {"size": 2, "levels": [None]},
    ],
    ids=quoted,
)
def test_refuses(declared: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match=r"^attribute 'a'") as refusal:
        Attribute("a", **declared)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("name", ["", " ", "a\tb", "\x7f", "\ud800", "x" * 1001, None, 5, True])
def test_refuses_name(name: object) -> None:
    with pytest.raises(SchemaError, match="name"):
        Attribute(name, size=2)


def test_partition_by_name() -> None:
    age = Attribute("age", size=4, missing="category", levels=[Level("pairs", width=2)])
    assert age.partition().labels == (0, 1, 2, 3, "(missing)")
    assert age.partition().group_of == (0, 1, 2, 3, 4)
    assert age.partition("pairs") == age.partitions[0]
    with pytest.raises(SchemaError, match="did you mean 'pairs'"):
        age.partition("pears")


def test_equality_is_by_declaration() -> None:
    assert Attribute("a", bins=[0, 0.5]) == Attribute("a", bins=["0", "1/2"])
    assert Attribute("a", size=2) != Attribute("a", values=[0, 1])
    assert Attribute("a", size=2) != Attribute("a", size=2, missing="category")
    assert hash(Attribute("a", size=2)) == hash(Attribute("a", size=2))
