"""Coverage of means: how often their intervals contain the true mean, from many records to hardly any.

As for shares (`test_share_coverage`): noise is drawn as the gate draws it, recovered, and added to true cells of the
measure. What is not determined is no statement. As a script it takes a number of draws and prints figures.
"""

from __future__ import annotations

import math
import sys
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from tests.attack.test_coverage import CHANCE, SCALE, STATED, Found, worst
from tests.attack.test_share_coverage import FEW, MANY, SOME

import privcube as pc
from privcube.accuracy.predictor import predictor
from privcube.model.measurements import Measurements
from privcube.model.measures.asked import cells_of
from privcube.model.measures.measure import measure_of
from privcube.released.ratios import ShareErrors
from privcube.sensitive.gate import SystemNoise, _noise

STEPS = {"x": 10, "y": 100, "z": 70_001}
GUARANTEES = {
    "pure 1": pc.PureDP(1),
    "pure 0.05": pc.PureDP("0.05"),
    "pure 10": pc.PureDP(10),
    "zCDP 0.1": pc.ZCDP("0.1"),
    "delta 1": pc.ApproxDP(1, "1e-6"),
    "replaced": pc.PureDP(2, neighbors="replace_one"),
}
CASES = [(name, measures) for name in GUARANTEES for measures in (1, 2, 3)]


@cache
def planned(name: str, measures: int) -> pc.Plan:
    chosen = [pc.Measure(own, low=0, high=steps, step=1) for own, steps in list(STEPS.items())[:measures]]
    schema = pc.Schema([*pc.Schema.from_sizes({"a": 2, "b": 5}), *chosen])
    return pc.plan(pc.Workload.all_kway(schema, 2).with_sums(), GUARANTEES[name])


def means(plan: pc.Plan, draws: int, level: float) -> tuple[list[Found], float]:
    """Coverage of the means of every table of sums, and how many are not determined."""
    noise = np.array([Measurements(plan, _noise(plan, SystemNoise())).counts for _ in range(draws)])
    known, found, undetermined = predictor(plan), [], []
    pick = np.random.default_rng(7)
    for table in [own for own in plan.workload if measure_of(own) is not None]:
        cells, at = cells_of(table), len(table) - 1
        source = known.source(cells)
        units = [known.recover([source], unit)[source] for unit in np.eye(plan.rows)]
        matrix = np.array([known.derived(cells, unit).ravel() for unit in units])
        shape = known.derived(cells, units[0]).shape
        spread = float(np.sqrt(np.mean(known.variances(cells))))
        records = np.floor(pick.gamma(2.0, level * spread / 2, shape[:-1]) + 1)
        true = pick.beta(1.5, 2.5, shape[:-1])  # where the mean is in the range
        exact = np.stack([records * (1 - true), records * true], axis=-1)
        released = exact + (noise @ matrix).reshape(draws, *shape)
        errors = ShareErrors.of(known, cells, (at,))
        inside = []
        for confidence in (STATED, 1 - (1 - STATED) / records.size):
            low, high = (end[..., 1] for end in errors.intervals(released, confidence))
            inside.append(np.isnan(low) | ((low <= true + 1e-9) & (true <= high + 1e-9)))
        undetermined.append(float(np.mean(np.isnan(errors.intervals(released, STATED)[0][..., 1]))))
        together = int(np.sum(inside[1].reshape(draws, -1).all(axis=1)))
        found.append(Found(records.size, inside[0].reshape(draws, -1).sum(axis=0), together, draws, 0.0, 0.0))
    return found, float(np.mean(undetermined))


SHORT = [("pure 0.05", 3)]


@pytest.mark.parametrize("level", [MANY, SOME, FEW])
@pytest.mark.parametrize("case", CASES if SCALE > 1 else SHORT, ids=str)
def test_intervals_of_means_cover_what_they_say(case: tuple[str, int], level: float) -> None:
    logarithm, what = worst(means(planned(*case), 200 * min(SCALE, 20), level)[0])
    assert logarithm > math.log(CHANCE), what


@pytest.mark.parametrize("name", ["zCDP 0.1", "pure 1"][: min(SCALE, 2)])
def test_intervals_of_means_over_records_with_a_number_cover_what_they_say(name: str) -> None:
    """Whole releases of records of which a third have no number, from some 160 to some 10 in a cell."""
    pick, inside, draws = np.random.default_rng(5), [], min(SCALE, 20)
    days = pc.Measure("days", low=0, high=60, step=1, knots=[30], overflow="category", missing="category")
    schema = pc.Schema([*pc.Schema.from_sizes({"a": 2, "b": 3}), days])
    plan = pc.plan(pc.Workload.all_kway(schema, 2).with_sums(), GUARANTEES[name], "marginals")
    for records in (1500, 400, 100) * draws:
        a, b, number = pick.integers(0, 2, records), pick.integers(0, 3, records), pick.integers(0, 80, records)
        lost = pick.random(records) < 1 / 3
        data = pa.table({"a": a, "b": b, "days": pa.array(number, mask=lost)})
        found = pc.release(plan, data).values(("a", "b", "days")).means
        kept = [np.minimum(number, 60)[(a == i) & (b == j) & ~lost].mean() for i in range(2) for j in range(3)]
        low, high = found.low.ravel(), found.high.ravel()
        inside += (np.isnan(low) | ((low <= kept) & (kept <= high))).tolist()
    assert np.mean(inside) >= STATED - 5 * np.sqrt(STATED * (1 - STATED) / len(inside))


def test_intervals_of_means_that_are_too_narrow_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ShareErrors.intervals
    monkeypatch.setattr(ShareErrors, "intervals", lambda self, estimate, sure: own(self, estimate, sure - 0.15))
    assert worst(means(planned("pure 0.05", 3), 400, MANY)[0])[0] < math.log(CHANCE)


if __name__ == "__main__":
    for name, measures in CASES:
        plan = planned(name, measures)
        for level in (MANY, SOME, FEW):
            results, undetermined = means(plan, int(sys.argv[1]), level)
            covered = np.concatenate([each.alone / each.draws for each in results])
            print(  # noqa: T201
                f"{name:10} {measures} {level:5g} least {covered.min():.4f} mean {covered.mean():.4f}",
                f"all {min(each.together / each.draws for each in results):.4f} undetermined {undetermined:.3f}",
                f"{worst(results)[0]:.1f} {set(map(str, plan.noise_laws))}",
                flush=True,
            )
