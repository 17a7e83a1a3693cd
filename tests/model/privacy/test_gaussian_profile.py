"""The Gaussian profile and its inverse against mpmath: always on the private side, and tight."""

from __future__ import annotations

import decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import erfc, erfinv, exp, mp, mpf, sqrt

from privcube.algebra.directed import Directed
from privcube.model.privacy import gaussian_profile
from privcube.model.privacy.gaussian_profile import at_most, delta_of, mu_squared_of, mu_squared_of_pure
from privcube.model.privacy.zcdp import rho_of

EPSILONS = [Fraction(text) for text in ("1e-12", "1e-6", "1e-3", "0.1", "1", "7/3", "10", "50", "1000", "1e9")]
DELTAS = [Fraction(text) for text in ("1e-300", "1e-60", "1e-15", "1e-6", "1/300", "0.5", "0.99")]
DELTAS.append(1 - Fraction(1, 10**40))
CLOSE = mpf("1e-20")


@pytest.fixture(autouse=True)
def _many_digits():
    with mp.workdps(100):
        yield


def number(amount: Fraction) -> mpf:
    return mpf(amount.numerator) / amount.denominator


def below(x: mpf) -> mpf:
    return erfc(-x / sqrt(2)) / 2


def profile(epsilon: mpf, mu_squared: mpf) -> mpf:
    """The definition, as it stands."""
    mu = sqrt(mu_squared)
    return below(mu / 2 - epsilon / mu) - exp(epsilon) * below(-mu / 2 - epsilon / mu)


def test_known_values() -> None:
    """mu = 1 at epsilon 0 is 2 Phi(1/2) - 1; and the noise of the literature at (1, 1e-6)."""
    assert float(delta_of(Fraction(1), Fraction(1, 10**30))) == pytest.approx(0.3829249225480263)
    assert float(1 / mu_squared_of(Fraction(1), Fraction(1, 10**6))) == pytest.approx(17.8479125)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_inverse_is_the_largest_rounded_down(epsilon: Fraction) -> None:
    for delta in DELTAS:
        found = number(mu_squared_of(epsilon, delta))
        assert profile(number(epsilon), found) <= number(delta)
        assert profile(number(epsilon), found * (1 + CLOSE)) > number(delta)


@pytest.mark.parametrize("epsilon", ["1e-6", "0.1", "1", "7/3", "10", "50"])
def test_the_check_of_a_pure_release_decides_by_itself(epsilon: str) -> None:
    """It would refuse what a wrong search found, however close: mu is 2 Phi^-1 of 1 / (1 + e^-epsilon)."""
    amount = Fraction(epsilon)
    mu = 2 * sqrt(2) * erfinv((1 - exp(-number(amount))) / (1 + exp(-number(amount))))
    exact = Fraction(*(mu**2).as_integer_ratio())
    for off in (Fraction(1), Fraction(1, 10**30), Fraction(1, 10**70)):
        assert gaussian_profile._as_easy(exact * (1 + off), amount)
        assert not gaussian_profile._as_easy(exact / (1 + off), amount)


def test_a_decision_that_needs_too_many_digits_goes_to_the_private_side(monkeypatch: pytest.MonkeyPatch) -> None:
    close = mu_squared_of(Fraction(1), Fraction(1, 10**6)) * (1 - Fraction(1, 10**200))
    assert at_most(close, Fraction(1), Fraction(1, 10**6))
    pure = mu_squared_of_pure(Fraction(1))
    assert gaussian_profile._as_easy(pure, Fraction(1))
    monkeypatch.setattr(gaussian_profile, "_MOST_DIGITS", 1)
    assert not at_most(close, Fraction(1), Fraction(1, 10**6))
    assert not gaussian_profile._as_easy(pure, Fraction(1))


@pytest.mark.parametrize("epsilon", EPSILONS[1:-1], ids=str)
def test_delta_is_the_least_rounded_up(epsilon: Fraction) -> None:
    for mu_squared in (epsilon**2 / 900, epsilon**2 / 20, epsilon / 3, 2 * epsilon, 2 * epsilon + 1, 40 + 4 * epsilon):
        exact, found = profile(number(epsilon), number(mu_squared)), number(delta_of(mu_squared, epsilon))
        assert exact <= found
        assert found <= exact * (1 + CLOSE) or found == mpf("1e-1000")


def test_delta_is_never_zero() -> None:
    assert delta_of(Fraction(1, 10**12), Fraction(10**6)) == Fraction(1, 10**1000)


def test_decisions_close_to_the_border() -> None:
    """One part in 10^60 on either side of the border is told apart."""
    with mp.workdps(200):
        for epsilon, mu_squared in ((Fraction(1), Fraction(1, 18)), (Fraction(1, 2), Fraction(1)), (Fraction(3), 90)):
            border = Fraction(*profile(number(epsilon), number(Fraction(mu_squared))).as_integer_ratio())
            assert at_most(Fraction(mu_squared), epsilon, border * (1 + Fraction(1, 10**60)))
            assert not at_most(Fraction(mu_squared), epsilon, border * (1 - Fraction(1, 10**60)))


def test_monotone() -> None:
    for delta in DELTAS:
        found = [mu_squared_of(epsilon, delta) for epsilon in EPSILONS]
        assert all(left < right for left, right in pairwise(found))
    for epsilon in EPSILONS:
        found = [mu_squared_of(epsilon, delta) for delta in DELTAS]
        assert all(left < right for left, right in pairwise(found))


@settings(max_examples=25, deadline=None)
@given(
    st.fractions(Fraction(1, 10**6), 60, max_denominator=10**6),
    st.integers(1, 300).map(lambda power: Fraction(3, 10**power)),
)
def test_never_dearer_than_zcdp(epsilon: Fraction, delta: Fraction) -> None:
    """Normal noise of mu is mu^2/2-zCDP, so whatever zCDP allows, the profile allows."""
    assert mu_squared_of(epsilon, delta) > 2 * rho_of(epsilon, delta)


@pytest.mark.parametrize(
    ("epsilon", "delta", "saved"),
    [("0.01", "1e-6", 1.22), ("0.1", "1e-6", 1.18), ("1", "1e-6", 1.15), ("5", "1e-6", 1.12), ("1", "1e-9", 1.11)],
)
def test_what_it_saves(epsilon: str, delta: str, saved: float) -> None:
    e, d = Fraction(epsilon), Fraction(delta)
    assert float(mu_squared_of(e, d) / (2 * rho_of(e, d))) == pytest.approx(saved, abs=0.006)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_what_a_pure_release_counts_as(epsilon: Fraction) -> None:
    """The least mu with Phi(-mu/2) <= 1 / (1 + e^epsilon), rounded up."""
    found = number(mu_squared_of_pure(epsilon))
    assert below(-sqrt(found) / 2) * (1 + exp(number(epsilon))) <= 1
    assert below(-sqrt(found * (1 - CLOSE)) / 2) * (1 + exp(number(epsilon))) > 1


@pytest.mark.parametrize("epsilon", ["0.01", "1", "6"])
def test_randomized_response_is_no_easier_to_attack(epsilon: str) -> None:
    """The most revealing pure release: its profile is below that of the normal noise it counts as, everywhere."""
    e = Fraction(epsilon)
    mu_squared = mu_squared_of_pure(e)
    for part in range(12):
        other = e * Fraction(part, 10)
        keep = 1 / (1 + exp(-number(e)))
        delta = max(mpf(0), keep - exp(number(other)) * (1 - keep))
        assert delta <= profile(number(other), number(mu_squared))
    # Not vacuous: at epsilon 0 both are equal, so that any less would be too little.
    assert profile(mpf(0), number(mu_squared * Fraction(999_999, 1_000_000))) < 2 * keep - 1


def test_settings_of_the_calling_program_play_no_part() -> None:
    three, rare = Fraction(3), Fraction(1, 10**7)
    expected = mu_squared_of(three, rare), mu_squared_of_pure(three), delta_of(three, three)
    mu_squared_of.cache_clear()
    mu_squared_of_pure.cache_clear()
    with decimal.localcontext(decimal.Context(prec=3, Emax=5, Emin=-5, traps=[decimal.Inexact])):
        assert (mu_squared_of(three, rare), mu_squared_of_pure(three), delta_of(three, three)) == expected


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(5)])
def test_the_profile_and_its_complement_sum_to_1(epsilon: Fraction) -> None:
    """On both sides of epsilon = mu^2 / 2, where the one that is small is worked out and the other follows."""
    inside, outside = gaussian_profile._bounds(Directed(40), Fraction(1), epsilon)
    low, high = (Fraction(one) + Fraction(other) for one, other in zip(inside, outside, strict=True))
    assert low <= 1 <= high < low + Fraction(1, 10**30)
    assert min(inside.low, outside.low) > 0
