"""Bundles: groups noised together with max-norm noise, and the budgets that suit them (THEORY section 3). Zone: PUBLIC.

A row of group g in a bundle with share e of the budget has variance K_g / e^2, K_g = 2 (m+1)(m+2) / ((n_g+1)(n_g+2))
for m rows in a slice, n_g of them its own. So budgets over bundles are the closed form of single groups, with the sum
of c_g K_g over a bundle in place of s_r; and steps 2 and 3 alternate as ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from privcube.accuracy.structure import Structure
from privcube.algebra.budgets import laplace_budgets
from privcube.algebra.lattice import Floats, Integers
from privcube.errors import PlanError
from privcube.model.groups import group_rows, product_groups
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import PureDP
from privcube.model.sensitivity import bundle_factors
from privcube.planning.steps import DENOMINATOR, whole_shares

_MOST_ROUNDS: Final = 200
_LEAST_GAIN: Final = 1e-9


def with_bundles(plan: Plan, bundles: Sequence[Sequence[int]]) -> Plan:
    """The same groups in bundles, with budgets and recovery iterated; the plan must be pure with optimal recovery."""
    if not isinstance(plan.guarantee, PureDP) or plan.sources is not None:
        raise PlanError("bundles", expected="a pure guarantee and optimal recovery")
    structure = Structure.of(plan.workload, plan.frame, product_groups(plan.groups))
    shares, variances = bundle_shares(structure, plan.guarantee, bundles)
    return replace(
        plan,
        bundles=tuple(tuple(bundle) for bundle in bundles),
        shares=tuple(shares.tolist()),
        denominator=DENOMINATOR,
        table_variances=tuple(structure.table_variances(variances).tolist()),
    )


def bundle_shares(structure: Structure, guarantee: PureDP, bundles: Sequence[Sequence[int]]) -> tuple[Integers, Floats]:
    """The shares of bundles of all groups of a structure, steps 2 and 3 iterated, and the groups' noise variances."""
    number = np.zeros(len(structure.groups), dtype=np.int64)
    factor = np.ones(len(structure.groups))
    for at, bundle in enumerate(bundles):
        number[list(bundle)] = at
        together = bundle_factors(structure.frame, [structure.groups[group] for group in bundle])
        factor[list(bundle)] = [float(each) for each in together]
    unit = guarantee.rows_changed / float(guarantee.epsilon)
    shares = best = whole_shares(np.ones(len(bundles)))
    error = np.inf
    for _ in range(_MOST_ROUNDS):
        variances = _variances(unit, shares, number, factor)
        tried = float(np.sum(structure.weights * structure.cells * structure.table_variances(variances)))
        if not tried < error * (1 - _LEAST_GAIN):
            break
        error, best = tried, shares
        coefficients = structure.group_coefficients(variances) * factor
        sums = np.bincount(number, coefficients, minlength=len(bundles)).astype(np.float64)
        shares = whole_shares(laplace_budgets(sums, np.ones(len(bundles))))
    return best, _variances(unit, best, number, factor)


def bundles_by_weight(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """The best bundles of groups next to each other in weight, by dynamic programming.

    Groups that the workload needs equally and that have equally many rows stay together; runs of such classes are
    merged so that the sum over bundles of (sum of c_g K_g)^(1/3), the cube root of the predicted error, is least.
    """
    structure = Structure.of(plan.workload, plan.frame, product_groups(plan.groups))
    weights = structure.group_coefficients(np.ones(len(plan.groups)))
    rows = np.array([group_rows(plan.frame, group) for group in plan.groups], dtype=np.float64)
    classes: defaultdict[tuple[float, float], list[int]] = defaultdict(list)
    for group, (weight, count) in enumerate(zip(weights.tolist(), rows.tolist(), strict=True)):
        classes[float(f"{weight:.6e}"), count].append(group)
    ordered = [classes[key] for key in sorted(classes)]
    # A bundle from class i to class j has m rows and c K = 2 (m+1)(m+2) sum of c_g / ((n_g+1)(n_g+2)).
    part = [float(np.sum(weights[c] / ((rows[c] + 1) * (rows[c] + 2)))) for c in ordered]
    total = np.concatenate([[0.0], np.cumsum(part)])
    count = np.concatenate([[0.0], np.cumsum([rows[c].sum() for c in ordered])])
    best, cut = [0.0], [0]
    for stop in range(1, len(ordered) + 1):
        m = count[stop] - count[:stop]
        cost = np.array(best) + np.cbrt(2 * (m + 1) * (m + 2) * (total[stop] - total[:stop]))
        if len(ordered[stop - 1]) == 1:  # a class of one group by itself is Laplace noise
            cost[-1] = best[-1] + np.cbrt(2 * weights[ordered[stop - 1][0]])
        cut.append(int(np.argmin(cost)))
        best.append(float(cost.min()))
    bundles: list[tuple[int, ...]] = []
    stop = len(ordered)
    while stop:
        bundles.append(tuple(group for each in ordered[cut[stop] : stop] for group in each))
        stop = cut[stop]
    return tuple(reversed(bundles))


def _variances(unit: float, shares: Integers, number: Integers, factor: Floats) -> Floats:
    return np.asarray(2 * factor * (unit * DENOMINATOR / shares[number]) ** 2)
