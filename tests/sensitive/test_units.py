"""At most so many rows per person, whoever else is there."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import errors
from privcube.sensitive.units import kept_rows

ROWS = st.lists(st.tuples(st.sampled_from("abcd"), st.tuples(st.integers(0, 2), st.integers(0, 1))), max_size=30)


@settings(deadline=None)
@given(rows=ROWS, limit=st.integers(1, 4), data=st.data())
def test_one_person_changes_at_most_so_many_rows(rows, limit: int, data: st.DataObject) -> None:
    """Also a person with very many rows; and the order of the rows plays no role."""
    kept = Counter(kept_rows(rows, limit, b"key"))
    shuffled = data.draw(st.permutations(rows))
    assert Counter(kept_rows(shuffled, limit, b"key")) == kept
    crowd = [("z", (n % 3, n % 2)) for n in range(1000)]
    more = Counter(kept_rows(rows + crowd, limit, b"key"))
    assert sum((more - kept).values()) <= limit
    assert sum((kept - more).values()) == 0
    without = Counter(kept_rows([row for row in rows if row[0] != "a"], limit, b"key"))
    assert sum((kept - without).values()) <= limit
    assert sum((without - kept).values()) == 0


def test_everyone_within_the_limit_is_counted_whole() -> None:
    rows = [("a", (0, 0)), ("a", (0, 0)), ("b", (1, 1))]
    assert Counter(kept_rows(rows, 2, b"k")) == Counter(codes for _, codes in rows)


def test_the_key_decides_which_rows_stay() -> None:
    rows = [("a", (n, 0)) for n in range(50)]
    chosen = {tuple(sorted(kept_rows(rows, 3, bytes([key])))) for key in range(20)}
    assert len(chosen) > 15


def test_no_rows_at_all_is_refused() -> None:
    with pytest.raises(errors.PlanError):
        list(kept_rows([("a", (0,))], 0, b"k"))


@pytest.mark.parametrize("key", [b"a", b"b", b"c"])
def test_people_with_the_same_rows_choose_independently(key: bytes) -> None:
    """1,000 people with the rows A and B keep about as many of each: 500 with a standard deviation of 16."""
    rows = [(f"person {n}", (code,)) for n in range(1000) for code in (0, 1)]
    kept = Counter(kept_rows(rows, 1, key))
    assert kept.total() == 1000
    assert 420 < kept[0,] < 580
