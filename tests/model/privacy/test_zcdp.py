"""Conversions between zCDP and (epsilon, delta), against mpmath and against exact discrete Gaussian noise.

The reference optimizes alpha by golden section with 80 digits, so a conversion that rounds the wrong way in its
thirtieth digit is caught.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import exp, log, mp, mpf, sqrt

from privcube.model.privacy import zcdp
from privcube.model.privacy.guarantee import ApproxDP
from privcube.model.privacy.zcdp import classic_gaussian_variance, delta_of, epsilon_of, rho_of

LEAST_DELTA = Fraction(1, 10**1000)
CLOSE = mpf("1e-9")

RHOS = [Fraction(text) for text in ("1e-8", "1e-5", "1/300", "0.1", "0.5", "2", "100")]
EPSILONS = [Fraction(text) for text in ("1e-3", "0.1", "1", "3", "50")]
DELTAS = [Fraction(text) for text in ("1e-15", "1e-9", "1/100000", "0.01", "0.5")]


@pytest.fixture(autouse=True)
def _many_digits():
    with mp.workdps(80):
        yield


def number(amount: Fraction) -> mpf:
    return mpf(amount.numerator) / amount.denominator


def least(function: Callable[[mpf], mpf]) -> mpf:
    """The minimum over alpha > 1 of a function with a single valley, on ln(alpha - 1).

    By golden section, and at last by parabolas through the three best points. If it were missed the conversions, which
    lie within 30 digits of it, would look as if they rounded the wrong way.
    """

    def at(t: mpf) -> mpf:
        return function(1 + exp(t))

    ratio = (sqrt(5) - 1) / 2
    low, high = mpf(-150), mpf(150)
    inner, outer = high - ratio * (high - low), low + ratio * (high - low)
    value_inner, value_outer = at(inner), at(outer)
    while high - low > mpf("1e-4"):
        if value_inner < value_outer:
            high, outer, value_outer = outer, inner, value_inner
            inner = high - ratio * (high - low)
            value_inner = at(inner)
        else:
            low, inner, value_inner = inner, outer, value_outer
            outer = low + ratio * (high - low)
            value_outer = at(outer)
    points = [(inner, value_inner), (outer, value_outer), (low, at(low))]
    for _ in range(20):
        (a, fa), (b, fb), (c, fc) = points = sorted(points, key=lambda point: point[1])[:3]
        left, right = (a - b) * (fa - fc), (a - c) * (fa - fb)
        if left == right:
            break
        place = a - ((a - b) * left - (a - c) * right) / (2 * (left - right))
        points.append((place, at(place)))
        if abs(place - a) < mpf("1e-28"):
            break
    return min(value for _, value in points)


def best_delta(rho: Fraction, epsilon: Fraction) -> mpf:
    r, e = number(rho), number(epsilon)
    return min(mpf(1), exp(least(lambda a: (a - 1) * (a * r - e) + (a - 1) * log(a - 1) - a * log(a))))


def best_epsilon(rho: Fraction, delta: Fraction) -> mpf:
    r, d = number(rho), log(number(delta))
    return max(mpf(0), least(lambda a: a * r - (d + log(a)) / (a - 1) + log((a - 1) / a)))


def best_rho(epsilon: Fraction, delta: Fraction) -> mpf:
    e, d = number(epsilon), log(number(delta))
    return -least(lambda a: -(d + (a - 1) * e - (a - 1) * log(a - 1) + a * log(a)) / (a * (a - 1)))


def discrete_gaussian_delta(variance: mpf, epsilon: Fraction) -> mpf:
    """The exact delta at epsilon of a count with discrete Gaussian noise: sum of max(0, P(x) - e^epsilon P(x - 1))."""
    reach = int(30 * sqrt(variance)) + 30
    weight = {x: exp(-mpf(x * x) / (2 * variance)) for x in range(-reach - 1, reach + 1)}
    gained = sum(max(mpf(0), weight[x] - exp(number(epsilon)) * weight[x - 1]) for x in range(-reach, reach + 1))
    return gained / sum(weight.values())


# Against the reference


@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_delta_is_the_least_rounded_up(rho: Fraction) -> None:
    for epsilon in EPSILONS:
        delta, best = delta_of(rho, epsilon), best_delta(rho, epsilon)
        assert number(delta) >= best
        assert delta == LEAST_DELTA or number(delta) <= best * (1 + CLOSE)


@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_epsilon_is_the_least_rounded_up(rho: Fraction) -> None:
    for delta in DELTAS:
        epsilon, best = number(epsilon_of(rho, delta)), best_epsilon(rho, delta)
        assert best <= epsilon <= best * (1 + CLOSE)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_rho_is_the_largest_rounded_down(epsilon: Fraction) -> None:
    for delta in DELTAS:
        rho, best = number(rho_of(epsilon, delta)), best_rho(epsilon, delta)
        assert best * (1 - CLOSE) <= rho <= best


def test_references_agree() -> None:
    """The three references are found by different searches, yet describe one curve."""
    for epsilon in EPSILONS:
        for delta in DELTAS:
            rho = Fraction(str(mp.nstr(best_rho(epsilon, delta), 70)))
            assert abs(best_delta(rho, epsilon) / number(delta) - 1) < mpf("1e-50")
            assert abs(best_epsilon(rho, delta) - number(epsilon)) < mpf("1e-50")


@pytest.mark.parametrize("delta", ["1e-60", "0.5", f"{3 * 10**25 - 1}/{3 * 10**25}", f"{7 * 10**40 - 1}/{7 * 10**40}"])
@pytest.mark.parametrize("epsilon", ["1e-12", "1", "1e9"])
def test_private_side_at_the_ends(epsilon: str, delta: str) -> None:
    """Where terms of very different size cancel, the side is kept, if not the ninth digit."""
    e, d = Fraction(epsilon), Fraction(delta)
    with mp.workdps(160):
        best = best_rho(e, d)
        assert best * mpf("0.999999") <= number(rho_of(e, d)) <= best
        for rho in (Fraction(1, 10**12), Fraction(10**9)):
            best = best_epsilon(rho, d)
            assert best <= number(epsilon_of(rho, d)) <= best + mpf("1e-6")


@pytest.mark.parametrize(("rho", "epsilon"), [("1e-12", "1e9"), ("1e-8", "50"), ("1e-3", "10")])
def test_delta_is_never_zero(rho: str, epsilon: str) -> None:
    """exp underflows to 0 for a very safe mechanism; delta = 0 would claim pure privacy, which Gaussians never have."""
    assert delta_of(Fraction(rho), Fraction(epsilon)) == LEAST_DELTA


def test_delta_of_no_protection_is_one() -> None:
    assert delta_of(Fraction(10**6), Fraction(1, 100)) == 1
    assert epsilon_of(Fraction(1, 10**8), Fraction(1, 2)) == 0


# Round trips: what is promised after a conversion holds by the reference, without tolerance


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_rho_keeps_the_promise(epsilon: Fraction) -> None:
    for delta in DELTAS:
        reached = best_delta(rho_of(epsilon, delta), epsilon)
        assert number(delta) * (1 - CLOSE) <= reached <= number(delta)


@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_epsilon_and_delta_keep_the_promise(rho: Fraction) -> None:
    for delta in DELTAS:
        assert best_delta(rho, epsilon_of(rho, delta)) <= number(delta)
    for epsilon in EPSILONS:
        delta = delta_of(rho, epsilon)
        assert delta == 1 or best_epsilon(rho, delta) <= number(epsilon)


# Monotonicity

positive = st.fractions(Fraction(1, 10**6), 100, max_denominator=10**6)
probability = st.fractions(Fraction(1, 10**6), Fraction(99, 100), max_denominator=10**6)


@settings(max_examples=12, deadline=None)
@given(positive, positive, positive)
def test_delta_moves_with_the_loss(one: Fraction, another: Fraction, third: Fraction) -> None:
    low, high = sorted((one, another))
    assert delta_of(low, third) <= delta_of(high, third)
    assert delta_of(third, low) >= delta_of(third, high)


@settings(max_examples=12, deadline=None)
@given(positive, positive, probability, probability)
def test_epsilon_and_rho_move_with_the_loss(one: Fraction, another: Fraction, d1: Fraction, d2: Fraction) -> None:
    low, high = sorted((one, another))
    rare, often = sorted((d1, d2))
    assert epsilon_of(low, rare) <= epsilon_of(high, rare)
    assert epsilon_of(low, rare) >= epsilon_of(low, often)
    assert rho_of(low, rare) <= rho_of(high, rare)
    assert rho_of(low, rare) <= rho_of(low, often)


# Attack: the exact loss of the noise that is drawn


@pytest.mark.parametrize("rho", ["0.005", "0.05", "0.5", "2", "8"])
def test_exact_loss_stays_within_the_bound(rho: str) -> None:
    """rho-zCDP noise has variance 1/(2 rho); its exact curve lies below the bound.

    Where the noise is wide beside the whole numbers the bound is also within a factor of 20: it is not vacuous.
    """
    amount = Fraction(rho)
    variance = 1 / (2 * number(amount))
    for step in ("0.5", "1", "2", "4", "6"):
        epsilon = amount + Fraction(step) * Fraction(round(sqrt(2 * number(amount)) * 1000), 1000)
        loss, bound = discrete_gaussian_delta(variance, epsilon), number(delta_of(amount, epsilon))
        assert 0 < loss <= bound
        if variance >= 10:
            assert bound <= 20 * loss


@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", "1e-6"), ("1", "1e-6"), ("1", "0.01"), ("4", "1e-9")])
def test_calibrated_noise_withstands_the_attack(epsilon: str, delta: str) -> None:
    guarantee = ApproxDP(epsilon, delta, calibration="zcdp")
    variance = number(guarantee.unit_noise)
    assert discrete_gaussian_delta(variance, guarantee.epsilon) <= number(guarantee.delta)
    # The attack has power: it breaks noise of two thirds of the variance.
    assert discrete_gaussian_delta(variance * 2 / 3, guarantee.epsilon) > number(guarantee.delta)


# The paper's constant


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_classic_constant(epsilon: Fraction) -> None:
    """Theorem 2.2 of the paper: 2 ln(2/delta) / epsilon^2, rounded up."""
    for delta in DELTAS:
        classic = 2 * log(2 / number(delta)) / number(epsilon) ** 2
        assert classic <= number(classic_gaussian_variance(epsilon, delta)) <= classic * (1 + mpf("1e-25"))


# The slack: all results are moved in the private direction by 1e-50 of the sum of the sizes of their terms, or more


@pytest.fixture
def alphas(monkeypatch: pytest.MonkeyPatch) -> list[Decimal]:
    """All digits are kept, where 30 would hide the slack; the alphas at which bounds are evaluated are noted."""
    found: list[Decimal] = []
    root = zcdp._root

    def noted(increasing: Callable[[Decimal], Decimal]) -> Decimal:
        found.append(root(increasing))
        return found[-1]

    monkeypatch.setattr(zcdp, "_root", noted)
    monkeypatch.setattr(zcdp, "_KEPT_DIGITS", zcdp._DIGITS)
    return found


def is_slack(moved: mpf, terms: list[mpf], alpha: mpf) -> bool:
    sizes = sum(abs(term) for term in terms)
    return sizes * mpf("0.9999e-50") <= moved <= (2 * sizes + 1 + 1 / (alpha - 1)) * mpf("1.0001e-50")


@pytest.mark.parametrize("rho", RHOS, ids=str)
def test_delta_and_epsilon_have_their_slack(rho: Fraction, alphas: list[Decimal]) -> None:
    r = number(rho)
    for amount in EPSILONS:
        found, e, a = delta_of(rho, amount), number(amount), mpf(str(alphas[-1]))
        if LEAST_DELTA < found < 1:
            terms = [(a - 1) * a * r, (1 - a) * e, (a - 1) * log(a - 1), -a * log(a)]
            rounding = mpf(1)  # of the exponential, relative to itself
            assert is_slack(log(number(found)) - sum(terms), [*terms, rounding], a), (rho, amount)
    for delta in DELTAS:
        found, d, a = epsilon_of(rho, delta), log(number(delta)), mpf(str(alphas[-1]))
        if found > 0:
            terms = [a * r, -d / (a - 1), -log(a) / (a - 1), log((a - 1) / a)]
            assert is_slack(number(found) - sum(terms), terms, a), (rho, delta)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_rho_and_the_classic_constant_have_their_slack(epsilon: Fraction, alphas: list[Decimal]) -> None:
    e = number(epsilon)
    for delta in DELTAS:
        found, d, a = rho_of.__wrapped__(epsilon, delta), log(number(delta)), mpf(str(alphas[-1]))
        terms = [e / a, d / (a * (a - 1)), -log(a - 1) / a, log(a) / (a - 1)]
        assert is_slack(sum(terms) - number(found), terms, a), (epsilon, delta)
        classic = 2 * log(2 / number(delta)) / e**2
        assert is_slack(number(classic_gaussian_variance(epsilon, delta)) - classic, [classic], mpf(2))
