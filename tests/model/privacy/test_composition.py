"""Budgets add up exactly, in the currency of the total."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privcube import ZCDP, ApproxDP, PureDP, errors
from privcube.model.privacy import gaussian_profile, zcdp
from privcube.model.privacy.composition import Account, Spending, price_in, remaining, room
from privcube.model.privacy.guarantee import Guarantee
from privcube.sensitive.ledger import MemoryLedger


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=40))
def test_random_splits_sum_exactly(parts: list[int]) -> None:
    whole = sum(parts)
    pieces = [PureDP(Fraction(part, whole)) for part in parts]
    assert remaining(PureDP(1), pieces) == 0
    with pytest.raises(errors.GuaranteeError, match="at most what is left, 0"):
        remaining(PureDP(1), [*pieces, PureDP("1e-12")])


def test_a_thousand_tenths_of_a_percent() -> None:
    """Floats would end at 1.0000000000000007."""
    assert remaining(PureDP(1), [PureDP("0.001")] * 1000) == 0


def test_approximate_guarantees_add_up_through_zcdp() -> None:
    total = ApproxDP(3, "1e-6", calibration="zcdp")
    one = ApproxDP(1, "1e-6", calibration="zcdp")
    assert price_in("rho", one) == one.rho
    left = remaining(total, [one, ZCDP("0.05"), PureDP("0.1")])
    assert left == total.rho - one.rho - Fraction(5, 100) - Fraction(1, 200)
    spent = total.capacity - left
    assert zcdp.epsilon_of(spent, total.delta) <= 3


@pytest.mark.parametrize(
    ("spent", "total"),
    [
        (ZCDP(1), PureDP(1)),
        (PureDP(1, neighbors="replace_one"), PureDP(1)),
        (PureDP(1, max_rows_per_person=2), PureDP(1)),
        (ApproxDP(1, "1e-6", calibration="classic"), ApproxDP(2, "1e-6")),
    ],
)
def test_what_cannot_be_added_is_refused(spent, total) -> None:
    with pytest.raises(errors.GuaranteeError):
        remaining(total, [spent])


def test_a_refused_charge_changes_nothing() -> None:
    ledger = MemoryLedger(PureDP(1))
    ledger.charge("one", PureDP("0.7"))
    with pytest.raises(errors.GuaranteeError, match=r"left, 0\.3"):
        ledger.charge("two", PureDP("0.4"))
    assert ledger.remaining == Fraction(3, 10)
    ledger.charge("three", PureDP("0.3"))
    assert ledger.remaining == 0


def test_two_threads_do_not_spend_the_same_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both decide at the same moment; only one may be told that it fits."""
    ledger, ready = MemoryLedger(PureDP(1)), threading.Barrier(4)

    def slowly(total, spent):
        left = remaining(total, spent)
        time.sleep(0.05)  # long enough for all others to decide, too, if they can
        return left

    def charge(name: str) -> bool:
        ready.wait()
        try:
            ledger.charge(name, PureDP("0.6"))
        except errors.GuaranteeError:
            return False
        return True

    monkeypatch.setattr("privcube.sensitive.ledger.memory.remaining", slowly)
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(charge, "abcd")) == [False, False, False, True]
    assert ledger.remaining == Fraction(4, 10)


# Totals in (epsilon, delta): one account of sums, and one for releases that are all pure

EXACT = ApproxDP(1, "1e-6", calibration="exact")
ZCDP_ONE = ApproxDP(1, "1e-6", calibration="zcdp")


def accounts(total: Guarantee, spent: list[Guarantee]) -> tuple[Account, ...]:
    return Spending.of(total, spent).accounts


def account_of(total: Guarantee, spent: list[Guarantee]) -> Account:
    return Spending.of(total, spent).account


def test_the_account_with_the_largest_part_left_is_the_first() -> None:
    """Parts of their limits, as one limit is many times the other: a tiny pure release is cheaper in mu^2."""
    found = accounts(EXACT, [PureDP("0.01")])
    parts = [each.left / each.limit for each in found]
    assert [each.currency for each in found] == ["mu^2", "epsilon"]
    assert parts == sorted(parts, reverse=True)
    assert found[0].limit < found[1].limit / 10
    assert account_of(EXACT, [PureDP("0.01")]) == found[0]


@pytest.mark.parametrize(
    ("spent", "release", "left"),
    [([], PureDP(2), "epsilon 1"), ([PureDP("0.01")] * 100, PureDP("0.17"), r"mu\^2 0\.04")],
    ids=["epsilon", "mu^2"],
)
def test_a_release_too_dear_for_all_accounts_is_told_what_the_nearest_has_left(
    spent: list[Guarantee], release: PureDP, left: str
) -> None:
    """That of which it would overspend the smallest part."""
    with pytest.raises(errors.GuaranteeError, match=f"at most what is left, {left}"):
        Spending.of(EXACT, spent).after(release)


def test_one_release_may_take_the_whole_total() -> None:
    """By the account of its own noise, whatever the total was calibrated for."""
    for total in (EXACT, ZCDP_ONE):
        for release, currency in ((EXACT, "mu^2"), (ZCDP_ONE, "rho"), (PureDP(1), "epsilon")):
            account = account_of(total, [release])
            assert (account.currency, account.left) == (currency, 0)
            with pytest.raises(errors.GuaranteeError, match="privacy budget"):
                account_of(total, [release, PureDP("1e-9")])


def test_exact_releases_add_up_in_mu_squared() -> None:
    parts = [ApproxDP("0.5", "1e-8", calibration="exact")] * 3
    account = account_of(EXACT, parts)
    assert account.spent == 3 * parts[0].mu_squared
    assert account.currency == "mu^2"
    with_pure = account_of(EXACT, [*parts, PureDP("0.01")])
    assert with_pure.spent == account.spent + gaussian_profile.mu_squared_of_pure(Fraction(1, 100))


def test_what_was_admissible_through_zcdp_still_is() -> None:
    """All that a sum of rho held before there were other accounts, for totals that were opened then."""
    generator = random.Random(5)
    releases = [ZCDP("0.003"), ZCDP_ONE, ApproxDP("0.2", "1e-7"), PureDP("0.05"), PureDP("0.2")]
    releases = [ApproxDP(g.epsilon, g.delta, calibration="zcdp") if isinstance(g, ApproxDP) else g for g in releases]
    held = 0
    for _ in range(300):
        spent = generator.choices(releases, k=generator.randint(1, 6))
        total = ApproxDP(generator.choice(["0.3", "1", "2"]), "1e-6", calibration="zcdp")
        if sum(price_in("rho", each) or 0 for each in spent) <= total.rho:
            assert remaining(total, spent) >= 0
            held += 1
    assert 50 < held < 250


def test_the_first_release_decides_before_there_are_results() -> None:
    """Results must not lead to one account of sums or to the other, as their deltas would add up."""
    small, discrete = ApproxDP("0.1", "1e-9", calibration="exact"), ZCDP("0.0001")
    for total in (EXACT, ZCDP_ONE):
        assert {each.currency for each in accounts(total, [small])} == {"mu^2"}
        assert {each.currency for each in accounts(total, [discrete, small])} == {"rho"}
        assert {each.currency for each in accounts(total, [PureDP("0.01")])} == {total.currency, "epsilon"}
        assert {each.currency for each in accounts(total, [PureDP("0.6")])} == {"epsilon"}
        with pytest.raises(errors.GuaranteeError, match="pure guarantee or calibration exact"):
            account_of(total, [small, discrete])
    with pytest.raises(errors.GuaranteeError, match="pure guarantee or calibration exact"):
        account_of(EXACT, [PureDP("0.01"), discrete])
    assert account_of(ZCDP_ONE, [PureDP("0.01"), discrete]).currency == "rho"


def test_exact_releases_in_zcdp_count_half_of_mu_squared() -> None:
    assert price_in("rho", EXACT) == EXACT.mu_squared / 2
    assert remaining(ZCDP(1), [EXACT]) == 1 - EXACT.mu_squared / 2


@pytest.mark.parametrize("total", [EXACT, ZCDP_ONE], ids=["exact", "zcdp"])
def test_what_is_admitted_is_within_the_total(total: ApproxDP) -> None:
    """Against the profile of the composed Gaussian noise."""
    generator = random.Random(9)
    admitted = 0
    for _ in range(60):
        parts = [Fraction(generator.randint(1, 90), 100) for _ in range(generator.randint(1, 4))]
        spent = [ApproxDP(part, "1e-6", calibration="exact") for part in parts]
        try:
            account_of(total, spent)
        except errors.GuaranteeError:
            continue
        admitted += 1
        assert gaussian_profile.at_most(sum(each.mu_squared for each in spent), total.epsilon, total.delta)
    assert 10 < admitted < 60


@pytest.mark.parametrize("total", [EXACT, ZCDP_ONE, ApproxDP("0.004", "1e-9", calibration="exact")], ids=str)
def test_the_room_that_is_left_is_room(total: ApproxDP) -> None:
    """What is said to fit does; a little more than one step above it does not."""
    for spent in ([], [total.with_amount(total.epsilon / 3)], [PureDP(total.epsilon / 100)]):
        spending = Spending.of(total, spent)
        fits = room(spending)
        assert fits is not None
        spending.after(fits)
        if spent:
            with pytest.raises(errors.GuaranteeError):
                spending.after(fits.with_amount(fits.epsilon + total.epsilon / 999))
    assert room(Spending.of(total, [total])) is None
    assert room(Spending.of(total, [PureDP(total.epsilon)])) is None
    assert room(Spending.of(PureDP(1))) is None


@pytest.mark.parametrize(("epsilon", "steps"), [("50", 5_000), ("10", 1_000), ("9.99", 9_990), ("0.03", 3_000)])
def test_the_room_of_an_untouched_total_is_all_of_it(epsilon: str, steps: int) -> None:
    """And what is left of one comes in steps, a thousand or more of them up to the total."""
    total = ApproxDP(epsilon, "1e-6", calibration="exact")
    assert room(Spending.of(total)) == total
    rest = room(Spending.of(total, [total.with_amount(total.epsilon / 3)]))
    assert rest is not None
    assert (rest.epsilon / total.epsilon * steps).denominator == 1
    assert rest.epsilon / total.epsilon * steps % 10 != 0  # no coarser ones


def test_there_is_no_room_for_less_than_the_smallest_guarantee() -> None:
    """The search for it does not try what cannot be written down."""
    smallest = ApproxDP("1e-12", "1e-6", calibration="exact")
    assert room(Spending.of(smallest)) == smallest
    assert room(Spending.of(smallest, [smallest])) is None
    more = ApproxDP("5e-12", "1e-6", calibration="exact")  # all of it is in its delta
    assert room(Spending.of(more)) == more
    assert room(Spending.of(more, [more.with_amount("2e-12")])) is None


def test_a_refusal_says_in_which_account_and_what_costs_less() -> None:
    half = ApproxDP("0.5", "1e-6", calibration="zcdp")
    spent = [half] * 2
    rest = room(Spending.of(ZCDP_ONE, spent))
    assert rest is not None
    assert rest.calibration == "zcdp"
    with pytest.raises(errors.GuaranteeError, match=r"what is left, rho .* \(with calibration zcdp this one costs"):
        remaining(ZCDP_ONE, [*spent, ApproxDP(rest.epsilon, rest.delta, calibration="exact")])
    just = ZCDP(ZCDP_ONE.rho - half.rho)  # leaves what the release would cost
    with pytest.raises(errors.GuaranteeError, match=r"\(with calibration zcdp this one costs"):
        remaining(ZCDP_ONE, [just, replace(half, calibration="exact")])
    with pytest.raises(errors.GuaranteeError, match="pure guarantee, as earlier pure releases leave nothing"):
        remaining(EXACT, [PureDP("0.9"), EXACT.with_amount("0.01")])


@pytest.mark.parametrize("epsilon", ["0.9995", "9.995", "9.9995", "0.001", "12345"])
def test_the_room_of_an_empty_ledger_has_all_four_digits(epsilon: str) -> None:
    """At least a thousand steps up to the total, wherever it lies between powers of ten."""
    total = ApproxDP(epsilon, "1e-6", calibration="exact")
    found = room(Spending.of(total))
    assert found is not None
    assert Fraction(999, 1000) * total.epsilon < found.epsilon <= total.epsilon
    assert found == total.with_amount({"12345": "12340", "9.9995": "9.999"}.get(epsilon, epsilon))
