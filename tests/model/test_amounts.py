"""Amounts are read exactly, written so that they read back, and shown to people rounded up."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privcube.errors import DeclarationError, GuaranteeError
from privcube.model.amounts import decimal_text, exact, shown

LARGEST = 2**440 - 1  # the widest numerator or denominator that is read

fractions = st.one_of(
    st.fractions(),
    st.builds(Fraction, st.integers(-(10**70), 10**70), st.integers(1, 10**70)),
    # Decimals that end late, which must fall back to a ratio without losing a digit.
    st.builds(
        lambda number, twos, fives: Fraction(number, 2**twos * 5**fives),
        st.integers(-(10**20), 10**20),
        st.integers(0, 70),
        st.integers(0, 70),
    ),
    st.builds(Fraction, st.integers(-LARGEST, LARGEST), st.integers(1, LARGEST)),
)


def read(amount: object) -> Fraction:
    return exact(amount, "amount", DeclarationError)


@pytest.mark.parametrize(
    ("amount", "value"),
    [
        ("0.1", Fraction(1, 10)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Fraction(1, 10), Fraction(1, 10)),
        ("1e-6", Fraction(1, 10**6)),
        (1e-6, Fraction(1, 10**6)),
        ("1/3", Fraction(1, 3)),
        (" -2 / 6 ", Fraction(-1, 3)),
        (" 1.50 ", Fraction(3, 2)),
        ("1E2", Fraction(100)),
        (7, Fraction(7)),
        (-0.0, Fraction(0)),
        ("0e999999999", Fraction(0)),
        ("1e60", Fraction(10**60)),
        ("1e-60", Fraction(1, 10**60)),
    ],
)
def test_is_read_exactly(amount: object, value: Fraction) -> None:
    assert read(amount) == value


def test_budgets_add_up() -> None:
    """The reason for exact amounts: in floats, 0.1 + 0.2 exceeds a total of 0.3."""
    assert read(0.1) + read(0.2) == read(0.3)


@pytest.mark.parametrize(
    "amount",
    [
        *(True, False, None, [], {}, [1], b"1", 1j, object()),
        *(float("nan"), float("inf"), -float("inf"), Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")),
        *("nan", "inf", "-Infinity", "", "   ", "abc", "1,5", "0x10", "1e", "--1", "1 2"),
        *("1/0", "0/0", "1/", "/2", "1/2/3", "1.5/2", "+-1/3", "1/--3", "1/3e2"),
        *("1e999", "1e-999", "1e61", "1e-61", 1e61, 5e-324, "1e999999999", "1e-999999999", "1e" + "9" * 40),
        *(Decimal("1e999999999"), "0." + "1" * 61, "1" * 61),
        *(LARGEST + 1, -(LARGEST + 1), 10**10_000, Fraction(1, LARGEST + 1), f"1/{LARGEST + 1}", f"{LARGEST + 1}/1"),
        *("1" * 10**5, "0." + "0" * 10**5 + "1", "1/" + "3" * 10**5, "abc" * 10**5),
    ],
    ids=lambda amount: str(type(amount).__name__),
)
def test_refuses_at_once(amount: object, effort: Any) -> None:
    """What is no finite number of sensible length is refused before any power of ten fills the memory."""
    with effort.counted(), pytest.raises(GuaranteeError, match=r"^epsilon: expected a finite number") as refusal:
        exact(amount, "epsilon", GuaranteeError)
    assert effort.calls < 1000
    assert effort.most_bytes < 2**20
    assert len(str(refusal.value)) < 300


@given(fractions)
@example(Fraction(10**80 + 1, 2))
@example(Fraction(10**100))
@example(Fraction(1, 2**31))
@example(Fraction(10**59 + 1, 10))
def test_text_reads_back(amount: Fraction) -> None:
    """Nothing is lost in a spec or a plan, whatever could be read in the first place."""
    assert read(decimal_text(amount)) == amount


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**9), max_value=10**9))
def test_short_decimals_stay_decimals(amount: Decimal) -> None:
    assert "/" not in decimal_text(Fraction(amount))


@given(st.floats(min_value=1e-60, max_value=1e60))
def test_float_is_its_shortest_decimal(amount: float) -> None:
    assert read(amount) == read(repr(amount))
    assert float(read(amount)) == amount


@settings(max_examples=300)
@given(fractions)
@example(Fraction(1, 3))
@example(Fraction(100001, 10**11))
@example(Fraction(10**6 + 1, 10**6))
def test_shown_is_never_too_small(amount: Fraction) -> None:
    """A loss is stated rounded up, and by no more than the sixth digit."""
    stated = Fraction(shown(amount))
    assert amount <= stated <= amount + abs(amount) / 10**5


def test_shown_is_short() -> None:
    assert [shown(Fraction(text)) for text in ("1/3", "2/3", "0.5", "1e-6", "1/3000000000", "123456789")] == [
        "0.333334",
        "0.666667",
        "0.5",
        "0.000001",
        "3.33334E-10",
        "123457000",
    ]
