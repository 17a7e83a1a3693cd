"""Matrix groups: exact sensitivities against brute force, and what cannot be one."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, PureDP, errors
from privcube.model.frame import Frame
from privcube.model.groups import MatrixGroup, is_structured, product_groups
from privcube.model.matrices.groups import LARGEST_ENTRY
from privcube.model.schema import Schema
from privcube.model.sensitivity import largest_l1, squared_l2

ENTRIES = st.integers(-9, 9) | st.sampled_from([LARGEST_ENTRY, -LARGEST_ENTRY])


@st.composite
def matrices(draw: st.DrawFn) -> MatrixGroup:
    cells = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(ENTRIES, min_size=cells, max_size=cells), min_size=1, max_size=5))
    rows[0][0] = rows[0][0] or 1
    return MatrixGroup(("x",), tuple(map(tuple, rows)))


def moves(group: MatrixGroup, neighbors: str, rows_of_a_person: int) -> list[list[int]]:
    """Every change of the answers that a person with up to so many rows can make, in whole numbers of any size."""
    columns = list(zip(*group.rows, strict=True))
    people = [
        [sum(own) for own in zip(*chosen, strict=True)]
        for count in range(1, rows_of_a_person + 1)
        for chosen in product(columns, repeat=count)
    ]
    if neighbors == "add_remove":
        return people
    return [[a - b for a, b in zip(one, other, strict=True)] for one, other in product(people, repeat=2)]


@settings(deadline=None, max_examples=60)
@given(matrices(), st.sampled_from(["add_remove", "replace_one"]), st.integers(1, 2))
def test_no_person_moves_a_matrix_further_than_it_is_charged(group: MatrixGroup, neighbors: str, rows: int) -> None:
    """Nor can the charge be lower: for one row it is met, unless replacing moves less than adding, which is charged."""
    frame = Frame(Schema.from_sizes({"x": len(group.rows[0])}), "natural")
    pure = PureDP(1, neighbors=neighbors, max_rows_per_person=rows)
    changes = moves(group, neighbors, rows)
    l1 = max(sum(map(abs, change)) for change in changes)
    l2 = max(sum(entry**2 for entry in change) for change in changes)
    charged = largest_l1(pure, group), squared_l2(ZCDP(1, neighbors=neighbors, max_rows_per_person=rows), frame, group)
    single = moves(group, "add_remove", 1)
    added = rows * max(sum(map(abs, change)) for change in single)
    added_l2 = rows**2 * max(sum(entry**2 for entry in change) for change in single)
    assert charged == (max(l1, added), max(l2, added_l2))


def test_pairs_are_told_apart_from_twice_the_largest_column() -> None:
    group = MatrixGroup(("x",), ((5, 5), (1, 0), (0, 1)))
    assert [largest_l1(PureDP(1, neighbors=each), group) for each in ("add_remove", "replace_one")] == [6, 6]
    apart = [
        sum(abs(a - b) for a, b in zip(*pair, strict=True)) for pair in combinations(zip(*group.rows, strict=True), 2)
    ]
    assert apart == [2]


@pytest.mark.parametrize(
    "rows",
    [
        (),
        ((),),
        ((1, 2), (1,)),
        ((0, 0),),
        ((1.0,),),
        ((True,),),
        ((LARGEST_ENTRY + 1,),),
        ((1,) * 1025,),
        ((1,),) * 4097,
    ],
)
def test_what_cannot_be_a_matrix(rows: tuple) -> None:
    with pytest.raises(errors.PlanError, match="matrix"):
        MatrixGroup(("x",), rows)


def test_sums_of_the_largest_entries_stay_exact() -> None:
    big = LARGEST_ENTRY
    group = MatrixGroup(("x",), ((big, -big),) * 4096)
    assert group.largest_l1("replace_one") == 2 * big * 4096
    assert group.largest_l2("replace_one") == (2 * big) ** 2 * 4096
    np.testing.assert_array_equal(group.matrix[0], [big, -big])


def test_floats_and_whole_numbers_agree_on_pairs() -> None:
    """Sums of squares just below 2^53, where floats are still exact, against whole numbers of any size."""
    rows = np.random.default_rng(8).integers(-(2**24), 2**24, (70, 30), endpoint=True)
    group = MatrixGroup(("x",), tuple(map(tuple, rows.tolist())))
    assert 2**52 < group.largest_l2("add_remove") < 2**53
    exact = rows.astype(object)
    pairs = combinations(range(30), 2)
    assert group.largest_l2("replace_one") == max(int(((exact[:, i] - exact[:, j]) ** 2).sum()) for i, j in pairs)


def test_a_matrix_is_no_product() -> None:
    group = MatrixGroup(("x",), ((1, 2),))
    assert not is_structured([group])
    with pytest.raises(errors.PlanError, match="products over axes"):
        product_groups([group])


def test_a_matrix_cannot_be_changed_after_it_was_priced() -> None:
    group = MatrixGroup(("a",), ((1, 0), (0, 2)))
    with pytest.raises(ValueError, match="read-only"):
        group.matrix[0, 0] = 9
    with pytest.raises(ValueError, match="WRITEABLE"):
        group.matrix.setflags(write=True)
    assert group.matrix.tolist() == [[1, 0], [0, 2]]
