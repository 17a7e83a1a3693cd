"""The explicit strategy for Gaussian noise: the optimum over all matrices, with a proof of it. Zone: PUBLIC.

For a workload with W = Q'Q, and X = S'S with columns of S of length 1 at most, the total variance over that of one
row's noise is trace(W X^-1). It is convex in X, and so is diag(X) <= 1. With multipliers v > 0 for the latter,
  trace(W X^-1) + v . (diag(X) - 1)  is least for  X(v) = V^(-1/2) (V^(1/2) W V^(1/2))^(1/2) V^(-1/2),  V = diag(v),
where it is 2 T(v) - sum v with T the trace of the root in the middle. So for every v
- no strategy has less than the greatest 2 sqrt(t) T - t sum v, T(v)^2 / sum v: a lower bound;
- X(v) divided by its largest diagonal entry m is allowed and has trace(W X^-1) = m T(v): an upper bound.
They meet where diag(X(v)) = 1, and they are compared at every step: the gap is a proof of how good the result is.

The step is v_i <- v_i x_i^(5/2), x = diag(X(v)) after rescaling v. Since T is concave and homogeneous of degree 1/2
in v, x is its gradient (twice), and the derivative -L of log x by log v has L >= 0 entry by entry (the divided
differences of the operator monotone -1/sqrt are positive semidefinite) with rows that sum to 1/2. By Perron and
Frobenius its eigenvalues lie in (0, 1/2], so that near the optimum any power below 4 contracts; 1 is the iteration of
Denisov et al. (2022), 5/2 takes less than half its steps. The problem is that of Yuan et al. (2016), "Convex
optimization for linear query processing", and of McKenna et al. (2018).

See THEORY section 12.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from privcube.algebra.lattice import Floats

_POWER: Final = 2.5
_MOST_STEPS: Final = 400
_STALE: Final = 40  # steps without half the gap: rounding lets it shrink no further
_FLOOR: Final = 1e-10  # of the mean diagonal of W: added where W has directions that nothing asks for
_SINGULAR: Final = 1e-13


def gaussian_optimum(gram: Floats, gap: float) -> tuple[Floats, float]:
    """S, upper triangular with columns of length 1 at most, and a lower bound on trace(W X^-1) over all strategies.

    The two differ by `gap` relative, or by what rounding leaves. Where W is singular a little is added to its
    diagonal, and S determines all cells, some of them barely.

    >>> gram = np.array([[3.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 3.0]])  # all ranges of three cells
    >>> best, bound = gaussian_optimum(gram, 1e-9)
    >>> np.trace(gram @ np.linalg.inv(best.T @ best)).round(6).tolist(), round(bound, 6)
    (8.739388, 8.739388)
    """
    values = np.linalg.eigvalsh(gram)
    if values[0] < values[-1] * _SINGULAR * len(gram):
        gram = gram + _FLOOR * np.mean(np.diag(gram)) * np.eye(len(gram))
    v = np.sqrt(np.diag(gram))
    lower, upper = 0.0, np.inf
    halved, left = 0, np.inf
    for step in range(_MOST_STEPS):
        root = np.sqrt(v)
        values, vectors = np.linalg.eigh(gram * np.outer(root, root))
        roots = np.sqrt(np.maximum(values, 0.0))
        total = float(roots.sum())
        diagonal = (vectors**2 @ roots) / v
        lower = max(lower, total**2 / float(v.sum()))
        if diagonal.max() * total < upper:
            upper = float(diagonal.max()) * total
            best = np.sqrt(roots)[:, None] * vectors.T / root / np.sqrt(diagonal.max())
        if upper - lower < left / 2:
            halved, left = step, upper - lower
        if upper <= lower * (1 + gap) or step - halved > _STALE:
            break
        scale = total / float(v.sum())  # X(t v) = X(v) / sqrt(t), and t = scale^2 makes sum v = T
        v = v * scale**2 * (diagonal / scale) ** _POWER
    triangle = np.asarray(np.linalg.qr(best, mode="r"))
    signs = np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return triangle * signs[:, None], lower
