"""From a workload and a guarantee to a plan: steps 1 to 3 of the paper's framework. Zone: PUBLIC.

1. propose: a strategy names groups to measure (`privcube.strategies`), or a search finds them (`planning.search`);
   "auto" tries all that may be best (`planning.candidates`);
2. budgets: every group, or bundle of groups, gets its share (`planning.steps`);
3. recover: least squares determines the tables and their errors (`privcube.accuracy`).
To minimize the largest error instead of the total, `planning.largest` repeats steps 1 to 3 with adapted weights.

What satisfies epsilon alone satisfies (epsilon, delta) for any delta. So under an exact (epsilon, delta) "auto" also
makes the best pure plan and takes it if its errors, as drawn, are less; the plan then states the pure guarantee.

See THEORY sections 1, 2.1 and 6.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import get_args

from threadpoolctl import ThreadpoolController

from privcube.accuracy.predictor import drawn_table_variances
from privcube.errors import PlanError
from privcube.model.options import Budgets, Effort, Objective, PlanOptions, Recovery, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee, PureDP, pure_instead
from privcube.model.workload import Entry, Table, Workload, canonical
from privcube.planning.bounds.behind import is_far_behind
from privcube.planning.candidates import least_total
from privcube.planning.largest import least_largest
from privcube.planning.search.narrow import drawn_error
from privcube.progress import Progress, silent


def plan(
    workload: Workload,
    guarantee: Guarantee,
    strategy: Strategy = "auto",
    *,
    budgets: Budgets = "optimal",
    recovery: Recovery = "optimal",
    effort: Effort = "fast",
    objective: Objective = "total",
    wanted: Mapping[Sequence[Entry], float] | None = None,
    progress: Progress = silent,
) -> Plan:
    """Decide what to measure and with how much noise, without seeing any data.

    The plan minimizes the weighted total of all variances or, with `objective="largest"`, the largest cell variance;
    with `wanted` standard errors for some tables, the largest ratio to these.

    >>> from privcube import PureDP, Schema, Workload
    >>> schema = Schema.from_sizes({"A": 2, "B": 2, "C": 2})
    >>> workload = Workload.tables(schema, [("A",), ("A", "B")])
    >>> [round(plan(workload, PureDP(1), "marginals", budgets=b, recovery=r).total_variance, 2)
    ...  for b, r in [("uniform", "direct"), ("optimal", "direct"), ("optimal", "optimal")]]
    [48.0, 46.17, 29.95]
    """
    options = PlanOptions(strategy=strategy, budgets=budgets, recovery=recovery, effort=effort, objective=objective)
    return plan_as(workload, guarantee, options, wanted=wanted, progress=progress)


def plan_as(
    workload: Workload,
    guarantee: Guarantee,
    options: PlanOptions,
    *,
    wanted: Mapping[Sequence[Entry], float] | None = None,
    or_pure: bool = True,
    progress: Progress = silent,
) -> Plan:
    """Make a plan from options in one object, as a spec has them.

    `or_pure` says whether a plan under an exact (epsilon, delta) may be pure, if that is better.
    """
    if not isinstance(guarantee, get_args(Guarantee)):
        raise PlanError("guarantee", expected="PureDP, ApproxDP or ZCDP", given=guarantee)
    if not isinstance(workload, Workload):
        raise PlanError("workload", expected="a privcube.Workload", given=workload)
    made = plan_under(workload, guarantee, options, wanted=wanted, progress=progress)
    pure = pure_instead(guarantee) if or_pure and options.strategy == "auto" else None
    if pure is not None and not _is_far_behind(pure, made):
        with suppress(PlanError):
            other = plan_under(workload, pure, options, wanted=wanted, progress=progress)
            largest = options.objective == "largest" or wanted is not None
            errors = [_largest_ratio(each, wanted) if largest else drawn_error(each) for each in (made, other)]
            return other if errors[1] < errors[0] else made
    return made


def plan_under(
    workload: Workload,
    guarantee: Guarantee,
    options: PlanOptions,
    *,
    wanted: Mapping[Sequence[Entry], float] | None = None,
    progress: Progress = silent,
) -> Plan:
    """Make a plan with the noise of this very guarantee."""
    # On small matrices several threads slow each other down, and they change the last digits.
    with _blas("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        if options.objective == "largest" or wanted is not None:
            return least_largest(workload, guarantee, options, wanted, progress)
        return least_total(workload, guarantee, options, progress)


def _is_far_behind(pure: PureDP, made: Plan) -> bool:
    with _blas("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        return is_far_behind(pure, made)


def _largest_ratio(made: Plan, wanted: Mapping[Sequence[Entry], float] | None) -> float:
    """The largest ratio of a variance as drawn to a wanted one, or to 1."""
    drawn: dict[Table, float] = dict(zip(made.workload, drawn_table_variances(made).tolist(), strict=True))
    if wanted is None:
        return max(drawn.values())
    return max(drawn[canonical(made.workload.schema, table)] / error**2 for table, error in wanted.items())


@lru_cache
def _blas(scipy_is_loaded: bool) -> ThreadpoolController:
    """The BLAS libraries; finding them takes milliseconds, so it is done once, and again when scipy adds its own."""
    return ThreadpoolController()
