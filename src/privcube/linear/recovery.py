"""Optimal recovery (step 3, section 3.2) for explicit matrices: generalized least squares. Zone: PUBLIC.

R = Q (S' W S)^+ S' W with W = diag(1/variance). S may have fewer independent rows than columns, as long as every query
is a combination of rows of S; the error for a query that is not names its number.

See THEORY section 1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from privcube.algebra.lattice import Floats
from privcube.algebra.sparse import as_csr, as_dense, scipy_sparse
from privcube.errors import Plain, PlanError

_TOLERANCE: Final = 1e-8  # part of a query's length outside the row space of S that counts as rounding
_DENSE_ENTRIES: Final = 4_000_000  # entries of S (32 MB) up to which dense algebra is used


def optimal_recovery(workload: Any, strategy: Any, variances: Any) -> Floats:
    """The R with Q = R S of least variance.

    >>> Q = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> optimal_recovery(Q, Q, np.ones(3)).round(3).tolist()
    [[0.667, 0.333, 0.333], [0.333, 0.667, -0.333], [0.333, -0.333, 0.667]]
    """
    queries, rows = as_dense(workload), as_dense(strategy)
    noise = _checked_variances(variances, len(rows))
    _, singular, directions = np.linalg.svd(rows, full_matrices=False)
    basis = directions[singular > singular.max(initial=0.0) * max(rows.shape) * np.finfo(float).eps].T
    inside = queries @ basis
    _refuse_outside(queries - inside @ basis.T, queries)
    scaled = (rows @ basis) / np.sqrt(noise)[:, None]
    orthogonal, triangle = np.linalg.qr(scaled)
    diagonal = np.abs(np.diag(triangle))
    if diagonal.min(initial=np.inf) <= diagonal.max(initial=0.0) * np.finfo(float).eps:
        raise PlanError("strategy", expected="finite noise on enough rows to determine every query")
    return np.asarray(inside @ np.linalg.solve(triangle, orthogonal.T) / np.sqrt(noise))


def recovered(workload: Any, strategy: Any, variances: Any, answers: Any) -> Floats:
    """R z; where S is large, an iterative sparse solver avoids forming R.

    >>> Q = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    >>> recovered(Q, Q, np.ones(3), np.array([10.0, 4.0, 3.0])).round(3).tolist()
    [9.0, 5.0, 4.0]
    """
    queries, rows = as_csr(workload), as_csr(strategy)
    noise, noisy = _checked_variances(variances, rows.shape[0]), np.asarray(answers, dtype=np.float64)
    if noisy.shape != (rows.shape[0],):
        raise PlanError("answers", expected=f"one for each of the {rows.shape[0]} rows of S", given=noisy.shape)
    if rows.shape[0] * rows.shape[1] <= _DENSE_ENTRIES:
        return np.asarray(optimal_recovery(queries, rows, noise) @ noisy)
    from scipy.sparse import linalg as solvers

    scaled = scipy_sparse().diags_array(1 / np.sqrt(noise)) @ rows
    # A query that S determines is orthogonal to any vector orthogonal to the row space of S.
    probe = np.cos(np.arange(rows.shape[1]) * 2.399963)
    outside = probe - solvers.lsmr(scaled, scaled @ probe, atol=1e-13, btol=1e-13, maxiter=10_000)[0]
    _refuse_outside((queries @ outside)[:, None], queries.toarray() if queries.shape[0] == 1 else queries)
    estimate = solvers.lsmr(scaled, noisy / np.sqrt(noise), atol=1e-13, btol=1e-13, maxiter=10_000)[0]
    return np.asarray(queries @ estimate)


def predicted_variances(recovery: Any, variances: Any) -> Floats:
    """The variance of every query under a recovery R: the diagonal of R diag(v) R'."""
    matrix = as_csr(recovery)
    return np.asarray(matrix.multiply(matrix) @ _checked_variances(variances, matrix.shape[1]))


def _refuse_outside(outside: Floats, queries: Any) -> None:
    size = np.sqrt(np.asarray((queries * queries).sum(axis=1)).ravel())
    bad = np.flatnonzero(np.linalg.norm(outside, axis=1) > _TOLERANCE * np.maximum(size, 1))
    if len(bad):
        raise PlanError(
            "strategy",
            expected="rows that every query is a combination of",
            given=Plain(f"none for query {bad[0]}" + (f" and {len(bad) - 1} more" if len(bad) > 1 else "")),
        )


def _checked_variances(variances: Any, rows: int) -> Floats:
    noise = np.asarray(variances, dtype=np.float64)
    if noise.shape != (rows,) or not np.all(noise > 0):
        raise PlanError("variances", expected=f"{rows} numbers above 0, one per row of S", given=noise.shape)
    return noise
