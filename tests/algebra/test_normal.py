"""Arithmetic with bounds, and bounds on the normal distribution, against mpmath at many more digits."""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube.algebra import directed, normal
from privcube.algebra.directed import Directed, Interval, negative
from privcube.algebra.normal import density, mills, tail_of_root, upper_tail

POINTS = ["0", "1e-12", "0.001", "0.3", "1", "2.7", "4.9999", "5", "5.0001", "8", "20", "38.5", "44721.3"]
numbers = st.fractions(Fraction(1, 10**9), 10**6, max_denominator=10**12)


@pytest.fixture(autouse=True)
def _many_digits():
    with mpmath.workdps(260):
        yield


def real(number: Decimal | Fraction) -> mpmath.mpf:
    if isinstance(number, Decimal):
        return mpmath.mpf(str(number))
    return mpmath.mpf(number.numerator) / number.denominator


def holds(bounds: Interval, exact: mpmath.mpf | Fraction) -> bool:
    if isinstance(exact, Fraction):
        return Fraction(bounds.low) <= exact <= Fraction(bounds.high)
    return real(bounds.low) <= exact <= real(bounds.high)


def tail(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


@settings(max_examples=60, deadline=None)
@given(numbers, numbers, st.sampled_from([3, 17, 40]))
def test_every_operation_holds_the_exact_result(left: Fraction, right: Fraction, digits: int) -> None:
    at = Directed(digits)
    a, b = at.of(left), at.of(right)
    for found, exact in (
        (a, left),
        (at.plus(a, b), left + right),
        (at.minus(a, b), left - right),
        (negative(at.minus(a, b)), right - left),
        (at.times(a, b), left * right),
        (at.over(a, b), left / right),
        (at.squared(at.minus(a, b)), (left - right) ** 2),
    ):
        assert holds(found, exact)
    root = at.root(a)
    assert Fraction(root.low) ** 2 <= left <= Fraction(root.high) ** 2
    small, share = at.over(a, at.plus(a, b)), real(left / (left + right))
    assert holds(at.exp(negative(small)), mpmath.exp(-share))
    assert holds(at.exp(small), mpmath.exp(share))


def test_a_difference_around_zero_has_a_square_of_at_least_zero() -> None:
    assert Directed(5).squared(Interval(Decimal(-2), Decimal(3))) == Interval(Decimal(0), Decimal(9))


def test_an_unknown_sign_is_refused() -> None:
    at, unknown, one = Directed(5), Interval(Decimal(-1), Decimal(1)), Interval(Decimal(1), Decimal(1))
    for operation in (at.times, at.over):
        with pytest.raises(ArithmeticError):
            operation(unknown, one)
        with pytest.raises(ArithmeticError):
            operation(one, unknown)
    with pytest.raises(ArithmeticError):
        at.root(unknown)
    with pytest.raises(ArithmeticError, match="the sign of a number"):
        at.over(one, Interval(Decimal(0), Decimal(1)))


@pytest.mark.parametrize("digits", [1, 10, 50, 200])
def test_pi(digits: int) -> None:
    bounds = Directed(digits).pi()
    assert holds(bounds, +mpmath.pi)
    assert bounds.high - bounds.low <= 2 * Decimal(10) ** (1 - digits)


def test_pi_holds_with_few_bits_beyond_those_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 32 of them what is cut off hardly ever shows; with 12 it does, and is allowed for."""
    monkeypatch.setattr(directed, "_GUARD", 12)
    for bits in range(20, 140):
        low, high = directed._pi.__wrapped__(bits)
        assert low <= mpmath.pi * mpmath.mpf(2) ** bits <= high <= low + 16
    monkeypatch.setattr(directed, "_GUARD", 4)
    for bits in range(20, 140):
        low, high = directed._pi.__wrapped__(bits)
        assert low <= mpmath.pi * mpmath.mpf(2) ** bits <= high


@pytest.mark.parametrize("digits", [12, 40, 120])
def test_density_tail_and_their_ratio(digits: int) -> None:
    """They hold the exact value, and are as narrow as the digits allow."""
    at = Directed(digits)
    for text in POINTS:
        x = Interval(Decimal(text), Decimal(text))
        exact = mpmath.mpf(text)
        ratio = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(exact**2 / 2) * mpmath.erfc(exact / mpmath.sqrt(2))
        for found, value in (
            (mills(at, x), ratio),
            (density(at, x), mpmath.npdf(exact)),
            (upper_tail(at, x), tail(exact)),
        ):
            assert holds(found, value)
            # exp(-x^2/2) loses as many digits as x^2 has before the point.
            assert real(found.high) - real(found.low) <= value * (2 + exact**2) * mpmath.mpf(10) ** (3 - digits)


def test_an_interval_of_arguments() -> None:
    at, x = Directed(30), Interval(Decimal("0.99"), Decimal("1.01"))
    for end in (x.low, x.high, Decimal(1)):
        assert holds(upper_tail(at, x), tail(real(end)))


@settings(max_examples=60, deadline=None)
@given(st.fractions(0, 300, max_denominator=10**6), st.sampled_from([64, 96, 256]))
def test_tails_in_bits(squared: Fraction, bits: int) -> None:
    low, high = tail_of_root(squared, bits)
    assert 0 <= low <= 2 * tail(mpmath.sqrt(real(squared))) * mpmath.mpf(2) ** bits <= high <= low + 2


@pytest.mark.parametrize("bits", [3, 24, 64, 96, 256])
def test_tails_in_bits_where_they_end(bits: int) -> None:
    """Around the last unit, and where less than one is left, they hold as well."""
    for tenth in range(10 * bits, 16 * bits + 40, bits // 16 + 1):
        low, high = tail_of_root(Fraction(tenth, 10), bits)
        assert 0 <= low <= 2 * tail(mpmath.sqrt(mpmath.mpf(tenth) / 10)) * mpmath.mpf(2) ** bits <= high <= low + 2


@pytest.mark.parametrize("steps", [1, 2, 3, 8])
def test_the_continued_fraction_holds_after_any_number_of_steps(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it must where more would make no difference to the digits that are kept."""
    monkeypatch.setattr(normal, "_steps", lambda digits, x: steps)
    for text in POINTS[8:]:
        exact = mpmath.mpf(text)
        ratio = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(exact**2 / 2) * mpmath.erfc(exact / mpmath.sqrt(2))
        found = normal._far(Directed(200), Decimal(text))
        assert holds(found, ratio)
        assert found.high > found.low


def test_settings_of_the_calling_program_play_no_part() -> None:
    expected = tail_of_root(Fraction(7, 3), 128)
    with decimal.localcontext(decimal.Context(prec=3, Emax=5, Emin=-5, traps=[decimal.Inexact])):
        assert tail_of_root(Fraction(7, 3), 128) == expected
