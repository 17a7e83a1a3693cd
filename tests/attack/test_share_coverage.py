"""Coverage of shares: how often the intervals of ratios contain the true one, also for small denominators.

As for counts (`test_coverage`), noise is drawn many times and recovered; it is added to true counts from many to none.
What is not determined is no statement and so no wrong one; how often it happens is measured, too. As a script it takes
a number of draws and prints figures.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.attack.test_coverage import CASES, CHANCE, SCALE, STATED, Case, Found, any_case, drawn, worst

import privcube as pc
from privcube.accuracy.predictor import predictor
from privcube.model.workload import Axis, Table
from privcube.released.ratios import ShareErrors

MANY, SOME, FEW = 300.0, 6.0, 0.7  # mean counts of a cell, in standard errors of it


def truth(shape: tuple[int, ...], mean: float, seed: int) -> np.ndarray:
    """Skewed true counts, some of them 0."""
    pick = np.random.default_rng(seed)
    return np.floor(pick.gamma(0.5, 2 * mean, size=shape) + 0.5)


def shares(case: Case, draws: int, mean: float) -> tuple[list[Found], list[float]]:
    """Coverage of the shares of every table, over each of its attributes and over all, and what is undetermined."""
    plan = case.plan()
    if any(len(bundle) > 1 for bundle in plan.noised_together):
        draws = max(draws // 5, 300)
    noise, known = drawn(plan, draws), predictor(plan)
    sources = list(dict.fromkeys(known.source(table) for table in plan.workload))
    units = [known.recover(sources, unit) for unit in np.eye(plan.rows)]
    found, undetermined = [], []
    for number, table in enumerate(plan.workload):
        matrix = np.array([known.derived(table, unit[known.source(table)]).ravel() for unit in units])
        shape = known.derived(table, units[0][known.source(table)]).shape
        exact = truth(shape, mean * float(np.sqrt(np.mean(known.variances(table)))), number)
        released = exact + (noise @ matrix).reshape(draws, *shape)
        for over in wanted(table):
            errors = ShareErrors.of(known, table, over)
            whole = errors.sums(exact)
            there = whole > 0
            true = np.divide(exact, whole, out=np.zeros(shape), where=there)
            inside, unknown = [], []
            for confidence in (STATED, 1 - (1 - STATED) / exact.size):
                low, high = errors.intervals(released, confidence)
                unknown.append(np.isnan(low))
                inside.append(unknown[-1] | ~there | ((low <= true + 1e-9) & (true <= high + 1e-9)))
            undetermined.append(float(np.mean(unknown[0])))
            together = int(np.sum(inside[1].reshape(draws, -1).all(axis=1)))
            found.append(Found(exact.size, inside[0].reshape(draws, -1).sum(axis=0), together, draws, 0.0, 0.0))
    return found, undetermined


def wanted(table: Table) -> list[tuple[int, ...]]:
    """Sets of attributes to add up over: each alone, and all."""
    places = [at for at, entry in enumerate(table) if Axis.of(entry).queries == "cells"]
    return list(dict.fromkeys([*((at,) for at in places), *([tuple(places)] if places else [])]))


def _short(case: Case) -> bool:
    return case.guarantee in (pc.PureDP("4.5"), pc.ZCDP("2.4")) and case.strategy in ("marginals", "fourier")


AGREEING = [case for case in CASES if case.recovery == "optimal" and case.workload not in ("ranges", "prefixes")]


def _pairs() -> list[tuple[Case, float]]:
    """Cases and sizes of counts: all of them, or some cases with one size each, in turn."""
    sizes = (MANY, SOME, FEW)
    if SCALE > 1:
        return list(product(AGREEING, sizes))
    return [(case, sizes[(at + at // 3) % 3]) for at, case in enumerate(filter(_short, AGREEING))]


@pytest.mark.parametrize(("case", "mean"), _pairs(), ids=lambda value: value.name if isinstance(value, Case) else None)
def test_intervals_of_shares_cover_what_they_say(case: Case, mean: float) -> None:
    results, _ = shares(case, 1_000 * min(SCALE, 20), mean)
    logarithm, what = worst(results)
    assert logarithm > math.log(CHANCE), what


def test_narrow_noise_is_covered_between_the_ratios_that_are_worked_out() -> None:
    """Shares of a table that is summed from a larger one were covered with 90 % instead of 95 %."""
    case = Case("pairs", "base_counts", "optimal", pc.ZCDP("2.4"))
    logarithm, what = worst(shares(case, 4_000, SOME)[0])
    assert logarithm > math.log(CHANCE), what


@pytest.mark.parametrize("seed", range(3 * min(SCALE, 100)))
def test_intervals_of_shares_of_any_plan_cover(seed: int) -> None:
    case = replace(any_case(seed), recovery="optimal")
    results, _ = shares(case, 500, (MANY, SOME, FEW)[seed % 3])
    if results:
        logarithm, what = worst(results)
        assert logarithm > math.log(CHANCE), (case.name, what)


def test_intervals_that_are_too_narrow_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("pairs", "marginals", "optimal", pc.ZCDP("0.1"))
    own = ShareErrors.intervals
    monkeypatch.setattr(ShareErrors, "intervals", lambda self, estimate, sure: own(self, estimate, sure - 0.06))
    assert worst(shares(case, 3_000, MANY)[0])[0] < math.log(CHANCE)


if __name__ == "__main__":
    draws, words = int(sys.argv[1]), sys.argv[2:]
    for case in [*AGREEING, *(replace(any_case(seed), recovery="optimal") for seed in range(100))]:
        if all(word in case.name for word in words):
            for mean in (MANY, SOME, FEW):
                results, undetermined = shares(case, draws, mean)
                if results:
                    covered = np.concatenate([each.alone / each.draws for each in results])
                    print(  # noqa: T201
                        f"{case.name:75} {mean:5g} least {covered.min():.3f} mean {covered.mean():.3f}",
                        f"all {min(each.together / each.draws for each in results):.3f}",
                        f"undetermined {np.mean(undetermined):.3f} {worst(results)[0]:.1f}",
                        flush=True,
                    )
