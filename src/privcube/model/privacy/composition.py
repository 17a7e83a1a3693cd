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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from privcube.errors import GuaranteeError, Plain
from privcube.model.amounts import shown, shown_down
from privcube.model.privacy.gaussian_profile import mu_squared_of_pure
from privcube.model.privacy.guarantee import ZCDP, ApproxDP, Currency, Guarantee, PureDP


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


def accounts(total: Guarantee, spent: Sequence[Guarantee]) -> list[Account]:
    """The accounts that all these releases can be entered in, the one with the largest part left first.

    >>> exact = ApproxDP(1, "1e-6", calibration="exact")
    >>> [each.currency for each in accounts(exact, [exact])], [each.currency for each in accounts(exact, [PureDP(1)])]
    (['mu^2'], ['epsilon', 'mu^2'])
    """
    for release in (total, *spent):
        _require_same_unit(release, total)
    found = []
    for currency, limit in _limits(total, spent).items():
        costs = [_COST[currency](release) for release in spent]
        known = [each for each in costs if each is not None]
        if len(known) == len(costs):
            found.append(Account(currency, sum(known, Fraction(0)), limit))
    return sorted(found, key=lambda each: each.left / each.limit, reverse=True)


def account_of(total: Guarantee, spent: Sequence[Guarantee]) -> Account:
    """The account by which a total holds some releases; refuses the last of them if none does.

    >>> account_of(PureDP(1), [PureDP("0.1")] * 3).left
    Fraction(7, 10)
    """
    found = accounts(total, spent)
    if found and found[0].left >= 0:
        return found[0]
    *before, last = spent
    if not found:
        raise _wrong_kind(total, last)
    usable = {each.currency for each in found}
    left = next(each for each in accounts(total, before) if each.currency in usable)
    price = next(each.spent for each in found if each.currency == left.currency) - left.spent
    raise GuaranteeError(
        "privacy budget",
        expected=f"a release that costs at most what is left, {shown_down(left.left)}",
        given=Plain(f"one that costs {shown(price)}"),
    )


def cost(spent: Guarantee, total: Guarantee) -> Fraction:
    """What a release takes out of a total that is kept in one account, that of the total's own currency.

    >>> cost(PureDP("0.1"), PureDP(1)), cost(PureDP("0.1"), ZCDP(1))
    (Fraction(1, 10), Fraction(1, 200))
    """
    _require_same_unit(spent, total)
    price = _COST[total.currency](spent)
    if price is None:
        raise _wrong_kind(total, spent)
    return price


def remaining(total: Guarantee, spent: Sequence[Guarantee]) -> Fraction:
    """What is left of a total after some releases, which must not overspend it, in the account that holds them.

    >>> remaining(PureDP(1), [PureDP("0.1")] * 3)
    Fraction(7, 10)
    """
    for number in range(len(spent)):
        account_of(total, spent[: number + 1])
    return account_of(total, spent).left


def _require_same_unit(spent: Guarantee, total: Guarantee) -> None:
    if spent.unit != total.unit:
        raise GuaranteeError("release", expected=f"the unit of the total, {total.unit}", given=Plain(spent.unit))
    if "classic" in (spent.calibration, total.calibration):
        raise GuaranteeError("calibration", expected="exact or zcdp (the classic constant has no exact accounting)")


def _wrong_kind(total: Guarantee, spent: Guarantee) -> GuaranteeError:
    expected = (
        "a pure guarantee, as the total is pure"
        if isinstance(total, PureDP)
        else "a pure guarantee or calibration exact, as the first release under this total decided"
    )
    return GuaranteeError("release", expected=expected, given=Plain(str(spent)))


def _limits(total: Guarantee, spent: Sequence[Guarantee]) -> dict[Currency, Fraction]:
    """How much of each currency implies the total; accounts that are equally full are shown in this order."""
    if isinstance(total, PureDP):
        return {"epsilon": total.epsilon}
    if isinstance(total, ZCDP):
        return {"rho": total.rho}
    decisive = spent[0] if spent and not isinstance(spent[0], PureDP) else total
    if decisive.currency == "mu^2":
        return {"mu^2": total.mu_squared, "epsilon": total.epsilon}
    return {"rho": total.rho, "epsilon": total.epsilon}


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


_COST: Final[dict[Currency, Callable[[Guarantee], Fraction | None]]] = {
    "epsilon": _epsilon,
    "rho": _rho,
    "mu^2": _mu_squared,
}
