"""Bounds on exponentials, products and ratios hold the true value and are tight, whatever the caller's settings."""

from __future__ import annotations

import decimal
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privcube.sensitive.noise.bits import Uniform
from privcube.sensitive.noise.fixed import exp_bounds, power_of_ten, product_bounds, ratio_bounds
from privcube.sensitive.noise.max_norm import max_norm_noise

BITS = st.sampled_from([64, 65, 128, 320, 640])
EXPONENTS = st.fractions(min_value=0, max_value=500, max_denominator=10**15)


def exponential(exponent: Fraction, bits: int) -> Fraction:
    """exp(-exponent) * 2^bits to 400 digits, by another library."""
    with mpmath.workdps(400):
        value = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * mpmath.mpf(2) ** bits
        return Fraction(*value.as_integer_ratio())


@given(EXPONENTS, BITS)
@example(Fraction(7, 3), 320)
@example(Fraction(1, 3), 64)
@example(Fraction(1, 10**15), 320)
@example(Fraction(5 * 72, 7), 64)
@example(Fraction(5 * 72, 7) + Fraction(1, 10**12), 64)
def test_exponentials(exponent: Fraction, bits: int) -> None:
    """The bounds hold the true value and differ by at most two units."""
    low, high = exp_bounds(exponent, bits)
    assert 0 <= low <= exponential(exponent, bits) <= high <= low + 2


@given(st.fractions(min_value=500, max_value=3000, max_denominator=10**6), BITS)
def test_vanishing_exponentials(exponent: Fraction, bits: int) -> None:
    """Far out nothing is worked out, and the bounds are still right."""
    low, high = exp_bounds(exponent, bits)
    assert 0 <= low <= exponential(exponent, bits) <= high <= low + 1


@pytest.mark.parametrize(("exponent", "bits"), [(Fraction(100), 64), (Fraction(10**20), 64), (Fraction(10**4), 640)])
def test_far_out_there_is_less_than_a_unit(exponent: Fraction, bits: int) -> None:
    assert exp_bounds(exponent, bits) == (0, 1)


def test_of_nothing() -> None:
    """exp(0) is 1, exactly."""
    assert exp_bounds(Fraction(0), 64) == (2**64, 2**64)


@given(EXPONENTS, EXPONENTS, BITS)
def test_products(left: Fraction, right: Fraction, bits: int) -> None:
    """A product of two exponentials is the exponential of the sum."""
    low, high = product_bounds(exp_bounds(left, bits), exp_bounds(right, bits), bits)
    assert 0 <= low <= exponential(left + right, bits) <= high <= low + 6


@given(st.fractions(0, 40, max_denominator=10**9), st.fractions(0, 40, max_denominator=10**9), BITS)
def test_ratios(left: Fraction, right: Fraction, bits: int) -> None:
    """exp(-a) / (1 + exp(-b)), as in the tails of the Laplace distribution."""
    one, low, high = 1 << bits, *exp_bounds(right, bits)
    bounds = ratio_bounds(exp_bounds(left, bits), (one + low, one + high), bits)
    true = exponential(left, bits) / (1 + exponential(right, bits) / one)
    assert 0 <= bounds[0] <= true <= bounds[1] <= bounds[0] + 5


PAIRS = st.tuples(st.integers(-3, 50), st.integers(0, 9)).map(lambda given: (given[0], max(given[0], 0) + given[1]))


@settings(max_examples=40)
@given(PAIRS, PAIRS, st.sampled_from([3, 8]))
@example((0, 1), (5, 6), 3)
@example((-3, 0), (1, 1), 8)
def test_ratios_and_products_of_bounds(top: tuple[int, int], other: tuple[int, int], bits: int) -> None:
    """From whole numbers: what the ends allow, in fractions, and less than one unit more."""
    bottom = max(other[0], 1), max(other[1], 1)
    low, high = ratio_bounds(top, bottom, bits)
    assert 0 <= Fraction(max(top[0], 0) << bits, bottom[1]) - low < 1
    assert 0 <= high - Fraction(top[1] << bits, bottom[0]) < 1
    left, right = (max(top[0], 0), top[1]), (max(other[0], 0), other[1])
    low, high = product_bounds(left, right, bits)
    assert 0 <= Fraction(left[0] * right[0], 1 << bits) - low < 1
    assert 0 <= high - Fraction(left[1] * right[1], 1 << bits) <= 1


@given(st.fractions(0, 1), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=3))
@example(Fraction(1, 3), [2**64 // 3, 2**64 // 3 - 1])
@example(Fraction(1, 3), [2**64 // 3, 2**64 // 3 + 1])
@example(Fraction(1, 3), [2**64 // 3, 2**64 // 3])
@example(Fraction(1, 2), [2**63 - 1])
@example(Fraction(1, 2), [2**63])
def test_decisions(probability: Fraction, words: list[int]) -> None:
    """U < p is decided as in exact arithmetic; words that follow are asked for only while both are possible."""
    given_words = iter(words)

    class UndecidedError(Exception):
        pass

    def source(count: int) -> list[int]:
        assert count == 1
        for word in given_words:
            return [word]
        raise UndecidedError

    def bounds(bits: int) -> tuple[int, int]:
        scaled = probability * 2**bits
        return scaled.numerator // scaled.denominator, -(-scaled.numerator // scaled.denominator)

    value, used, answer = 0, 0, None
    for word in words:
        value, used = value << 64 | word, used + 1
        if value + 1 <= bounds(64 * used)[0]:
            answer = True
            break
        if value >= bounds(64 * used)[1]:
            answer = False
            break
    try:
        decided = Uniform(source).below(bounds)
    except UndecidedError:
        decided = None
    assert decided is answer
    assert len(list(given_words)) == len(words) - used


@pytest.fixture(params=[{"prec": 3}, {"prec": 1, "rounding": decimal.ROUND_UP}, {"Emin": -5, "Emax": 5}])
def odd_settings(request: pytest.FixtureRequest) -> Iterator[None]:
    """Decimal settings of a calling program, both of its thread and as defaults, that would spoil any arithmetic."""
    defaults = decimal.DefaultContext.copy()
    try:
        for name, value in request.param.items():
            setattr(decimal.DefaultContext, name, value)
        decimal.DefaultContext.traps[decimal.Inexact] = True
        with decimal.localcontext(decimal.Context(**request.param, traps=[decimal.Inexact])):
            yield
    finally:
        for name in ("prec", "rounding", "Emin", "Emax"):
            setattr(decimal.DefaultContext, name, getattr(defaults, name))
        decimal.DefaultContext.traps[decimal.Inexact] = False


@pytest.mark.usefixtures("odd_settings")
def test_settings_of_the_calling_program() -> None:
    """The decimal settings of the calling program play no part."""
    for exponent in (Fraction(7, 3), Fraction(1, 3), Fraction(123456789, 987654321)):
        low, high = exp_bounds(exponent, 320)
        assert low <= exponential(exponent, 320) <= high <= low + 2
    assert power_of_ten(-40) == decimal.Decimal("1e-40")
    assert [len(group) for group in max_norm_noise(Fraction(7, 3), [2, 3, 1])] == [2, 3, 1]
