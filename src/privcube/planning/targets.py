"""Accuracy first: the least budget that meets wanted margins, and the plan that needs it. Zone: PUBLIC.

A margin is what a release states: half the width of the interval that contains the error of a number at a given
confidence, under the whole-number noise that will be drawn. A plan determines it before data is read.

With the measurements and shares of a plan fixed, variances are proportional to 1/epsilon^2 or 1/rho, up to the
difference between whole-number and continuous noise. So the plan with the least largest ratio of error to wanted error
(`privcube.planning.largest`) needs the least budget, if that difference is ignored and margins are the same multiple of
standard errors in all tables. Both deviations are computed from the plan at the budget it needs, the shares are rebuilt
for them, and the result is kept if it needs less. The budget is then the least, to a few decimal digits, at which the
noise that will be drawn meets every target; this is checked, not derived.

Margins around 1 are as small as the steps of the noise. The law of the whole-number noise says how often an error is
within them (`privcube.accuracy.intervals`).

See THEORY section 11.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from numbers import Real
from typing import Final, get_args

import numpy as np

from privcube.accuracy.intervals import interval_factor, known_confidence
from privcube.accuracy.predictor import Predictor, predictor
from privcube.errors import Plain, PlanError
from privcube.model.groups import is_structured
from privcube.model.measures.asked import counts_beside_sums
from privcube.model.measures.measure import scale_of
from privcube.model.noise.drawable import drawable
from privcube.model.options import Effort, PlanOptions
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import ZCDP, Guarantee, pure_instead
from privcube.model.workload import Entry, Table, Workload, canonical, table_name
from privcube.planning.candidates import every_strategy
from privcube.planning.largest import rebalanced
from privcube.planning.planner import plan_under
from privcube.planning.steps import is_drawable
from privcube.planning.trees import branchings
from privcube.progress import Progress, silent

DIGITS: Final = 3  # significant digits of the budget of `plan_for`
_SMALLEST: Final = -12  # power of ten of the least budget tried, far below any practical one
_LARGEST: Final = 9  # power of ten of the largest budget tried, at which noise is practically always 0
_UNIT: Final = Fraction(10**6)  # the budget to plan with, large enough that the noise of any bundle can be drawn
_ROUNDS: Final = 2  # of rebuilding the shares; chosen empirically
_GUESSES: Final = 3  # of the budget before bisection; each scales by the ratio found
_SPREADS: Final = (30.0, 5.0, 1.0)  # limits on wanted errors, relative to the least, tried if noise is too wide to draw
_NEARLY: Final = 0.97  # of a target: a plan that uses more of it is limited by the targets, not by what can be drawn
_LEAST: Final = 1e-6  # margin, far below the steps of whole-number noise
_MOST: Final = 1e15  # margin, below the largest whole number that a float holds exactly
_ROUNDING: Final = 1e-8  # relative, of margins
_LITTLE: Final = 1e-6  # weight of tables without a target, relative to the largest weight


@dataclass(frozen=True)
class Target:
    """A wanted margin: each number of a table is off by at most the margin at the given confidence.

    That of a sum is in units of the scale of its measure.
    """

    table: Table
    margin: float
    confidence: float = 0.95

    @classmethod
    def of(cls, workload: Workload, table: Sequence[Entry], margin: float, confidence: float = 0.95) -> Target:
        """A wanted margin of the numbers as they are published."""
        wanted = canonical(workload.schema, table)
        number = isinstance(margin, Real) and not isinstance(margin, bool)
        return cls(wanted, float(margin) / scale_of(workload.schema, wanted) if number else margin, confidence)

    def __post_init__(self) -> None:
        if isinstance(self.margin, bool) or not isinstance(self.margin, Real) or not _LEAST <= self.margin <= _MOST:
            raise PlanError(
                f"margin of {table_name(self.table)}",
                expected=f"one that some budget reaches, from {_LEAST:g} to {_MOST:g}",
                given=self.margin,
            )
        known_confidence(self.confidence)


def plan_for(
    workload: Workload,
    targets: Mapping[Sequence[Entry], float],
    guarantee: Guarantee,
    *,
    confidence: float = 0.95,
    effort: Effort = "fast",
    progress: Progress = silent,
) -> Plan:
    """The plan that meets a margin per table with the least budget.

    Other tables of the workload are answered as well, but nothing is spent on them, so give a target to each table that
    matters. Counts that means need beside sums are wanted as precisely as these, in parts of what a record can add,
    unless they have targets of their own. The guarantee supplies its kind, delta, neighbors and rows per person; its
    epsilon or rho is replaced by the least sufficient amount, rounded up to three digits.

    >>> from privcube import PureDP, Schema, Workload
    >>> workload = Workload.all_kway(Schema.from_sizes({"sex": 2, "age": 10}), 1)
    >>> made = plan_for(workload, {("sex",): 10, ("age",): 20}, PureDP(1))
    >>> print(made.guarantee)
    epsilon = 0.438 (pure), adding or removing one row
    >>> [round(margin, 1) for margin in margins(made, list(workload), 0.95)]
    [10.0, 20.0]
    """
    if not isinstance(workload, Workload):
        raise PlanError("workload", expected="a privcube.Workload", given=workload)
    asked = [Target.of(workload, table, margin, confidence) for table, margin in targets.items()]
    return planned_for(workload, asked, guarantee, effort=effort, progress=progress)


def planned_for(
    workload: Workload, targets: Sequence[Target], guarantee: Guarantee, *, effort: Effort, progress: Progress = silent
) -> Plan:
    """The plan that meets all targets with the least budget; a table may have several, of different confidences."""
    if not isinstance(guarantee, get_args(Guarantee)):
        raise PlanError("guarantee", expected="PureDP, ApproxDP or ZCDP", given=guarantee)
    targets = [*targets, *_of_counts(workload, targets)]
    best = _planned_under(workload, targets, guarantee, effort, progress)
    pure = pure_instead(guarantee)
    if pure is not None:
        with suppress(PlanError):
            return min(best, _planned_under(workload, targets, pure, effort, progress), key=_budget)
    return best


def _of_counts(workload: Workload, targets: Sequence[Target]) -> list[Target]:
    """Targets of counts that means need beside sums (`Workload.with_counts`), unless they have their own."""
    given = {target.table for target in targets}
    return [
        replace(target, table=table)
        for target in targets
        for table in counts_beside_sums(workload.schema, {target.table: 1.0})
        if table not in given and table in workload
    ]


def _planned_under(
    workload: Workload, targets: Sequence[Target], guarantee: Guarantee, effort: Effort, progress: Progress
) -> Plan:
    """The plan that meets all targets with the noise of this kind of guarantee."""
    if not targets:
        raise PlanError("targets", expected="a margin for at least one table", given=Plain("none"))
    for target in targets:
        if target.table not in workload:
            available = [table_name(each) for each in workload]
            given = table_name(target.table)
            raise PlanError("targets", expected="tables of the workload", given=given, available=available)
    errors: dict[Table, float] = {}
    for target in targets:
        error = target.margin / interval_factor(0.0, target.confidence)
        errors[target.table] = min(error, errors.get(target.table, math.inf))
    unit = guarantee.with_amount(_UNIT)
    plans = [plan_under(workload, unit, PlanOptions(effort=effort), wanted=dict(errors.items()), progress=progress)]
    if branchings(workload):  # errors differ between ranges, by an amount that depends on the strategy; try all
        others = every_strategy(_weighted(workload, errors), unit, PlanOptions(effort=effort), progress)
        plans += [replace(made, workload=workload) for made in others.values() if isinstance(made, Plan)]
    best = min((_least(made, errors, targets) for made in plans), key=_budget)
    if not is_structured(best.groups):
        return best
    for spread in _SPREADS:
        if max(_ratios(best, targets)) > _NEARLY:
            break  # the targets limit the budget, not what can be drawn
        most = spread * min(errors.values())
        even = {table: min(errors.get(table, most), most) ** 2 for table in workload}
        best = min(best, _least(_anew(best, even), errors, targets), key=_budget)
    for _ in range(_ROUNDS):
        wanted = _wanted_variances(best, targets)
        again = _least(_anew(best, wanted), errors, targets) if wanted else best
        if _budget(again) >= _budget(best):
            break
        best = again
    return best


def least_budget(plan: Plan, targets: Sequence[Target], digits: int = DIGITS) -> Plan:
    """The measurements and shares of a plan at the least budget, of the given digits, that meets all targets.

    Margins fall as the budget grows, so bisection finds it; the first guess is off only by the difference between
    whole-number and continuous noise.
    """
    decade = 9 * int(10 ** (digits - 1))  # number of budgets from one power of ten to the next
    lowest, highest = _SMALLEST * decade, _LARGEST * decade

    def budget(step: int) -> Fraction:
        power, place = divmod(step, decade)
        return Fraction(decade // 9 + place) * Fraction(10) ** (power - digits + 1)

    def step_of(amount: float) -> int:
        power = math.floor(math.log10(amount))
        place = round((amount / 10.0**power - 1) * decade / 9)
        return min(max(power * decade + place, lowest), highest)

    @cache
    def ratio(step: int) -> float:
        made = at_budget(plan, budget(step))
        return max(_ratios(made, targets)) if is_drawable(made) else math.inf

    step = step_of(float(_budget(plan)))
    for _ in range(_GUESSES):
        if 0 < ratio(step) < math.inf:
            step = step_of(float(budget(step)) * ratio(step) ** (2 if isinstance(plan.guarantee, ZCDP) else 1))
    low = high = step
    stride = 1
    while low > lowest and ratio(low) <= 1:
        low, stride = max(low - stride, lowest), 2 * stride
    stride = 1
    while high < highest and ratio(high) > 1:
        low, high, stride = high, min(high + stride, highest), 2 * stride
    if ratio(low) <= 1 or ratio(high) > 1:
        made = at_budget(plan, budget(low if ratio(low) <= 1 else high))
        worst = targets[int(np.argmax(_ratios(made, targets)))]
        raise PlanError(
            f"margin of {table_name(worst.table)}",
            expected=f"one that some budget reaches, {plan.guarantee.dial} from 1e{_SMALLEST} to 1e{_LARGEST}",
            given=worst.margin,
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ratio(middle) > 1 else (low, middle)
    return at_budget(plan, budget(high))


def at_budget(plan: Plan, amount: Fraction) -> Plan:
    """A plan with another epsilon or rho but the same measurements, bundles and shares; predictions scale exactly."""
    other = replace(plan, guarantee=plan.guarantee.with_amount(amount))
    factor = float(other.noise_variance(0) / plan.noise_variance(0))
    scaled = replace(other, table_variances=tuple([factor * variance for variance in plan.table_variances]))
    return drawable(scaled)


def margins(plan: Plan, tables: Sequence[Table], confidence: float) -> list[float]:
    """The margin of a number of each table at a confidence, taken at the largest error in the table."""
    found = _margins(plan, [Target(table, 1.0, confidence) for table in tables])
    return [margin * scale_of(plan.workload.schema, table) for margin, table in zip(found, tables, strict=True)]


def std_errors(plan: Plan, tables: Sequence[Table]) -> list[float]:
    """The standard error of a number of each table, as a release states it: the root mean square over the table."""
    found = _predictor(plan, tables)
    schema = plan.workload.schema
    return [float(np.sqrt(np.mean(found.variances(table)))) * scale_of(schema, table) for table in tables]


def _margins(plan: Plan, targets: Sequence[Target]) -> list[float]:
    tables = list(dict.fromkeys(target.table for target in targets))
    found = _predictor(plan, tables)
    known = {table: found.errors(table) for table in tables}
    return [float(np.max(known[each.table].half_widths(each.confidence))) for each in targets]


def _predictor(plan: Plan, tables: Sequence[Table]) -> Predictor:
    """The predictor of a plan; refuses tables that the plan does not determine."""
    found = predictor(plan, tables)
    for table in tables:
        if not found.determines(table):
            raise PlanError(table_name(table), expected="a table that the plan's measurements determine")
    return found


def _ratios(plan: Plan, targets: Sequence[Target]) -> list[float]:
    """Each margin divided by its target, up to rounding."""
    reached = zip(_margins(plan, targets), targets, strict=True)
    return [margin / target.margin * (1 - _ROUNDING) for margin, target in reached]


def _least(made: Plan, errors: Mapping[Table, float], targets: Sequence[Target]) -> Plan:
    """`least_budget`, started from the predictions, since a plan may be far from the budget it needs."""
    ratio = max(made.table_variance(table) ** 0.5 / error for table, error in errors.items())
    power = 2 if isinstance(made.guarantee, ZCDP) else 1
    amount = min(max(float(_budget(made)) * ratio**power, 10.0**_SMALLEST), 10.0**_LARGEST)
    return least_budget(at_budget(made, Fraction(amount).limit_denominator(10**15)), targets)


def _anew(made: Plan, wanted: Mapping[Table, float]) -> Plan:
    """A plan with its shares rebuilt for the given ratios of wanted variances."""
    return rebalanced(at_budget(made, _UNIT), wanted)


def _wanted_variances(made: Plan, targets: Sequence[Target]) -> dict[Table, float]:
    """The predicted variances at which the tables would just meet their targets."""
    wanted: dict[Table, float] = {}
    for target, ratio in zip(targets, _ratios(made, targets), strict=True):
        if ratio > 0:
            variance = made.table_variance(target.table) / ratio**2
            wanted[target.table] = min(variance, wanted.get(target.table, math.inf))
    return wanted


def _budget(plan: Plan) -> Fraction:
    return plan.guarantee.amount


def _weighted(workload: Workload, errors: Mapping[Table, float]) -> Workload:
    """The workload with weights under which each table counts by the ratio of its variance to the wanted one."""
    cells = zip(workload, workload.sizes, strict=True)
    weights = np.array([1 / (size * errors[table] ** 2) if table in errors else 0.0 for table, size in cells])
    return Workload.exactly(
        workload.schema, list(workload), weights=np.maximum(weights / weights.max(), _LITTLE).tolist()
    )
