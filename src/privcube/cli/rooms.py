"""What still fits under the total of a ledger, in words."""

from __future__ import annotations

from privcube.model.amounts import shown, shown_down
from privcube.model.privacy.composition import Spending, room
from privcube.model.privacy.guarantee import ApproxDP


def room_left(spending: Spending) -> dict[str, str]:
    """Under a total in (epsilon, delta), the releases that still fit; other totals say it by themselves.

    >>> from privcube.model.privacy.guarantee import PureDP
    >>> total = ApproxDP(1, "1e-6", calibration="exact")
    >>> print(room_left(Spending.of(total, [total.with_amount("0.5")]))["room"])
    a release of up to epsilon 0.841 at delta 0.000001 (Gaussian noise at its exact price: mu^2 adds up)
    >>> print(room_left(Spending.of(total, [PureDP("0.5")]))["room"])
    pure releases of epsilon 0.5 in all (all releases are pure so far: epsilon adds up)
    """
    if not isinstance(spending.total, ApproxDP):
        return {}
    found = []
    largest = room(spending)
    if largest is not None:
        exact = largest.calibration == "exact"
        how = "Gaussian noise at its exact price: mu^2 adds up" if exact else "through zCDP: rho adds up"
        found.append(f"a release of up to epsilon {shown(largest.epsilon)} at delta {shown(largest.delta)} ({how})")
    for account in spending.accounts:
        if account.currency == "epsilon" and account.left and spending.sums is not None:
            how = "all releases are pure so far: epsilon adds up"
            found.append(f"pure releases of epsilon {shown_down(account.left)} in all ({how})")
    return {"room": "; or ".join(found) or "none: the total is spent"}
