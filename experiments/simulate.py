"""Plans of the paper's strategies and ours, and the errors of releases made by them.

Recovery is linear and exact on exact answers, so the error of a release is what recovery makes of its noise alone. The
noise is that of the gate, drawn as in every release; exact counts are needed for nothing but the mean true answer of a
table, which is records / cells. `tests/experiments` compares this with whole releases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import pi, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

import privcube as pc
from privcube.accuracy.predictor import drawn_table_variances, recover
from privcube.model.options import Budgets, Effort, Recovery, Strategy
from privcube.model.plan import Plan
from privcube.model.privacy.guarantee import Guarantee
from privcube.sensitive.gate import SystemNoise, _noise

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
NORMAL: Final = sqrt(2 / pi)  # mean absolute value of a standard normal number


@dataclass(frozen=True)
class Choice:
    """A strategy with its budgets and its recovery, under the name it has in the plots."""

    symbol: str
    strategy: Strategy
    budgets: Budgets
    recovery: Recovery


I = Choice("I", "base_counts", "uniform", "direct")  # noqa: E741
Q, Q_PLUS = Choice("Q", "marginals", "uniform", "direct"), Choice("Q+", "marginals", "optimal", "direct")
F, F_PLUS = Choice("F", "fourier", "uniform", "direct"), Choice("F+", "fourier", "optimal", "direct")
C, C_PLUS = Choice("C", "clusters", "uniform", "direct"), Choice("C+", "clusters", "optimal", "direct")
PAPER: Final = (I, Q, Q_PLUS, F, F_PLUS, C, C_PLUS)
PAIRS: Final = ((Q, Q_PLUS), (F, F_PLUS), (C, C_PLUS))
AUTO: Final = Choice("auto", "auto", "optimal", "optimal")
RESIDUAL: Final = Choice("residual", "residual", "optimal", "optimal")


def planned(workload: pc.Workload, guarantee: Guarantee, choice: Choice, effort: Effort = "fast") -> Plan:
    """The plan of a choice."""
    made = pc.plan(
        workload, guarantee, choice.strategy, budgets=choice.budgets, recovery=choice.recovery, effort=effort
    )
    if isinstance(guarantee, pc.PureDP):  # named bundles: a plan without works them out anew for every group
        made = replace(made, bundles=made.noised_together)
    return made


def rescaled(plan: Plan, guarantee: Guarantee) -> Plan:
    """The same plan for another amount of the same kind of guarantee: shares of the budget do not depend on it."""
    factor = unit_variance(guarantee) / unit_variance(plan.guarantee)
    return replace(
        plan, guarantee=guarantee, table_variances=tuple(variance * factor for variance in plan.table_variances)
    )


def unit_variance(guarantee: Guarantee) -> float:
    """The variance of noise on one count that gets the whole budget."""
    if isinstance(guarantee, pc.PureDP):
        return 2 / float(guarantee.epsilon) ** 2
    return float(guarantee.unit_noise)


@dataclass(frozen=True)
class Errors:
    """Mean errors per cell of a workload: in records, and scaled by the mean true answer of the cell's table."""

    absolute: float
    scaled: float


def releases(plan: Plan, records: int, count: int) -> list[Errors]:
    """The mean errors of so many independent releases."""
    source = _InBulk(count)
    found = []
    for _ in range(count):
        tables = recover(plan, _noise(plan, source).astype(np.float64))
        errors = [float(np.abs(tables[table]).mean()) for table in plan.workload]
        found.append(_mean(errors, plan.workload.sizes, records))
    return found


class _InBulk(SystemNoise):
    """Draws of one scale for all releases at once, each handed out once: preparing a scale is what takes time."""

    def __init__(self, releases: int) -> None:
        self._releases = releases
        self._stock: dict[Fraction, list[Integers]] = {}

    def laplace(self, scale: Fraction, count: int) -> Integers:
        """Discrete Laplace draws."""
        return self._taken(super().laplace, scale, count)

    def gaussian(self, variance: Fraction, count: int) -> Integers:
        """Discrete Gaussian draws."""
        return self._taken(super().gaussian, variance, count)

    def rounded_gaussian(self, variance: Fraction, count: int) -> Integers:
        """Rounded Gaussian draws."""
        return self._taken(super().rounded_gaussian, variance, count)

    def _taken(self, draw: Callable[[Fraction, int], Integers], parameter: Fraction, count: int) -> Integers:
        stock = self._stock.get(parameter)
        if not stock:
            stock = self._stock[parameter] = np.split(draw(parameter, count * self._releases), self._releases)
        taken = stock.pop()
        assert len(taken) == count  # the gate asks for a scale once in a release
        return taken


def bound(plan: Plan, records: int) -> Errors:
    """A bound on what to expect (Jensen): the standard errors, with the variances of the noise that is drawn."""
    return _mean(np.sqrt(drawn_table_variances(plan)), plan.workload.sizes, records)


def predicted(plan: Plan, records: int) -> Errors:
    """The same from what the plan predicts, for errors that are normal: sums of many."""
    return _mean(NORMAL * np.sqrt(plan.table_variances), plan.workload.sizes, records)


def _mean(per_table: Sequence[float] | Floats, sizes: Sequence[int], records: int) -> Errors:
    errors, cells = np.asarray(per_table, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    return Errors(
        float(np.sum(errors * cells) / cells.sum()), float(np.sum(errors * cells * cells / records) / cells.sum())
    )
