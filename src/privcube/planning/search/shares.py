"""Budgets of many plans at once: steps 2 and 3 in turn, on arrays of what their bundles say. Zone: PUBLIC.

See THEORY section 3.2.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats

UNDRAWABLE: Final = 1e6  # times the error: how a plan counts whose noise is too wide to be drawn
NEVER: Final = 1e-30  # stands for a precision of 0, to avoid division by 0


def optimal_shares(says: Floats, importance: Floats, shares: Floats, rounds: int) -> tuple[Floats, Floats, Floats]:
    """Alternate steps 2 and 3 for many plans at once; returns their errors, shares and precisions.

    `says` is plans x bundles x residuals. Given the recovery, the share of a bundle is proportional to the cube root of
    its coefficient e^4 sum_b W_b k_b / p_b^2 (`privcube.algebra.budgets`); the error never rises.
    """
    for _ in range(rounds):
        precision = np.maximum(np.matmul((shares**2)[:, None, :], says)[:, 0], NEVER)
        slope = np.matmul(says, (importance / precision**2)[..., None])[..., 0]
        shares = shares * np.cbrt(shares * slope)
        shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), NEVER)  # an empty plan keeps shares of 0
    precision = np.maximum(np.matmul((shares**2)[:, None, :], says)[:, 0], NEVER)
    return (importance / precision).sum(axis=1), shares, precision


def drawable_shares(
    says: Floats, importance: Floats, shares: Floats, least: Floats, rounds: int
) -> tuple[Floats, Floats, Floats]:
    """The same, where a plan with a bundle below its least share counts as far worse: its noise cannot be drawn."""
    errors, shares, precision = optimal_shares(says, importance, shares, rounds)
    errors[(shares < least).any(axis=1)] *= UNDRAWABLE
    return errors, shares, precision
