"""The explicit strategy for Laplace noise: p-identity matrices (McKenna et al. 2018, "HDMM", OPT_0). Zone: PUBLIC.

S = [I; Theta] with p rows Theta >= 0, every column divided by its L1 norm 1 + sum of Theta, so that one record moves
the answers by exactly 1 in L1. With d the norms and M = (I + Theta' Theta)^-1, the total variance of the workload Q,
in units of one row's noise, is
  f = trace(W (S'S)^-1) = sum of (W o d d') o M,   W = Q'Q.
By Woodbury M = I - Theta' (I + Theta Theta')^-1 Theta, so f and its gradient take 2 p products of a row with W, and
O(n p^2) for n cells:
  df/dTheta = -2 C (W o d d') M + 1 g',   C = (I + Theta Theta')^-1 Theta = Theta M,   g = 2 (rows of W o M) d.
f is not convex. L-BFGS minimizes it from several starts for a while, and from the best of them to the end. The starts
are fixed and time is counted in steps, so a workload and an effort always have the same strategy.

See THEORY section 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.algebra.lbfgs import lbfgs
from privcube.linear.gram_products import Products
from privcube.model.options import Effort

LARGEST: Final = 300.0  # entry of Theta: keeps f well conditioned where the optimum drops single cells of I
_STEPS: Final = (600, 1_500)  # at most, from every start and from the best one; chosen empirically
_SETTLED: Final = 1e-10  # of the sum of the diagonal of W: a step that lowers f by less is the last

# Seconds per effort, and prices of a step in seconds on a core of 2024: per entry of Theta, and per entry and row.
_SECONDS: Final[dict[Effort, float]] = {"fast": 1.35, "normal": 4.0, "thorough": 40.0}
_ENTRY: Final = 100e-9
_ENTRY_TIMES_ROW: Final = 0.9e-9


def p_identity(gram: Floats, starts: Sequence[Floats], effort: Effort = "fast") -> Floats:
    """The best S found for a Gram matrix Q'Q from the given starts for Theta; every column has L1 norm 1.

    >>> gram = np.array([[3.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 3.0]])  # all ranges of three cells
    >>> best = p_identity(gram, [np.ones((1, 3))])
    >>> np.trace(gram @ np.linalg.inv(best.T @ best)).round(3).tolist(), np.abs(best).sum(axis=0).round(9).tolist()
    (10.0, [1.0, 1.0, 1.0])
    """
    return best_p_identity(lambda rows: rows @ gram, np.diag(gram), starts, effort)


def best_p_identity(products: Products, diagonal: Floats, starts: Sequence[Floats], effort: Effort) -> Floats:
    """The same for a W that need not be formed: `products` maps rows to rows times W, `diagonal` is that of W.

    Half of the time that the effort allows goes into the same number of steps from every start, and half into the best
    of them. A single start with rows has all of it.
    """
    mean = float(np.mean(diagonal))
    rowed = [start for start in starts if len(start)]

    def scaled(rows: Floats) -> Floats:
        return products(rows) / mean

    def steps(stage: int, tried: Sequence[Floats]) -> int:
        time = _SECONDS[effort] / (2 if len(rowed) > 1 else 1)
        price = sum(theta.size * (_ENTRY + _ENTRY_TIMES_ROW * len(theta)) for theta in tried)
        return min(_STEPS[stage], int(time / price)) if price else 0

    tried = [_minimized(scaled, diagonal / mean, start, steps(0, rowed)) for start in starts]
    _, theta = min(tried, key=lambda found: found[0])
    if len(rowed) > 1:
        _, theta = _minimized(scaled, diagonal / mean, theta, steps(1, [theta]))
    return np.asarray(np.vstack([np.eye(len(diagonal)), theta]) / (1 + theta.sum(axis=0)))


def objective(products: Products, diagonal: Floats, theta: Floats) -> tuple[float, Floats]:
    """f and its gradient in Theta."""
    norms = 1 + theta.sum(axis=0)
    solved = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T) @ theta  # C
    asked, met = products(theta * norms), products(solved * norms)  # Theta and C times diag(d) W
    met = met * norms
    own = diagonal * norms
    value = float(own @ norms - np.sum(theta * met))
    slope = 2 * (own - np.sum(asked * solved, axis=0))  # g, as M = I - Theta' C
    return value, -2 * (met - (met @ theta.T) @ solved) + slope


def _minimized(products: Products, diagonal: Floats, start: Floats, evaluations: int) -> tuple[float, Floats]:
    if evaluations < 1 or not len(start):
        return objective(products, diagonal, start)[0], start

    def flat(theta: Floats) -> tuple[float, Floats]:
        value, gradient = objective(products, diagonal, theta.reshape(start.shape))
        return value, gradient.ravel()

    found = lbfgs(flat, start.ravel(), evaluations, low=0.0, high=LARGEST, least_gain=_SETTLED * len(diagonal))
    theta = found.reshape(start.shape)
    return objective(products, diagonal, theta)[0], theta
