"""Lower bounds on the error of any plan of a kind, to compare a plan with. Zone: PUBLIC.

The limits assume that neighbors differ by one added or removed record. With S'S = X, columns of S of L2 length at most
1, equal noise on its rows, and least squares, the total variance is the noise variance times trace(W X^-1), where
W = Q'Q with the weights.
- Every X with diagonal at most 1 has trace X <= n, so trace(W X^-1) >= (sum of the roots of W's eigenvalues)^2 / n:
  the SVD bound of Li and Miklau (2013). Gaussian noise of variance 1/(2 rho) cannot do better. Over more than 1,024
  cells, with categories, the bound is that of the optimum by blocks (`privcube.linear.block_optimum`).
- A workload of tables of cells is symmetric in the cells, so X may be taken symmetric, and residuals reach the bound:
  (sum_b sqrt(k_b c_b))^2 (THEORY section 4). It is the optimum. The least largest variance is a convex program with
  a certificate (`privcube.planning.minimax`).
- Under a pure guarantee, additive noise on tables of cells has a bound by volume (`planning.bounds.volume_bound`,
  THEORY section 9): exact volumes for tables of single attributes, correlation matrices for all pairs of binary ones,
  else the least volume that any hull of this kind has. For the largest error it is applied to the mean over all cells,
  which is at most the largest.
- For ranges and padded levels there is only a yardstick. Laplace noise has variance 2/epsilon^2 and columns of L1
  length at most 1, hence also L2 length: twice the Gaussian bound holds for independent noise on rows, but it is not
  proved for max-norm noise, where groups share a budget.

See THEORY sections 9 and 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from privcube.accuracy.matrix_structure import MOST_CELLS, schema_of, workload_gram
from privcube.accuracy.structure import Structure
from privcube.algebra.budgets import gaussian_optimum
from privcube.algebra.lattice import Floats
from privcube.errors import PlanError
from privcube.linear.block_optimum import lower_bound
from privcube.model.frame import Frame
from privcube.model.groups import product_groups
from privcube.model.options import Objective
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import ZCDP, PureDP
from privcube.model.sensitivity import squared_l2_of_all
from privcube.model.workload import Workload
from privcube.planning.bounds.volume_bound import by_residuals, log_pairs_volume, of_single_attributes
from privcube.planning.frames import asks_for_single_cells
from privcube.planning.minimax import largest_ratio_shares
from privcube.strategies import residual

LimitKind = Literal["optimum", "bound", "additive", "yardstick"]
SAYS: Final[dict[LimitKind, str]] = {
    "optimum": "No linear strategy with Gaussian noise does better: it is the proven optimum.",
    "bound": "No linear strategy with Gaussian noise does better; whether any reaches it is not known.",
    "additive": "No additive noise on these tables does better, if its density changes as little as epsilon allows for "
    "any fraction of a record as well, as that of Laplace noise and of bundles does; whether any reaches it is not "
    "known. It limits predicted errors: whole-number noise can be a little below its prediction.",
    "yardstick": "This is twice the bound for Gaussian noise. Independent noise on rows does no better; for bundles, "
    "whose groups share one budget, that is not proved, so it is a yardstick rather than a limit.",
}


@dataclass(frozen=True)
class Limit:
    """A lower bound on the standard error of any plan of a kind, and the ratio of a plan to it."""

    kind: LimitKind
    std_error: float
    ratio: float


def limit_of(plan: Plan, own: float) -> Limit | None:
    """The limit for the objective of a plan with standard error `own`; None if none is known."""
    guarantee, objective = plan.guarantee, plan.options.objective
    if guarantee.neighbors != "add_remove":
        return None  # replacing a record leaves the total unchanged, so these bounds do not apply
    alike = asks_for_single_cells(plan.workload, Frame.unpadded(plan.workload))
    if alike:
        least = least_total_variance(plan.workload) if objective == "total" else least_largest_variance(plan.workload)
    elif objective == "total":
        try:
            small = schema_of(plan.workload).domain_size <= MOST_CELLS
            least = svd_bound(plan.workload) if small else lower_bound(plan.workload)
        except PlanError:
            return None
    else:
        return None
    pure = isinstance(guarantee, PureDP)
    kind: LimitKind = ("additive" if alike else "yardstick") if pure else "optimum" if alike else "bound"
    if isinstance(guarantee, PureDP):
        noise = 1 / guarantee.epsilon**2
        least = least_additive_variance(plan.workload, objective) if alike else 2 * least
    else:
        noise = guarantee.unit_noise
    variance = least * float(noise) * guarantee.max_rows_per_person**2
    std_error = math.sqrt(variance / (workload_weight(plan.workload) if objective == "total" else 1.0))
    return Limit(kind, std_error, own / std_error)


def least_additive_variance(workload: Workload, objective: Objective = "total") -> float:
    """A lower bound for pure, additive noise at epsilon 1: the weighted total variance, or the largest.

    >>> from privcube import Schema
    >>> binary = Workload.all_kway(Schema.from_sizes({f"a{i}": 2 for i in range(16)}), 2)
    >>> round(least_additive_variance(binary) / binary.cells, 2)
    30.46
    """
    if objective == "largest":
        even = Workload.exactly(workload.schema, list(workload))
        return least_additive_variance(even) / workload_weight(even)
    exact = of_single_attributes(workload)
    if exact is not None:
        return exact
    structure, moved = _residuals(workload)
    sizes = structure.frame.sizes
    levels = structure.index.level_vectors()
    dimensions = np.ones(len(levels))
    for axis, chain in enumerate(sizes):
        dimensions *= np.diff([0, *chain])[levels[:, axis]]
    coefficients = structure.group_coefficients(np.ones(len(structure.groups)))
    used = int(levels.any(axis=0).sum())
    pairs = (levels > 0).sum(axis=1).max() == 2 and len(levels) == 1 + used + used * (used - 1) // 2
    return by_residuals(
        coefficients, moved, dimensions, log_pairs_volume(used) if pairs and np.all(dimensions == 1) else -math.inf
    )


def least_total_variance(workload: Workload) -> float:
    """The least weighted total variance of tables of cells with Gaussian noise at rho = 1/2, reached by residuals.

    >>> from privcube import Schema
    >>> round(least_total_variance(Workload.all_kway(Schema.from_sizes({f"a{i}": 2 for i in range(16)}), 1)), 6)
    200.0
    """
    structure, moved = _residuals(workload)
    coefficients = structure.group_coefficients(np.ones(len(structure.groups)))
    return float(gaussian_optimum(coefficients, np.sqrt(moved)))


def least_largest_variance(workload: Workload) -> float:
    """The least largest cell variance of tables of cells with Gaussian noise at rho = 1/2."""
    structure, moved = _residuals(workload)
    shares, gap = largest_ratio_shares(structure, moved, np.ones(len(workload)))
    return float(np.max(structure.table_variances(moved / shares))) / (1 + gap)


def svd_bound(workload: Workload) -> float:
    """A lower bound on the weighted total variance of any small workload with Gaussian noise at rho = 1/2.

    >>> from privcube import Schema
    >>> round(2 * svd_bound(Workload.prefixes(Schema.from_sizes({"x": 64}), ["x"])), 4)
    532.7517
    """
    schema = schema_of(workload)
    if schema.domain_size > MOST_CELLS:
        raise PlanError("bound", expected=f"at most {MOST_CELLS:,} joint cells of the attributes in the workload")
    values = np.linalg.eigvalsh(workload_gram(schema, workload))
    return float(np.sqrt(np.maximum(values, 0.0)).sum() ** 2 / schema.domain_size)


def _residuals(workload: Workload) -> tuple[Structure, Floats]:
    unit = ZCDP("0.5")
    proposal = residual.propose(workload, unit, Frame.unpadded(workload))
    structure = Structure.of(workload, proposal.frame, product_groups(proposal.groups), proposal.index)
    return structure, squared_l2_of_all(unit, proposal.frame, structure.groups)


def workload_weight(workload: Workload) -> float:
    """The sum of the weights of all cells of all tables."""
    return math.fsum(weight * cells for weight, cells in zip(workload.weights, workload.sizes, strict=True))
