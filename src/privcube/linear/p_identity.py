"""The explicit strategy for Laplace noise: p-identity matrices (McKenna et al. 2018, "HDMM", OPT_0). Zone: PUBLIC.

S = [I; Theta] with p rows Theta >= 0, every column divided by its L1 norm 1 + sum of Theta, so that one record moves
the answers by exactly 1 in L1. With d the norms and M = (I + Theta' Theta)^-1, the total variance of the workload Q,
in units of one row's noise, is
  f = trace(W (S'S)^-1) = sum of (W o d d') o M,   W = Q'Q.
By Woodbury M = I - Theta' (I + Theta Theta')^-1 Theta, so f and its gradient cost O(n^2 p) for n cells:
  df/dTheta = -2 C (W o d d') M + 1 g',   C = (I + Theta Theta')^-1 Theta = Theta M,   g = 2 (rows of W o M) d.
f is not convex. L-BFGS minimizes it from several starts for a while, and from the best of them to the end. The starts
are fixed, so the same workload always has the same strategy.

See THEORY section 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from threadpoolctl import threadpool_limits

from privcube.algebra.lattice import Floats

LARGEST: Final = 300.0  # entry of Theta: keeps f well conditioned where the optimum drops single cells of I
_ITERATIONS: Final = (600, 1_500)  # at most, for every start and for the best one; chosen empirically
_WORK: Final = 2e9  # limit on n^2 p summed over iterations, for each of the two stages: about two seconds


def p_identity(gram: Floats, starts: Sequence[Floats]) -> Floats:
    """The best S found for a Gram matrix Q'Q from the given starts for Theta; every column has L1 norm 1.

    >>> gram = np.array([[3.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 3.0]])  # all ranges of three cells
    >>> best = p_identity(gram, [np.ones((1, 3))])
    >>> np.trace(gram @ np.linalg.inv(best.T @ best)).round(3).tolist(), np.abs(best).sum(axis=0).round(9).tolist()
    (10.0, [1.0, 1.0, 1.0])
    """
    scaled = gram / np.mean(np.diag(gram))
    size = len(gram) ** 2 * max(1, sum(map(len, starts)))
    tried = [_minimized(scaled, start, min(_ITERATIONS[0], int(_WORK / size))) for start in starts]
    _, theta = min(tried, key=lambda found: found[0])
    size = len(gram) ** 2 * max(1, len(theta))
    _, theta = _minimized(scaled, theta, min(_ITERATIONS[1], int(_WORK / size)))
    return np.asarray(np.vstack([np.eye(len(gram)), theta]) / (1 + theta.sum(axis=0)))


def objective(gram: Floats, theta: Floats) -> tuple[float, Floats]:
    """f and its gradient in Theta."""
    norms = 1 + theta.sum(axis=0)
    solved = np.linalg.solve(np.eye(len(theta)) + theta @ theta.T, theta)  # C
    asked, met = np.split((np.concatenate([theta, solved]) * norms) @ gram, 2)  # Theta and C times diag(d) W
    met = met * norms
    own = np.diag(gram) * norms
    value = float(own @ norms - np.sum(theta * met))
    slope = 2 * (own - np.sum(asked * solved, axis=0))  # g, as M = I - Theta' C
    return value, -2 * (met - (met @ theta.T) @ solved) + slope


def _minimized(gram: Floats, start: Floats, iterations: int) -> tuple[float, Floats]:
    value = objective(gram, start)[0]
    if iterations < 1 or not len(start):
        return value, start
    from scipy import optimize  # loaded here because only this strategy needs it

    def flat(theta: Floats) -> tuple[float, Floats]:
        value, gradient = objective(gram, theta.reshape(start.shape))
        return value, gradient.ravel()

    with threadpool_limits(1, "blas"):  # limits scipy's BLAS, which was just loaded
        found = optimize.minimize(
            flat,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=optimize.Bounds(0, LARGEST),
            options={"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 20, "ftol": 1e-10, "gtol": 0.0},
        )
    return min((value, start), (float(found.fun), found.x.reshape(start.shape)), key=lambda each: each[0])
