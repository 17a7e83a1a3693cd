"""Composition: what several releases cost together, as exact fractions. Zone: PUBLIC.

Formal guarantee. Releases on the same data, each under its own guarantee for the same unit and neighbors, satisfy
- epsilon_1 + ... + epsilon_n, if all are pure;
- rho_1 + ... + rho_n in zCDP, where a pure epsilon counts as epsilon^2 / 2 (Bun and Steinke 2016, proposition 1.4);
- (epsilon, delta), if the sum of the rho is at most the largest rho that implies it. An approximate guarantee counts as
  the rho it was accounted through.
Fractions are added without rounding; costs shown to people are rounded up.

See THEORY section 1.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from privcube.errors import GuaranteeError, Plain
from privcube.model.amounts import shown, shown_down
from privcube.model.privacy.guarantee import ApproxDP, Guarantee, PureDP


def cost(spent: Guarantee, total: Guarantee) -> Fraction:
    """What a release takes out of a total, in the total's own currency: epsilon if the total is pure, else rho.

    >>> from privcube.model.privacy.guarantee import ZCDP
    >>> cost(PureDP("0.1"), PureDP(1)), cost(PureDP("0.1"), ZCDP(1))
    (Fraction(1, 10), Fraction(1, 200))
    """
    if spent.unit != total.unit:
        raise GuaranteeError("release", expected=f"the unit of the total, {total.unit}", given=Plain(spent.unit))
    for guarantee in (spent, total):
        if guarantee.calibration == "classic":
            raise GuaranteeError("calibration", expected="exact or zcdp (the classic constant has no exact accounting)")
    if isinstance(total, PureDP):
        if not isinstance(spent, PureDP):
            raise GuaranteeError("release", expected="a pure guarantee, as the total is pure", given=Plain(str(spent)))
        return spent.epsilon
    return _rho(spent)


def _rho(spent: Guarantee) -> Fraction:
    """What a release costs in zCDP: normal noise of mu, rounded or not, is mu^2/2-zCDP."""
    if isinstance(spent, PureDP):
        return spent.epsilon**2 / 2
    if isinstance(spent, ApproxDP) and spent.calibration == "exact":
        return spent.mu_squared / 2
    return spent.rho


def remaining(total: Guarantee, spent: Iterable[Guarantee]) -> Fraction:
    """What is left of a total after some releases, which must not overspend it.

    >>> remaining(PureDP(1), [PureDP("0.1")] * 3)
    Fraction(7, 10)
    """
    left = total.capacity
    for release in spent:
        price = cost(release, total)
        if price > left:
            raise GuaranteeError(
                "privacy budget",
                expected=f"a release that costs at most what is left, {shown_down(left)}",
                given=Plain(f"one that costs {shown(price)}"),
            )
        left -= price
    return left
