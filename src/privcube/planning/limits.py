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
- Laplace noise has variance 2/epsilon^2 and columns of L1 length at most 1, hence also L2 length: twice the bound holds
  for independent noise on rows. It is not proved for max-norm noise, where groups share a budget; there it is a
  yardstick.

See THEORY section 12.
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
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import ZCDP, PureDP
from privcube.model.sensitivity import squared_l2_of_all
from privcube.model.workload import Workload
from privcube.planning.frames import asks_for_single_cells
from privcube.planning.minimax import largest_ratio_shares
from privcube.strategies import residual

LimitKind = Literal["optimum", "bound", "yardstick"]
SAYS: Final[dict[LimitKind, str]] = {
    "optimum": "No linear strategy with Gaussian noise does better: it is the proven optimum.",
    "bound": "No linear strategy with Gaussian noise does better; whether any reaches it is not known.",
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
    noise = 2 / guarantee.epsilon**2 if isinstance(guarantee, PureDP) else guarantee.unit_noise
    variance = least * float(noise) * guarantee.max_rows_per_person**2
    std_error = math.sqrt(variance / (workload_weight(plan.workload) if objective == "total" else 1.0))
    kind: LimitKind = "yardstick" if isinstance(guarantee, PureDP) else "optimum" if alike else "bound"
    return Limit(kind, std_error, own / std_error)


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
