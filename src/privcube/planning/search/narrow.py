"""Narrow noise: plans by the variance that is drawn, not by that of continuous noise. Zone: PUBLIC.

Plans predict with the variance of continuous noise. The noise drawn is whole numbers, and at a large epsilon, where it
is mostly 0, its variance falls much faster: for discrete Laplace noise of scale b it is 1 / (2 sinh(1 / (2b))^2), about
2 e^(-1/b), in place of 2 b^2. Rounded noise, on sections and in Gram bundles, has 1/12 more than predicted instead.
So where noise may be narrow
- plans are compared by the variance drawn (`judge`);
- a plan on sections is tried with max-norm noise as well (`off_sections`): 1-way tables of Adult's eight attributes at
  epsilon 10 have a total variance of 34.8 with it, 40.9 on sections;
- the shares of single groups minimize the error as drawn (`with_drawn_shares`). Recovery weighs answers by the
  variances of continuous noise, so the error is sum_g c_g u_g, with the c_g of that recovery and u_g as drawn. Given c,
  it is convex in the shares, and the best ones have equal slopes c_g u_g'. Then c is worked out again.
More effort is never worse only if plans are compared after all of this (`narrowed`).
Shares of bundles stay those for continuous noise: in none of the plans tried did others gain more than 0.1 %.

See THEORY section 11.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from privcube.accuracy.matrix_structure import structure_of
from privcube.accuracy.predictor import drawn_table_variances
from privcube.algebra.lattice import Floats
from privcube.errors import PlanError
from privcube.model.groups import product_groups
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP
from privcube.planning.steps import DENOMINATOR, plan_of, whole_shares
from privcube.strategies.proposal import Proposal

_NARROW: Final = 2  # epsilon per row changed; continuous and whole-number variances differ by 1 % at noise of scale 3
_MOST_GROUPS: Final = 200  # whose shares are adapted: more have noise that is not narrow
_ROUNDS: Final = 3  # of adapting shares and recovery in turn
_SLOPES: Final = 64  # that are tried at once,
_ZOOMS: Final = 4  # ever closer to the one that spends the budget
_HALVINGS: Final = 40  # of the interval that a share lies in


def judge(guarantee: Guarantee) -> Callable[[Plan], float]:
    """The error that plans are compared by: as drawn where noise is narrow, else as predicted."""
    return drawn_error if is_narrow(guarantee) else _predicted_error


def is_narrow(guarantee: Guarantee) -> bool:
    """Whether whole-number noise may be mostly 0, and hence below the prediction, in groups with much budget."""
    return isinstance(guarantee, PureDP) and guarantee.epsilon >= _NARROW * guarantee.rows_changed


def drawn_error(made: Plan) -> float:
    """The sum of all cell variances as drawn, each times the weight of its table."""
    weights = np.array(made.workload.weights) * np.array(made.workload.sizes)
    return float(weights @ drawn_table_variances(made))


def _predicted_error(made: Plan) -> float:
    return made.weighted_variance


def off_sections(plan: Plan) -> Plan:
    """A plan with max-norm noise where it has noise on sections, without the totals that these measure."""
    bundles, laws = [], []
    for bundle, law in zip(plan.noised_together, plan.noise_laws, strict=True):
        bundles.append(product_groups(plan.groups[group] for group in bundle[1 if law == "section" else 0 :]))
        laws.append("max_norm" if law == "section" else law)
    proposal = Proposal.of_bundles(plan.frame, bundles, laws=laws)
    made = plan_of(plan.workload, plan.guarantee, replace(plan.options, budgets="iterated"), proposal)
    return replace(made, options=plan.options)


def narrowed(plan: Plan) -> Plan:
    """The best of a plan as it is, off sections, and with shares for the error as drawn, if noise is narrow."""
    if not is_narrow(plan.guarantee):
        return plan
    plans = [plan]
    if "section" in plan.noise_laws:
        with suppress(PlanError):
            plans.append(off_sections(plan))
    return min(map(with_drawn_shares, plans), key=drawn_error)


def with_drawn_shares(plan: Plan) -> Plan:
    """A plan of single groups with shares that minimize the error as drawn, if noise is narrow; else the same plan.

    >>> from privcube import PureDP, Schema, Workload, plan
    >>> workload = Workload.all_kway(Schema.from_sizes({"a": 300, "b": 2, "c": 50}), 1)
    >>> made = plan(workload, PureDP(8), "marginals")
    >>> [round(drawn_error(each), 1) for each in (made, with_drawn_shares(made))]
    [19.2, 18.7]
    """
    count = len(plan.groups)
    single = plan.bundles is None and plan.sources is None and 1 < count <= _MOST_GROUPS
    if (
        not single
        or not is_narrow(plan.guarantee)
        or plan.guarantee.neighbors != "add_remove"
        or set(plan.parts) != {1}
    ):
        return plan
    structure = structure_of(plan.workload, plan.frame, plan.groups)
    parts = np.array(plan.shares) / plan.denominator
    units = np.array([float(plan.noise_scale(group)) for group in range(count)]) * parts  # scale times share
    found = []
    for _ in range(_ROUNDS + 1):
        whole = whole_shares(parts) / DENOMINATOR
        needs = structure.group_coefficients(2 * (units / whole) ** 2)
        found.append((float(needs @ _discrete_laplace(whole / units)), whole))
        parts = _equal_slopes(needs, units)
    error, best = min(found, key=lambda each: each[0])
    if error >= found[0][0]:
        return plan
    return replace(
        plan,
        shares=tuple((best * DENOMINATOR).astype(np.int64).tolist()),
        denominator=DENOMINATOR,
        table_variances=tuple(structure.table_variances(2 * (units / best) ** 2).tolist()),
    )


def _discrete_laplace(inverse_scales: Floats) -> Floats:
    """The variances of discrete Laplace noise."""
    return np.asarray(1 / (2 * np.sinh(np.minimum(inverse_scales / 2, 300.0)) ** 2))


def _equal_slopes(needs: Floats, units: Floats) -> Floats:
    """The shares e, of sum 1, with the least sum of needs times variances of scale units / e.

    The slope of a variance is -cosh(h) / (2 sinh(h)^3) / unit with h = e / (2 unit); logarithms keep it in range.
    """
    start = np.log(needs / units)
    low, high = float(start.min()) - 2 / float(units.min()) - 9, float(start.max()) + 200
    parts, last = units[None], 0
    for _ in range(_ZOOMS):
        slopes = np.linspace(low, high, _SLOPES)[:, None]
        least, most = np.full((_SLOPES, len(units)), -40.0), np.zeros((_SLOPES, len(units)))  # logarithms of shares
        for _ in range(_HALVINGS):
            middle = (least + most) / 2
            steep = start + _log_slope(np.exp(middle) / (2 * units)) > slopes
            least, most = np.where(steep, middle, least), np.where(steep, most, middle)
        parts = np.exp(most)
        last = min(int(np.sum(parts.sum(axis=1) > 1)), _SLOPES - 1)  # the first slope that needs at most the budget
        low, high = float(slopes[max(last - 1, 0), 0]), float(slopes[last, 0])
    return np.asarray(parts[last] / parts[last].sum())


def _log_slope(half: Floats) -> Floats:
    """log(cosh(h) / (2 sinh(h)^3))."""
    decay = np.exp(-2 * half)
    return np.asarray(np.log1p(decay) - 3 * np.log(-np.expm1(-2 * half)) + np.log(2) - 2 * half)
