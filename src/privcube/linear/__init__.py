"""Arbitrary workloads Q and strategies S as numpy or scipy matrices (section 3 of the paper). Zone: PUBLIC.

grouping(S)                      the grouping property, found greedily (definition 3.1)
optimal_budgets(S, R)            step 2: in closed form where S is groupable, else the convex program (1)-(3)
optimal_recovery(Q, S, v)        step 3: generalized least squares; refuses a Q that S does not determine
optimize(Q, S)                   alternates steps 2 and 3 until the predicted error stops falling
predicted_variances(R, v)        the variance of every query
recovered(Q, S, v, z)            the answers themselves, also for large sparse S
consistent(Q, y, norm)           the nearest consistent answers in L1, L2 or L-infinity (section 3.3)
p_identity(W, starts)            step 1 for Laplace noise: HDMM's explicit strategy, W = Q'Q
gaussian_optimum(W, gap)         step 1 for Gaussian noise: the optimum and a lower bound that proves it
workload_matrix, strategy_matrix, identity, fourier, hierarchy, haar, sketch    matrices to start from
"""

from privcube.linear.budgets import Optimized, optimal_budgets, optimize, row_coefficients, row_variances
from privcube.linear.consistency import consistent, independent_rows
from privcube.linear.gaussian_optimum import gaussian_optimum
from privcube.linear.grouping import Grouping, grouping
from privcube.linear.matrices import (
    fourier,
    haar,
    hierarchy,
    identity,
    sketch,
    workload_matrix,
)
from privcube.linear.p_identity import p_identity
from privcube.linear.recovery import optimal_recovery, predicted_variances, recovered
from privcube.model.matrices.rows import real_columns, strategy_matrix

__all__ = [
    "Grouping",
    "Optimized",
    "consistent",
    "fourier",
    "gaussian_optimum",
    "grouping",
    "haar",
    "hierarchy",
    "identity",
    "independent_rows",
    "optimal_budgets",
    "optimal_recovery",
    "optimize",
    "p_identity",
    "predicted_variances",
    "real_columns",
    "recovered",
    "row_coefficients",
    "row_variances",
    "sketch",
    "strategy_matrix",
    "workload_matrix",
]
