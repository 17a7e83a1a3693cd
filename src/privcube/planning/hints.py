"""What another choice would gain, for people who look at a plan. Zone: PUBLIC."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

from privcube.errors import PlanError
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import ApproxDP, PureDP
from privcube.planning.planner import plan_as
from privcube.planning.trees import branchings

_DELTA: Final = "1e-6"  # a usual one
_WORTH_IT: Final = 0.25  # of the variance: half the standard error is worth a hint
_MOST_TABLES: Final = 2_000  # beyond which the other plan takes more than a second


def with_delta(made: Plan) -> Plan | None:
    """The plan at the same epsilon with a small delta as well, if it has at most half the standard error.

    >>> from privcube import Schema, Workload, plan
    >>> many = Workload.all_kway(Schema.from_sizes({f"a{i}": 2 for i in range(30)}), 2)
    >>> other = with_delta(plan(many, PureDP(1), "marginals"))
    >>> other is not None and other.mean_cell_variance < 0.25 * plan(many, PureDP(1), "marginals").mean_cell_variance
    True
    >>> with_delta(plan(Workload.all_kway(Schema.from_sizes({"sex": 2}), 1), PureDP(1)))
    """
    guarantee, workload = made.guarantee, made.workload
    if not isinstance(guarantee, PureDP) or len(workload) > _MOST_TABLES or branchings(workload):
        return None
    approximate = ApproxDP(
        guarantee.epsilon,
        _DELTA,
        neighbors=guarantee.neighbors,
        max_rows_per_person=guarantee.max_rows_per_person,
        row=guarantee.row,
    )
    with suppress(PlanError):
        options = replace(made.options, strategy="residual", budgets="optimal", recovery="optimal", objective="total")
        other = plan_as(workload, approximate, options)
        if other.mean_cell_variance < _WORTH_IT * made.mean_cell_variance:
            return other
    return None
