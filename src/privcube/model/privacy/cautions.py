"""When a guarantee is hardly one, in words for custodians and readers. Zone: PUBLIC.

The limits are conventions, not theorems. At epsilon 10 an outcome may be 22,000 times as likely for one data set as for
its neighbor. A delta of 1/n allows one of n records to be published in the clear.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from privcube.model.amounts import shown
from privcube.model.privacy.guarantee import ZCDP, ApproxDP, Guarantee

_LARGE_EPSILON: Final = 10
_LARGE_DELTA: Final = Fraction(1, 1000)
_USUAL_DELTA: Final = Fraction(1, 10**6)  # at which the epsilon of zCDP is judged


def is_weak(guarantee: Guarantee) -> bool:
    """Whether epsilon is so large that the guarantee limits hardly anything.

    >>> from privcube.model.privacy.guarantee import PureDP
    >>> is_weak(PureDP(1)), is_weak(PureDP(11)), is_weak(ZCDP(1)), is_weak(ZCDP(3))
    (False, True, False, True)
    """
    epsilon = guarantee.epsilon(_USUAL_DELTA) if isinstance(guarantee, ZCDP) else guarantee.epsilon
    return epsilon > _LARGE_EPSILON


def cautions(guarantee: Guarantee, expected_records: int | None = None) -> list[str]:
    """What is weak about a guarantee, one sentence each; none if it is a usual one.

    >>> cautions(ApproxDP(1, "1e-4"), expected_records=5_000), cautions(ApproxDP(1, "1e-6"), expected_records=5_000)
    ([], [])
    >>> cautions(ApproxDP(1, "1e-4"), expected_records=50_000)
    ['Delta 0.0001 is above 1/50,000, one over the number of records: the guarantee would allow ...']
    """
    found = []
    if is_weak(guarantee):
        limit = f"above {_LARGE_EPSILON}"
        if isinstance(guarantee, ZCDP):
            amount = f"Rho {shown(guarantee.rho)} implies an epsilon {limit} at delta {shown(_USUAL_DELTA)}"
        else:
            amount = f"Epsilon {shown(guarantee.epsilon)} is {limit}"
        found.append(f"{amount}: the guarantee limits hardly anything that can be learned about a protected unit.")
    if isinstance(guarantee, ApproxDP):
        delta = guarantee.delta
        if expected_records is not None and delta * expected_records > 1:
            found.append(
                f"Delta {shown(delta)} is above 1/{expected_records:,}, one over the number of records: the guarantee "
                "would allow the record of somebody to be published as it is."
            )
        elif delta > _LARGE_DELTA:
            found.append(
                f"Delta {shown(delta)} is above {shown(_LARGE_DELTA)}: the guarantee would allow one in "
                f"{int(1 / delta):,} records to be published as it is. A usual delta is below 1 over the number of "
                "records."
            )
    return found
