"""Composition: what several releases cost together, as exact fractions. Zone: PUBLIC.

Formal guarantee. Releases on the same data, each under its own guarantee for the same unit and neighbors, satisfy
- epsilon_1 + ... + epsilon_n, if all are pure;
- rho_1 + ... + rho_n in zCDP. A pure epsilon counts as epsilon^2 / 2 (Bun and Steinke 2016, proposition 1.4), Gaussian
  noise of mu as mu^2 / 2, and an approximate guarantee accounted through zCDP as the rho it was accounted through;
- mu_1^2 + ... + mu_n^2 in the Gaussian profile, if none has discrete Gaussian noise. A pure epsilon counts as the mu^2
  of Gaussian noise that is as easy to attack (`privcube.model.privacy.gaussian_profile`).
Each of these sums is an account, and holds as long as it stays within what implies the total, also if what is released
next is chosen by looking at earlier releases. A pure total has the first account, a total in zCDP the second. A total
in (epsilon, delta) has two: the first, and one of the others. It holds some releases if one account holds all of them.

Why not all three: results may lead to one account rather than another, and then their deltas add up. The first account
has none: if the sum of the epsilons is within epsilon, no outcome is more than e^epsilon times as likely as under a
neighbor. The other account is exceeded for good once it is exceeded, so all outcomes that it does not hold are of this
kind, and those that it holds exceed e^epsilon times their likelihood by at most its delta, all together. Which of the
other two a total has is decided before there are results, by its first release: rho if that has discrete Gaussian
noise, mu^2 if it has rounded noise, and as the total's own calibration says if it is pure.

Fractions are added without rounding; costs shown to people are rounded up.

See THEORY section 1.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from privcube.errors import GuaranteeError, Plain
from privcube.model.amounts import shown, shown_down
from privcube.model.privacy.gaussian_profile import mu_squared_of_pure
from privcube.model.privacy.guarantee import SMALLEST, ApproxDP, Currency, Guarantee, PureDP


@dataclass(frozen=True)
class Account:
    """What some releases cost together in one currency, and how much of it a total allows."""

    currency: Currency
    spent: Fraction
    limit: Fraction

    @property
    def left(self) -> Fraction:
        """What is left; below 0 if the account does not hold the releases."""
        return self.limit - self.spent


@dataclass(frozen=True)
class Spending:
    """The accounts that hold all releases under a total so far, the one with the largest part left first.

    `sums` is the currency that every release has a cost in: of a total in (epsilon, delta) rho or mu^2, None until the
    first release decides.

    >>> total = ApproxDP(1, "1e-6", calibration="exact")
    >>> [each.currency for each in Spending.of(total, [PureDP("0.01")]).accounts]
    ['mu^2', 'epsilon']
    >>> [each.currency for each in Spending.of(total, [PureDP("0.5")]).accounts]
    ['epsilon']
    """

    total: Guarantee
    accounts: tuple[Account, ...]
    sums: Currency | None = None

    @classmethod
    def of(cls, total: Guarantee, spent: Iterable[Guarantee] = ()) -> Spending:
        """What is spent after some releases, one after the other; refuses one that overspends the total."""
        _require_same_unit(total, total)
        found = cls(total, _opened(total, total.currency))
        for release in spent:
            found = found.after(release)
        return found

    @property
    def account(self) -> Account:
        """The account with the largest part left."""
        return self.accounts[0]

    def after(self, release: Guarantee) -> Spending:
        """The accounts after one more release; refuses it if none of them holds it."""
        _require_same_unit(release, self.total)
        sums = self.sums or _decided(self.total, release)
        before = self.accounts if self.sums else _opened(self.total, sums)
        able = []
        for each in before:
            price = price_in(each.currency, release)
            if price is not None:
                able.append(Account(each.currency, each.spent + price, each.limit))
        if not able:
            raise _wrong_kind(self.total, sums, release)
        able.sort(key=lambda each: each.left / each.limit, reverse=True)
        if able[0].left < 0:
            raise _too_dear(self.total, next(each for each in before if each.currency == able[0].currency), release)
        return Spending(self.total, tuple(each for each in able if each.left >= 0), sums)


def price_in(currency: Currency, release: Guarantee) -> Fraction | None:
    """What a release costs in a currency; None if it has no price in it.

    >>> from privcube.model.privacy.guarantee import ZCDP
    >>> price_in("epsilon", PureDP("0.1")), price_in("rho", PureDP("0.1")), price_in("epsilon", ZCDP(1))
    (Fraction(1, 10), Fraction(1, 200), None)
    """
    return _PRICE[currency](release)


def room(spending: Spending) -> ApproxDP | None:
    """Under a total in (epsilon, delta), the largest release of that kind that still fits; None if none does.

    Its delta is that of the total, its epsilon one of at least a thousand steps up to that of the total.

    >>> total = ApproxDP(1, "1e-6", calibration="exact")
    >>> print(room(Spending.of(total, [total.with_amount("0.5")])))
    epsilon = 0.841, delta = 0.000001, adding or removing one row
    """
    total, sums = spending.total, spending.sums or spending.total.currency
    account = next((each for each in spending.accounts if each.currency == sums), None)
    if not isinstance(total, ApproxDP) or account is None:
        return None
    one = replace(total, calibration="exact" if sums == "mu^2" else "zcdp")
    step = Fraction(1, 1000)
    while total.epsilon < 1000 * step:
        step /= 10
    while total.epsilon >= 10_000 * step:
        step *= 10
    least = -(-SMALLEST // step)  # steps: fewer are no guarantee at all
    fits, exceeds = least - 1, int(total.epsilon / step) + 1
    while exceeds - fits > 1:
        tried = (fits + exceeds) // 2
        fits, exceeds = (tried, exceeds) if one.with_amount(tried * step).capacity <= account.left else (fits, tried)
    return one.with_amount(fits * step) if fits >= least else None


def remaining(total: Guarantee, spent: Iterable[Guarantee]) -> Fraction:
    """What is left of a total after some releases, which must not overspend it, in the account with most of it left.

    >>> remaining(PureDP(1), [PureDP("0.1")] * 3)
    Fraction(7, 10)
    """
    return Spending.of(total, spent).account.left


def is_same_total(one: Guarantee, other: Guarantee) -> bool:
    """Whether two totals promise the same. Their calibrations only say how sums are kept that begin with pure releases.

    >>> is_same_total(ApproxDP(1, "1e-6", calibration="exact"), ApproxDP(1, "1e-6", calibration="zcdp"))
    True
    """
    return (one.kind, one.amounts, one.unit) == (other.kind, other.amounts, other.unit)


def _opened(total: Guarantee, sums: Currency) -> tuple[Account, ...]:
    """The empty accounts of a total."""
    if not isinstance(total, ApproxDP):
        return (Account(total.currency, Fraction(0), total.capacity),)
    limit = total.mu_squared if sums == "mu^2" else total.rho
    return Account(sums, Fraction(0), limit), Account("epsilon", Fraction(0), total.epsilon)


def _decided(total: Guarantee, first: Guarantee) -> Currency:
    """The currency of the sums of a total, given its first release."""
    return first.currency if isinstance(total, ApproxDP) and not isinstance(first, PureDP) else total.currency


def _require_same_unit(spent: Guarantee, total: Guarantee) -> None:
    if spent.unit != total.unit:
        raise GuaranteeError("release", expected=f"the unit of the total, {total.unit}", given=Plain(spent.unit))
    if "classic" in (spent.calibration, total.calibration):
        raise GuaranteeError("calibration", expected="exact or zcdp (the classic constant has no exact accounting)")


def _too_dear(total: Guarantee, account: Account, release: Guarantee) -> GuaranteeError:
    price = price_in(account.currency, release)
    assert price is not None
    named = f" {account.currency}" if isinstance(total, ApproxDP) else ""
    cheaper = ""
    if account.currency == "rho" and isinstance(release, ApproxDP) and release.rho <= account.left:
        cheaper = f" (with calibration zcdp this one costs {shown(release.rho)})"
    return GuaranteeError(
        "privacy budget",
        expected=f"a release that costs at most what is left,{named} {shown_down(account.left)}{cheaper}",
        given=Plain(f"one that costs {shown(price)}"),
    )


def _wrong_kind(total: Guarantee, sums: Currency, release: Guarantee) -> GuaranteeError:
    if isinstance(total, PureDP):
        expected = "a pure guarantee, as the total is pure"
    elif sums == "mu^2" and release.currency == "rho":
        expected = "a pure guarantee or calibration exact, as the first release under this total decided"
    else:
        expected = "a pure guarantee, as earlier pure releases leave nothing for others"
    return GuaranteeError("release", expected=expected, given=Plain(str(release)))


def _epsilon(spent: Guarantee) -> Fraction | None:
    return spent.epsilon if isinstance(spent, PureDP) else None


def _rho(spent: Guarantee) -> Fraction:
    if isinstance(spent, PureDP):
        return spent.epsilon**2 / 2
    if isinstance(spent, ApproxDP) and spent.calibration == "exact":
        return spent.mu_squared / 2
    return spent.rho


def _mu_squared(spent: Guarantee) -> Fraction | None:
    if isinstance(spent, PureDP):
        return mu_squared_of_pure(spent.epsilon)
    return spent.mu_squared if isinstance(spent, ApproxDP) and spent.calibration == "exact" else None


_PRICE: Final[dict[Currency, Callable[[Guarantee], Fraction | None]]] = {
    "epsilon": _epsilon,
    "rho": _rho,
    "mu^2": _mu_squared,
}
