"""Arrow columns from and to numpy are what pyarrow makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcube.arrow import array_of, column_of

NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


@given(
    st.one_of(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
        st.lists(st.integers(-(2**63), 2**63 - 1)),
        st.lists(st.floats()),
        st.lists(st.booleans()),
        st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"])))),
        st.lists(st.one_of(st.none(), st.integers(0, 9))),
    )
)
def test_lists_as_pyarrow_has_them(values: list[Any]) -> None:
    try:
        expected = pa.array(values)
    except UnicodeEncodeError:
        return
    made = column_of(values)
    made.validate(full=True)
    assert made.type == expected.type
    assert str(made.to_pylist()) == str(expected.to_pylist())


def test_numbers_beyond_64_bits_are_refused() -> None:
    for make in (pa.array, column_of):
        with pytest.raises(OverflowError):
            make([2**63])


@pytest.mark.parametrize("kind", NUMBERS)
def test_arrays_there_and_back(kind: str) -> None:
    for array in (np.arange(6, dtype=kind), np.arange(12, dtype=kind)[::2], np.arange(0, dtype=kind)):
        made = column_of(array)
        assert made == pa.array(array)
        assert array_of(made).dtype == array.dtype
        assert array_of(made).tolist() == array.tolist()


def test_arrays_of_other_kinds() -> None:
    for array in (np.array([True, False]), np.array(["a", "b"])):
        assert column_of(array).to_pylist() == array.tolist()
    with pytest.raises(pa.ArrowNotImplementedError):
        column_of(np.arange(3, dtype=">i8"))


@pytest.mark.parametrize("kind", NUMBERS)
def test_slices_and_chunks(kind: str) -> None:
    whole = pa.array(np.arange(10, dtype=kind))
    assert array_of(whole.slice(3, 4)).tolist() == [3, 4, 5, 6]
    chunked = pa.chunked_array([whole.slice(8), whole.slice(0, 0), whole.slice(1, 2)])
    assert array_of(chunked).tolist() == [8, 9, 1, 2]
    assert array_of(pa.chunked_array([], type=whole.type)).tolist() == []


def test_what_is_missing_and_what_is_no_number() -> None:
    assert str(array_of(pa.array([1.5, None])).tolist()) == "[1.5, nan]"
    assert array_of(pa.chunked_array([["a"], ["b"]])).tolist() == ["a", "b"]
    assert array_of(pa.array([True, False])).tolist() == [True, False]
