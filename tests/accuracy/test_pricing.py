"""Both prices of records against their definitions, written out, where levels are uneven and values single."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import lcm, prod

import numpy as np
import pytest

from privcube import ZCDP, Attribute, Level, PureDP, Schema, Workload, errors, linear
from privcube.accuracy import privacy
from privcube.accuracy.blocks import price as blocks
from privcube.accuracy.pricing import bundles, columns, pairs
from privcube.accuracy.pricing.columns import Shape, inner_products, shape_of
from privcube.model.frame import Frame
from privcube.model.groups import Block, BlockGroup, Group, GroupPart, MatrixGroup, QueryGroup, group_rows, row_weights
from privcube.model.noise import pairs as planned
from privcube.model.noise.bundles import GramLayout
from privcube.model.sensitivity import squared_l2

# Products over axes


def helmert(parents: int, children: int) -> Shape:
    return Shape(parents, children, "helmert", tuple(j * (j + 1) for j in range(1, children)))


SHAPES = [
    *(Shape(parents, children, "cells", ()) for parents in (1, 2) for children in (1, 3)),
    *(Shape(parents, 2, "contrast", ()) for parents in (1, 3)),
    *(helmert(parents, children) for parents in (1, 2) for children in (1, 2, 3, 5)),
]


def column(shape: Shape, parent: int, child: int) -> list[Fraction]:
    """All entries of a cell's column, each over the root of its noise weight: only squares of that root are used."""
    own = {
        "cells": [int(child == at) for at in range(shape.children)],
        "contrast": [1 - 2 * child],
        "helmert": [(child < j) - j * (child == j) for j in range(1, shape.children)],
    }[shape.kind]
    return [Fraction(entry * (parent == at)) for at in range(shape.parents) for entry in own]


def meetings(shape: Shape) -> set[tuple[Fraction, Fraction, Fraction, Fraction]]:
    """Of any two cells of an axis: the squared lengths, the inner product and the L1 norms of both."""
    weights = (shape.weights or (1,) * (shape.children if shape.kind == "cells" else 1)) * shape.parents
    columns = [column(shape, *cell) for cell in product(range(shape.parents), range(shape.children))]

    def inner(one: list[Fraction], other: list[Fraction]) -> Fraction:
        return sum((a * b / w for a, b, w in zip(one, other, weights, strict=False)), Fraction(0))

    return {
        (inner(one, one), inner(other, other), inner(one, other), sum(map(abs, one), Fraction(0)))
        for one, other in product(columns, repeat=2)
    }


def test_a_part_has_the_nodes_of_all_levels_above() -> None:
    levels = [Level("sixth", width=2), Level("half", width=6)]
    frame = Frame(Schema([Attribute("a", size=12, levels=levels)]), "natural", leveled=frozenset("a"))
    for kind in ("cells", "helmert"):
        shapes = [shape_of(frame, GroupPart(0, level, kind)) for level in (1, 2, 3)]  # type: ignore[arg-type]
        assert [(shape.parents, shape.children) for shape in shapes] == [(1, 2), (2, 3), (6, 2)]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_product_moves_as_far_as_the_dearest_two_of_its_records(axes: int) -> None:
    met = {shape: meetings(shape) for shape in SHAPES}
    for shapes in list(combinations_with_replacement(SHAPES, axes))[:: 1 if axes < 3 else 29]:
        cases = list(product(*(met[shape] for shape in shapes)))
        ones, others, inner, l1 = ([prod(each[at] for each in case) for case in cases] for at in range(4))
        assert privacy._product_move(tuple(sorted(shapes)), False) == (max(l1), max(ones))
        moved = [one + other - 2 * both for one, other, both in zip(ones, others, inner, strict=True)]
        assert privacy._product_move(tuple(sorted(shapes)), True) == (2 * max(l1) if any(moved) else 0, max(moved))


# Exchanges of records


ATTRIBUTES = {
    "levels of 3 and 2": Attribute("a", size=6, levels=[Level("third", width=2)]),
    "levels of 2 and 3": Attribute("a", size=6, levels=[Level("half", width=3)]),
    "a level of all": Attribute("a", values=list("pqr"), levels=[Level("all", groups={"all": list("pqr")})]),
    "a single value": Attribute("a", size=1),
}


def of_axis(frame: Frame, axis: int, kind: str) -> list[QueryGroup]:
    parts = [GroupPart(axis, level + 1, kind) for level in range(len(frame.fan_outs[axis]))]  # type: ignore[arg-type]
    return [(), *((part,) for part in parts)]


def priced(frame: Frame, groups: list[QueryGroup], prices: list[Fraction]) -> Fraction:
    """What the dearest exchange costs, from all pairs of columns."""
    matrix = linear.strategy_matrix(frame, groups).toarray().astype(np.int64)
    by = [p / weight for group, p in zip(groups, prices, strict=True) for weight in row_weights(frame, group)]
    below = lcm(*(each.denominator for each in by))
    moves = (matrix[:, :, None] - matrix[:, None, :]).reshape(len(matrix), -1) ** 2
    return Fraction(int((np.array([int(each * below) for each in by]) @ moves).max()), below)


@pytest.mark.parametrize("levels", ["all levels", "first levels"])
@pytest.mark.parametrize("kind", ["cells", "helmert"])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_exchanges_below_uneven_levels_cost_what_all_pairs_of_columns_say(
    name: str, kind: str, levels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first price, the second, and both where axes are only told apart by their kinds."""
    frame = Frame(Schema([ATTRIBUTES[name], Attribute("b", size=4)]), "natural", leveled=frozenset("a"))
    both = product(of_axis(frame, 0, kind), of_axis(frame, 1, kind))
    groups = [one + other for one, other in both if group_rows(frame, one + other)]
    if levels == "first levels":
        groups = [group for group in groups if all(part.level == 1 for part in group)]
    guarantee = ZCDP(1, neighbors="replace_one")
    shares = [(7 * at) % 11 + 3 for at in range(len(groups))]
    worst = [squared_l2(guarantee, frame, group) for group in groups]
    prices = [Fraction(share) / far for share, far in zip(shares, worst, strict=True)]
    exact = priced(frame, groups, prices)
    members = [(at,) for at in range(len(groups))]
    first = planned.every_case(guarantee, frame, groups, members)
    assert first is not None
    assert exact <= first.dearest(shares) < exact + len(groups)
    by_kind = planned.alike(guarantee, frame, groups, members)
    assert by_kind is not None or levels == "all levels" or not name.startswith("levels")
    if by_kind is not None:  # one axis of every kind
        assert exact <= by_kind.dearest(shares) < exact + len(groups)
    noised = []
    for group, price, share in zip(groups, prices, shares, strict=True):
        met = [pairs.Meets(part.axis, part.level, *inner_products(shape_of(frame, part))) for part in group]
        noised.append(pairs.Noised([met], price, Fraction(share)))
    assert pairs.dearest_exchange(frame.fan_outs, noised, True) == exact
    monkeypatch.setattr(pairs, "_all_choices", lambda *given: None)
    assert pairs.dearest_exchange(frame.fan_outs, noised, True) >= exact


def test_an_axis_of_one_value_is_no_class_of_axes() -> None:
    """Records cannot differ on it, which counting axes by kinds would not know."""
    frame = Frame(Schema.from_sizes({"a": 1, "b": 3}), "natural")
    for kind in ("cells", "helmert"):
        groups: list[Group] = [(GroupPart(axis, 1, kind),) for axis in (0, 1)]  # type: ignore[arg-type]
        assert planned.alike(ZCDP(1, neighbors="replace_one"), frame, groups, [(0,), (1,)]) is None
        assert planned.alike(ZCDP(1, neighbors="replace_one"), frame, groups[1:], [(0,)]) is not None


def test_a_group_without_rows_costs_nothing() -> None:
    frame = Frame(Schema.from_sizes({"a": 1, "b": 3}), "natural")
    groups: list[Group] = [(GroupPart(axis, 1, "helmert"),) for axis in (0, 1)]
    guarantee = ZCDP(1, neighbors="replace_one", max_rows_per_person=2)
    found = planned.every_case(guarantee, frame, groups, [(0,), (1,)])
    assert found is not None
    assert found.alone == (0, Fraction(1, 3))  # 2/3 of a move, of 2 in the worst case
    assert found.dearest([1000, 5]) == 5


def test_single_groups_are_priced_case_by_case_however_many_cases_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only bundles have a limit, beyond which they cost what they cost at worst."""
    part = pairs.Meets(0, 1, Fraction(1), Fraction(0), Fraction(0))
    group, bundle = (pairs.Noised([(part,)] * count, Fraction(1), Fraction(9)) for count in (1, 2))
    monkeypatch.setattr(pairs, "_alike", lambda *given: None)
    for most, expected in ((2, 2), (1, 9)):
        monkeypatch.setattr(pairs, "_MOST_IN_A_TABLE", most)
        assert pairs.dearest_exchange([(3,)], [group], False) == 2
        assert pairs.dearest_exchange([(3,)], [bundle], False) == expected


def test_children_that_do_not_meet_in_a_row_have_the_product_0() -> None:
    """Also if there is no pair of them: axes of one value are taken to differ where they are counted by kinds."""
    assert inner_products(Shape(2, 1, "cells", ())) == (1, 0, 0)
    assert inner_products(Shape(2, 3, "cells", ())) == (1, 0, 0)


@pytest.mark.parametrize("row", [1, 2, 50, 98, 99])
def test_of_many_children_those_are_looked_at_that_meet_the_ends_of_their_rows(row: int) -> None:
    """Less noise on a row than its weight asks for is seen where its entry is the largest one."""
    honest = helmert(2, 100)
    forged = honest._replace(weights=tuple(1 if at == row else weight for at, weight in enumerate(honest.weights, 1)))
    assert max(met.one for met in columns.meetings(honest)) == Fraction(99, 100)
    assert max(met.one for met in columns.meetings(forged)) >= row**2


def test_of_three_bundles_a_pair_of_records_moves_two() -> None:
    """By both prices: where an odd number of axes differs, it is odd in one of two parts, and even in the other."""
    frame = Frame(Schema.from_sizes(dict.fromkeys("abcdef", 2)), "natural")
    whole = tuple(GroupPart(axis, 1, "contrast") for axis in range(6))
    groups: list[Group] = [group for group in (whole, whole[:5], whole[5:]) for _ in range(2)]
    members = [(0, 1), (2, 3), (4, 5)]
    planned_price = planned.every_case(PureDP(1, neighbors="replace_one"), frame, groups, members)
    assert planned_price is not None
    assert planned_price.dearest([5, 6, 7]) == 13
    met = [
        [pairs.Meets(part.axis, 1, *inner_products(shape_of(frame, part))) for part in groups[own]]
        for bundle in members
        for own in bundle
    ]
    noised = [pairs.Noised(met[2 * at : 2 * at + 2], Fraction(5 + at), Fraction(2 * (5 + at))) for at in range(3)]
    assert pairs.dearest_exchange(frame.fan_outs, noised, False) == 2 * 13


def test_a_bundle_over_levels_moves_at_each_of_them() -> None:
    frame = Frame(Schema([ATTRIBUTES["levels of 3 and 2"]]), "natural", leveled=frozenset("a"))
    groups: list[Group] = [(GroupPart(0, 1),), (GroupPart(0, 2),)]
    found = planned.every_case(PureDP(1, neighbors="replace_one"), frame, groups, [(0, 1)])
    assert found is not None
    assert found.terms[0].place.tolist() == [0, 1, 1]
    assert found.terms[0].orbit == 1
    assert found.dearest([7]) == 7


def test_groups_after_one_without_structure_are_priced_as_well() -> None:
    frame = Frame(Schema.from_sizes({"a": 3}), "natural")
    groups: list[Group] = [MatrixGroup(("a",), ((1, 2, 0),)), (GroupPart(0, 1),)]
    found = planned.every_case(PureDP(1, neighbors="replace_one"), frame, groups, [(0,), (1,)])
    assert found is not None
    assert found.dearest([5, 7]) == 12


@pytest.mark.parametrize("price", [Fraction(1), Fraction(1, 10**20)])
def test_prices_of_many_cases_are_rounded_by_their_own_size(price: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "_alike", lambda *given: None)
    meets = [pairs.Meets(axis, 1, Fraction(1), Fraction(0), Fraction(0)) for axis in range(13)]
    noised = [pairs.Noised([[part]], price, 3 * price) for part in meets]
    found = pairs.dearest_exchange([(2,)] * 13, noised, True)  # 2^13 cases: not in fractions
    assert 26 * price <= found <= 26 * price * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize("count", [10, 5000])
def test_tables_are_added_up_case_by_case(count: int) -> None:
    """In fractions if they are few, rounded up if they are many, and 0 if nothing costs anything."""
    place, costs = np.arange(count) % 2, np.array([Fraction(0), Fraction(1, 2)], dtype=object)
    even, odd, none = (pairs._Table((0,), costs[each]) for each in (place, 1 - place, 0 * place))
    assert pairs._largest([count], [none]) == 0
    assert pairs._largest([count], [even, odd]) == Fraction(1, 2)  # of parts that come to 1
    assert pairs._largest([count], [even, even]) == 1


# Matrices


WIDE = np.ones((2, 40), dtype=int)
WIDE[1, 20:22] = [3, -3]
WIDE[0, :18] = 5


def test_a_matrix_may_have_a_single_row() -> None:
    frame = Frame(Schema.from_sizes({"a": 3, "b": 2}), "natural")
    privacy._check_group(frame, MatrixGroup(("a",), ((1, 2, 0),)))
    with pytest.raises(errors.PlanError, match="over the cells of its attributes"):
        privacy._check_group(frame, MatrixGroup(("b",), ((1, 2, 0),)))


def unknown(*given: object) -> int:
    raise AssertionError("the planner was asked")


def test_the_planner_is_believed_only_where_not_all_pairs_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dearest two columns are neither long nor short, so that some pairs that are compared do not find them."""
    group, apart = MatrixGroup(("a",), tuple(map(tuple, WIDE.tolist()))), 36
    frame = Frame(Schema.from_sizes({"a": 40, "b": 2}), "natural")
    both = BlockGroup((Block((), group),))
    with monkeypatch.context() as patch:
        for name in ("largest_l1", "largest_l2"):
            patch.setattr(MatrixGroup, name, unknown)
        assert privacy._matrix_move(group, True).squares == apart
        assert blocks.block_move(frame, both, True, Fraction(10**6)) == apart
    for module in (privacy, blocks):
        monkeypatch.setattr(module, "_MOST_ENTRIES", 40)
    assert blocks.block_move(frame, both, True, Fraction(0)) < apart
    for one in (group, both):
        assert privacy._largest_move(frame, one, True, {}).squares == apart
        assert privacy._largest_move(frame, one, False, {}).squares == 26


def test_longer_columns_leave_fewer_of_them_to_be_compared() -> None:
    short, long = ([[at] * rows for at in range(30)] for rows in (1, 9))
    assert blocks.compared_columns(long, 9 * 100) == blocks.compared_columns(short, 100)
    assert blocks.compared_columns([[3]], 100) == [0]
    assert len(blocks.compared_columns(long, 100)) < len(blocks.compared_columns(short, 100)) < 30


# Bundles on sections, and Gram bundles


def test_groups_on_a_section_lie_within_the_slices_of_its_total() -> None:
    """A contrast of a level compares what lies within a node of the level above it."""
    frame = Frame(Schema([ATTRIBUTES["levels of 3 and 2"], Attribute("b", size=3)]), "natural", leveled=frozenset("a"))
    total, b = (GroupPart(0, 1),), GroupPart(1, 1)
    for inside in ((*total, b), (GroupPart(0, 2),), (GroupPart(0, 2, "contrast"),), (GroupPart(0, 2), b)):
        bundles.check_section(frame, [total, inside])
        bundles.check_section(frame, [(), inside])
    for outside in ((b,), (GroupPart(0, 1, "contrast"),), ()):
        with pytest.raises(errors.PlanError, match="within the slices of the total"):
            bundles.check_section(frame, [total, (*total, b), outside])
    with pytest.raises(errors.PlanError, match="a total of cells"):
        bundles.check_section(frame, [(GroupPart(0, 2, "contrast"),), (*total, b)])


def test_rows_of_a_gram_bundle_are_products_of_two_coordinates() -> None:
    frame = Frame(Schema([ATTRIBUTES["levels of 3 and 2"], Attribute("b", size=3)]), "natural", leveled=frozenset("a"))
    coarse, fine, b = (GroupPart(axis, level, "helmert") for axis, level in ((0, 1), (0, 2), (1, 1)))
    squares = GroupPart(1, 1, "squares")
    for right in ([], [b], [fine, b], [squares]):
        bundles._check_gram_part(frame, right)
    for wrong in ([coarse, fine], [b, squares], [squares, squares], [coarse, b, fine], [GroupPart(0, 2, "contrast")]):
        with pytest.raises(errors.PlanError, match="one or two blocks of Helmert rows"):
            bundles._check_gram_part(frame, wrong)


def test_squares_of_a_gram_bundle_are_those_of_a_first_level() -> None:
    frame = Frame(Schema([ATTRIBUTES["levels of 2 and 3"], Attribute("b", size=3)]), "natural", leveled=frozenset("a"))
    for whole, level in (((), 1), ((GroupPart(0, 1),), 2)):
        groups = [whole, (GroupPart(0, level, "helmert"),), (GroupPart(0, level, "squares"),)]
        if level == 1:
            assert GramLayout.of(frame, groups).dimension == 2
        else:
            with pytest.raises(errors.PlanError, match="squares of the first level only"):
                GramLayout.of(frame, groups)


def test_a_gram_bundle_may_have_as_many_coordinates_as_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload.all_kway(Schema.from_sizes({"a": 3, "b": 4}), 1)
    a, b = (GroupPart(axis, 1, "helmert") for axis in (0, 1))
    groups: list[Group] = [(), (a,), (b,), (a, b)]
    monkeypatch.setattr("privcube.model.noise.bundles.MOST_COORDINATES", 6)
    assert GramLayout.of(Frame.natural(workload), groups).dimension == 6
    monkeypatch.setattr("privcube.model.noise.bundles.MOST_COORDINATES", 5)
    with pytest.raises(errors.PlanError, match="at most 5 coordinates"):
        GramLayout.of(Frame.natural(workload), groups)
    with pytest.raises(errors.PlanError, match="two or more different groups"):
        GramLayout.of(Frame.natural(workload), [(a,)])
