"""The nearest consistent answers in L1, L2 or L-infinity (section 3.3). Zone: PUBLIC.

Q = C Q' with q' independent rows Q'. Any values are consistent for Q', so y = C u is consistent for Q for every u, and
the programs have q' variables instead of one per cell of the domain. By the triangle inequality the result is at most
twice as far from the truth as the input.

See THEORY section 5.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from privcube.algebra.lattice import Floats, Integers
from privcube.algebra.sparse import as_csr, as_dense, scipy_sparse
from privcube.errors import Plain, PlanError

NORMS: Final = (1, 2, np.inf)


def independent_rows(workload: Any) -> tuple[Integers, Floats]:
    """The indices of independent rows Q' that span all rows of Q, and the C with Q = C Q'.

    >>> rows, C = independent_rows(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> len(rows), C.shape
    (2, (3, 2))
    """
    from scipy import linalg

    queries = as_dense(workload)
    _, triangle, order = linalg.qr(queries.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int(np.sum(diagonal > diagonal.max(initial=0.0) * max(queries.shape) * np.finfo(float).eps))
    rows = np.sort(order[:rank])
    combination, *_ = np.linalg.lstsq(queries[rows].T, queries.T, rcond=None)
    return rows, combination.T


def consistent(workload: Any, answers: Any, norm: float = 2) -> Floats:
    """The consistent answers nearest to the given ones in a norm: 1, 2 or infinity.

    >>> Q = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> consistent(Q, np.array([1.0, 2.0, 6.0])).round(6).tolist()
    [2.0, 3.0, 5.0]
    >>> consistent(Q, np.array([1.0, 2.0, 6.0]), np.inf).round(6).tolist()
    [2.0, 3.0, 5.0]
    """
    _, combination = independent_rows(workload)
    noisy = np.asarray(answers, dtype=np.float64)
    if noisy.shape != (len(combination),):
        raise PlanError("answers", expected=f"{len(combination)} numbers, one per query", given=noisy.shape)
    return np.asarray(combination @ nearest(combination, noisy, norm))


def nearest(matrix: Any, target: Floats, norm: float) -> Floats:
    """The u that minimizes the norm of matrix @ u - target."""
    if norm not in NORMS:
        raise PlanError("norm", expected="1, 2 or infinity", given=norm)
    if norm == 2:
        solution, *_ = np.linalg.lstsq(as_dense(matrix), target, rcond=None)
        return np.asarray(solution)
    from scipy import optimize

    return (_least_sum if norm == 1 else _least_largest)(optimize, as_csr(matrix), target)


def _least_sum(optimize: Any, matrix: Any, target: Floats) -> Floats:
    """L1 by the dual program: maximize target'u subject to matrix'u = 0, |u| <= 1; its multipliers are the solution."""
    result = optimize.linprog(-target, A_eq=matrix.T, b_eq=np.zeros(matrix.shape[1]), bounds=(-1, 1), method="highs")
    if result.status == 0:
        found = -np.asarray(result.eqlin.marginals)
        distance = float(np.abs(matrix @ found - target).sum())
        if distance <= -result.fun + 1e-7 * max(1.0, float(np.abs(target).sum())):
            return found
    raise PlanError("consistency", expected="a solution of the linear program", given=Plain(result.message))


def _least_largest(optimize: Any, matrix: Any, target: Floats) -> Floats:
    """L-infinity: minimize t subject to -t <= matrix u - target <= t."""
    sparse = scipy_sparse()
    ones = sparse.csr_array(np.ones((matrix.shape[0], 1)))
    both = sparse.vstack([sparse.hstack([matrix, -ones]), sparse.hstack([-matrix, -ones])])
    cost = np.concatenate([np.zeros(matrix.shape[1]), [1.0]])
    bounds = [(None, None)] * matrix.shape[1] + [(0, None)]
    result = optimize.linprog(cost, A_ub=both, b_ub=np.concatenate([target, -target]), bounds=bounds, method="highs")
    if result.status != 0:
        raise PlanError("consistency", expected="a solution of the linear program", given=Plain(result.message))
    return np.asarray(result.x[:-1])
