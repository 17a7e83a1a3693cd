"""Steps 2 and 3 of the paper for any groups and bundles: budgets, recovery, and both in turn. Zone: PUBLIC."""

from __future__ import annotations

from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.errors import PlanError

DENOMINATOR: Final = 2**48


def whole_shares(shares: Floats) -> Integers:
    """Shares of one budget as whole numbers that sum to DENOMINATOR; every group keeps at least one.

    >>> whole_shares(np.array([1.0, 1.0, 2.0])).tolist() == [DENOMINATOR // 4, DENOMINATOR // 4, DENOMINATOR // 2]
    True
    """
    if not np.all(np.isfinite(shares)) or np.any(shares < 0) or not np.any(shares > 0):
        raise PlanError("budgets", expected="finite shares, at least one above 0", given=shares.tolist()[:4])
    wanted = shares / np.sum(shares) * (DENOMINATOR - len(shares))
    whole = 1 + np.floor(wanted).astype(np.int64)
    rest = DENOMINATOR - int(whole.sum())
    if rest < 0:  # float rounding of the sum: take it back from the largest
        whole[np.argmax(whole)] += rest
    else:
        whole += rest // len(whole)
        whole[np.argsort(-shares, kind="stable")[: rest % len(whole)]] += 1
    return whole
