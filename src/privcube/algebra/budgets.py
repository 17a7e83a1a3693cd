"""Optimal noise budgets (step 2) in closed form: Lemma 3.2, Corollary 3.3 and Theorem 3.4 of the paper. Zone: PUBLIC.

Group r has disjoint rows of magnitude C_r, and s_r is the sum over its rows of b_i = 2 sum_j a_j R_ji^2.
  Laplace:  minimize sum_r s_r / eta_r^2 subject to sum_r C_r eta_r = epsilon:
            eta_r = epsilon (s_r / C_r)^(1/3) / sum_q (C_q^2 s_q)^(1/3),
            optimum (sum_q (C_q^2 s_q)^(1/3))^3 / epsilon^2.
  Gaussian: minimize sum_r s_r / eta_r^2 subject to sum_r C_r^2 eta_r^2 = epsilon^2:
            eta_r^2 = epsilon^2 (sqrt(s_r) / C_r) / sum_q C_q sqrt(s_q), optimum (sum_q C_q sqrt(s_q))^2 / epsilon^2
            (times half of 2 ln(2/delta), or of any other constant of the Gaussian mechanism).

See THEORY section 1.2.
"""

from __future__ import annotations

import numpy as np

from privcube.algebra.lattice import Floats


def laplace_budgets(coefficients: Floats, magnitudes: Floats, epsilon: float = 1.0) -> Floats:
    """The optimal eta_r for Laplace noise.

    >>> laplace_budgets(np.array([4.0, 8.0]), np.ones(2)).round(4).tolist()
    [0.4425, 0.5575]
    """
    shares = np.cbrt(coefficients / magnitudes)
    return epsilon * shares / np.sum(magnitudes * shares)


def laplace_optimum(coefficients: Floats, magnitudes: Floats, epsilon: float = 1.0) -> float:
    """The objective at the optimal budgets for Laplace noise (Corollary 3.3 for unequal C_r)."""
    return float(np.sum(np.cbrt(magnitudes**2 * coefficients)) ** 3 / epsilon**2)


def gaussian_budgets(coefficients: Floats, magnitudes: Floats, epsilon: float = 1.0) -> Floats:
    """The optimal eta_r for Gaussian noise of variance proportional to 1/eta_r^2."""
    shares = np.sqrt(coefficients) / magnitudes
    return epsilon * np.sqrt(shares / np.sum(magnitudes**2 * shares))


def gaussian_optimum(coefficients: Floats, magnitudes: Floats, epsilon: float = 1.0) -> float:
    """The objective at the optimal budgets for noise of variance 1/eta_r^2 (appendix A without 2 ln(2/delta))."""
    return float(np.sum(magnitudes * np.sqrt(coefficients)) ** 2 / epsilon**2)
