"""Optimal noise budgets (step 2, section 3.1) for explicit matrices. Zone: PUBLIC.

Row i of S is answered with noise of variance 2/eps_i^2 (Laplace) or 1/eps_i^2 (Gaussian, times the constant of the
mechanism). If S has the grouping property, the optimum has a closed form (`privcube.algebra.budgets`); otherwise it
solves the convex program (1)-(3) of the paper, as a cone program:
  Laplace:  minimize sum b_i t_i  subject to  t_i eps_i^2 >= 1 (a power cone)  and  |S|' eps <= 1;
  Gaussian: minimize sum b_i t_i  subject to  t_i u_i >= 1  and  (S o S)' u <= 1, with u_i = eps_i^2.

See THEORY sections 1.2 and 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from privcube.algebra.budgets import gaussian_budgets, laplace_budgets
from privcube.algebra.lattice import Floats
from privcube.algebra.sparse import as_csr, scipy_sparse
from privcube.errors import Plain, PlanError
from privcube.extras import load
from privcube.linear.grouping import grouping
from privcube.linear.recovery import optimal_recovery, predicted_variances

Noise = Literal["laplace", "gaussian"]
Method = Literal["auto", "grouping", "convex"]

_MOST_ROUNDS: Final = 200  # of alternating steps 2 and 3: a safeguard against slow convergence
_LEAST_GAIN: Final = 1e-9  # relative; a round that gains less is the last


def row_coefficients(recovery: Any, weights: Any = None) -> Floats:
    """b_i = 2 sum_j a_j R_ji^2, the coefficient of 1/eps_i^2 in the weighted variance."""
    matrix = as_csr(recovery)
    per_query = np.ones(matrix.shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    if per_query.shape != (matrix.shape[0],) or not np.all(per_query >= 0):
        raise PlanError("weights", expected=f"{matrix.shape[0]} nonnegative numbers, one per query")
    return np.array(2 * (matrix.multiply(matrix).T @ per_query))


def row_variances(budgets: Floats, noise: Noise = "laplace") -> Floats:
    """The noise variance of every row, 2/eps_i^2 or 1/eps_i^2; infinite where the budget is 0."""
    with np.errstate(divide="ignore"):
        return np.asarray((2 if noise == "laplace" else 1) / np.asarray(budgets, dtype=np.float64) ** 2)


def optimal_budgets(
    strategy: Any,
    recovery: Any,
    *,
    epsilon: float = 1.0,
    weights: Any = None,
    noise: Noise = "laplace",
    method: Method = "auto",
) -> Floats:
    """The eps_i of every row of S that minimize the weighted variance of R (S x + noise).

    With "auto", the closed form is used if S is groupable and the closed form is optimal (Theorem 3.4 and `_alike`),
    and the convex program otherwise.

    >>> Q = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    >>> optimal_budgets(Q, np.eye(6)).round(4).tolist()
    [0.4425, 0.4425, 0.5575, 0.5575, 0.5575, 0.5575]
    """
    if not epsilon > 0:
        raise PlanError("epsilon", expected="a number above 0", given=epsilon)
    if noise not in ("laplace", "gaussian"):
        raise PlanError("noise", expected="a known kind", given=noise, available=["laplace", "gaussian"])
    matrix, coefficients = as_csr(strategy), row_coefficients(recovery, weights)
    if len(coefficients) != matrix.shape[0]:
        raise PlanError("recovery", expected=f"{matrix.shape[0]} columns, one per row of S", given=len(coefficients))
    coefficients[np.diff(matrix.indptr) == 0] = 0.0  # a row of zeros costs nothing and measures nothing
    if not coefficients.any():
        raise PlanError("recovery", expected="a matrix that uses at least one row of S", given=Plain("all zeros"))
    found = None if method == "convex" else grouping(matrix)
    if found is not None and method == "auto" and not _alike(matrix, coefficients, found.group_of):
        found = None
    if found is None and method == "grouping":
        raise PlanError(
            "strategy", expected="the grouping property", given=Plain("rows that cannot be grouped greedily")
        )
    if found is None:
        return epsilon * _convex(matrix, coefficients, noise)
    sums = np.bincount(found.group_of, coefficients, minlength=len(found.magnitudes)).astype(np.float64)
    closed_form = laplace_budgets if noise == "laplace" else gaussian_budgets
    return closed_form(sums, found.magnitudes, epsilon)[found.group_of]


@dataclass(frozen=True)
class Optimized:
    """Budgets, recovery and variances after steps 2 and 3."""

    budgets: Floats
    recovery: Floats
    variances: Floats  # per query


def optimize(
    workload: Any,
    strategy: Any,
    *,
    epsilon: float = 1.0,
    weights: Any = None,
    noise: Noise = "laplace",
    rounds: int = _MOST_ROUNDS,
) -> Optimized:
    """Alternate steps 2 and 3, starting from uniform noise, until the weighted variance stops falling."""
    matrix = as_csr(strategy)
    per_query = np.ones(as_csr(workload).shape[0]) if weights is None else np.asarray(weights, dtype=np.float64)
    best: Optimized | None = None
    recovery = optimal_recovery(workload, matrix, np.ones(matrix.shape[0]))
    for _ in range(max(1, rounds)):
        budgets = optimal_budgets(matrix, recovery, epsilon=epsilon, weights=weights, noise=noise)
        used = np.maximum(budgets, 1e-6 * budgets.max())  # so that a row without budget may regain some
        used *= epsilon / _cost(matrix, used, noise)
        recovery = optimal_recovery(workload, matrix, row_variances(used, noise))
        tried = Optimized(used, recovery, predicted_variances(recovery, row_variances(used, noise)))
        gain = np.inf if best is None else float(per_query @ (best.variances - tried.variances))
        if gain > 0:
            best = tried
        if gain <= _LEAST_GAIN * float(per_query @ tried.variances):
            break
    assert best is not None
    return best


def _cost(matrix: Any, budgets: Floats, noise: Noise) -> float:
    """The left side of (2) for the most expensive column."""
    if noise == "laplace":
        return float((abs(matrix).T @ budgets).max())
    return float(np.sqrt((matrix.multiply(matrix).T @ budgets**2).max()))


def _alike(matrix: Any, coefficients: Floats, group_of: Any) -> bool:
    """Whether the closed form is optimal: in every group, rows have equal coefficients and supports of equal size.

    The paper requires equal coefficients only (definition 3.2). Lemma 3.2 replaces the budgets of a group by their mean
    and must keep the mean cost over columns, in which a row counts once per entry; so it needs supports of equal size
    as well, and a sketch with uneven buckets is a counterexample without them.
    """
    used = coefficients > 0
    for quantity in (coefficients, np.diff(matrix.indptr).astype(np.float64)):
        largest = np.zeros(group_of.max() + 1)
        np.maximum.at(largest, group_of[used], quantity[used])
        if not np.allclose(quantity[used], largest[group_of[used]], rtol=1e-9, atol=0):
            return False
    return True


def _convex(matrix: Any, coefficients: Floats, noise: Noise) -> Floats:
    """Solve the convex program for a budget of 1; the solution is scaled to meet the tightest column exactly."""
    clarabel = load("clarabel", extra="linear", purpose="budgets for a strategy that cannot be grouped")
    sparse = scipy_sparse()
    used = np.flatnonzero(coefficients > 0)
    columns = abs(matrix[used]) if noise == "laplace" else matrix[used].multiply(matrix[used])
    distinct = np.unique(columns.toarray().T, axis=0)
    distinct = distinct[distinct.any(axis=1)]
    count = len(used)
    scale = coefficients[used] / coefficients[used].sum()
    # Variables: budgets, then t. Rows of A: distinct' budgets <= 1, then (t_i, budget_i, 1) in a cone for every i.
    limits = sparse.hstack([sparse.csr_array(distinct), sparse.csr_array((len(distinct), count))])
    place = np.arange(count)
    cone_rows = np.concatenate([3 * place, 3 * place + 1])
    cone_columns = np.concatenate([count + place, place])
    cones = sparse.csr_array((-np.ones(2 * count), (cone_rows, cone_columns)), shape=(3 * count, 2 * count))
    bound = np.concatenate([np.ones(len(distinct)), np.tile([0.0, 0.0, 1.0], count)])
    power = 1 / 3 if noise == "laplace" else 1 / 2
    kinds = [clarabel.NonnegativeConeT(len(distinct))] + [clarabel.PowerConeT(power)] * count
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = 1e-10
    objective = np.concatenate([np.zeros(count), scale])
    empty = sparse.csc_array((2 * count, 2 * count))
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(empty), objective, sparse.csc_matrix(sparse.vstack([limits, cones])), bound, kinds, settings
    )
    solution = solver.solve()
    if str(solution.status) not in ("Solved", "AlmostSolved"):
        raise PlanError("budgets", expected="a solution of the convex program", given=Plain(str(solution.status)))
    found = np.maximum(np.array(solution.x)[:count], 0.0)
    found = np.sqrt(found) if noise == "gaussian" else found
    budgets = np.zeros(len(coefficients))
    budgets[used] = found
    return budgets / _cost(matrix, budgets, noise)
