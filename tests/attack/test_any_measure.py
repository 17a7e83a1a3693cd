"""Any schema with measures, from text to what is published, against sums that are added up one by one.

Each seed draws grids, knots, policies, weights, persons, a guarantee, a strategy and a way of holding the records.
Without noise a release must have the exact sums, means and parts. Drawn noise must vary as predicted. A release must be
verified, shown, exported and asked. PRIVCUBE_ATTACK says how many times 4 seeds there are.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from tests.attack.test_coverage import SCALE
from tests.sensitive.test_measures import NoNoise

import privcube as pc
from privcube import errors
from privcube.accuracy.predictor import predictor
from privcube.model.measurements import Measurements
from privcube.model.measures.asked import measured_axis
from privcube.model.measures.measure import measure_of
from privcube.model.measures.units import group_attributes
from privcube.model.workload import Table
from privcube.planning.search import annealing
from privcube.released.explorer.release_site import release_site
from privcube.sensitive import gate
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.sources import engine_for

SEEDS = [32, 45] if SCALE == 1 else range(4 * SCALE)
DRAWS = 50 if SCALE == 1 else 300
TEXTS = ["", "x", "-1e9", "1e9", "NaN", " 7", "1,5"]


class Case:
    """A plan, records as texts, and what each record is by the rules of the guide."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.person = "who" if dice.random() < 0.3 else None
        self.dimensions = [self.attribute(f"a{at}") for at in range(dice.randint(0, 2))]
        self.measures = [self.measure(f"m{at}") for at in range(dice.randint(1, 3))]
        own = [*self.dimensions, *self.measures]
        dice.shuffle(own)
        self.schema = pc.Schema(own)
        times = 3 if self.person else 1
        neighbors: Any = "replace_one" if dice.random() < 0.3 else "add_remove"
        kept = {"neighbors": neighbors, "max_rows_per_person": times}
        self.guarantee = dice.choice(
            [pc.PureDP("0.1", **kept), pc.PureDP(2, **kept), pc.ZCDP("0.5", **kept), pc.ApproxDP(1, "1e-6", **kept)]
        )
        tables = list(pc.Workload.full_cube(self.schema))
        chosen = dice.sample(tables, dice.randint(1, len(tables)))
        self.workload = pc.Workload.tables(self.schema, chosen, weights=[dice.choice([1, 5]) for _ in chosen])
        self.workload = self.workload.with_sums(
            dice.choice([None, [self.measures[0].name]]), weight=dice.choice([1, 0.1, 7])
        )
        self.recovery = dice.choice(["optimal", "optimal", "direct"])
        known = ["marginals", "base_counts"] if self.recovery == "direct" else ["marginals", "base_counts", "auto"]
        self.strategy = dice.choice(["residual", *known] if self.recovery == "optimal" else known)
        self.records = [self.record(at) for at in range(dice.choice([0, 1, 40]))]

    def attribute(self, name: str) -> pc.Attribute:
        return pc.Attribute(name, values=["u", "v", "w"][: self.dice.randint(1, 3)])

    def measure(self, name: str) -> pc.Attribute:
        dice = self.dice
        step = dice.choice([Fraction(1), Fraction(1, 4), Fraction(5), Fraction(8)])
        low, steps = step * dice.choice([-30, -3, 0, 2]), dice.choice([1, 2, 7, 60, 500])
        inside = [low + step * at for at in range(1, steps)]
        return pc.Measure(
            name, low=low, high=low + step * steps, step=step,
            knots=sorted(dice.sample(inside, min(len(inside), dice.choice([0, 0, 1, 3])))),
            missing=dice.choice(["refuse", "drop", "category"]), other=dice.choice(["refuse", "drop", "category"]),
            underflow=dice.choice(["clamp", "clamp", "refuse", "drop", "category"]),
            overflow=dice.choice(["clamp", "clamp", "refuse", "drop", "category"]),
            trim=dice.random() < 0.3,
        )  # fmt: skip

    def record(self, at: int) -> dict[str, str]:
        own = {attribute.name: self.dice.choice(attribute.labels) for attribute in self.dimensions}
        for measure in self.measures:
            grid, strange = measure.grid, self.dice.random() < 0.15
            number = grid.low + grid.step * Fraction(self.dice.randint(-1, 4 * grid.steps + 1), 4)
            own[measure.name] = self.dice.choice(TEXTS) if strange else repr(float(number))
        return own | {"who": str(at // 3)}

    def data(self, folder: Path) -> Any:
        names = [*self.schema.names, "who"]
        table = pa.table({name: pa.array([own[name] for own in self.records], pa.string()) for name in names})
        kind = self.dice.choice(["arrow", "parquet", "csv"])
        if kind == "arrow":
            return table
        file = str(folder / f"data.{kind}")
        csv.write_csv(table, file) if kind == "csv" else pq.write_table(table, file)
        return file

    def told(self, record: dict[str, str], used: set[str]) -> dict[str, tuple[str, Fraction]] | None:
        """Per measure what a record says, "number" or a category, and what it adds to a sum; None if it is dropped."""
        found = {}
        for measure in self.measures:
            what, number = self.read(measure, record[measure.name])
            policy = {"missing": measure.missing, "other": measure.other, "below": measure.underflow}.get(what)
            policy = measure.overflow if what == "above" else policy
            if policy == "drop":
                return None
            if policy == "refuse" and measure.name in used:
                found["refused"] = ("refused", Fraction())
            found[measure.name] = (what if policy == "category" else "number", number)
        return found

    def read(self, measure: pc.Attribute, text: str) -> tuple[str, Fraction]:
        grid = measure.grid
        if not text.strip() or text == "NaN":
            return "missing", Fraction()
        try:
            number = Fraction(text if measure.trim else text if text == text.strip() else "x")
        except ValueError:
            return "other", Fraction()
        if number < grid.low or number > grid.high:
            return ("below", grid.low) if number < grid.low else ("above", grid.high)
        return "number", grid.low + grid.step * math.ceil((number - grid.low) / grid.step - Fraction(1, 2))


def added_up(case: Case, table: Table, told: list[tuple[dict[str, str], Any]]) -> dict[Any, Fraction]:
    """A table of counts, sums or records with a number, by cells of its attributes."""
    axis, found = measured_axis(table), Counter()
    names = [entry for entry in table if isinstance(entry, str)]
    for record, said in told:
        what, number = ("", Fraction(1)) if axis is None else said[axis.attribute]
        own = Fraction(what not in ("missing", "other")) if axis is not None and axis.queries == "count" else number
        found[tuple(record[name] for name in names)] += own
    return found


@pytest.fixture(autouse=True)
def _short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "_SECONDS", dict.fromkeys(annealing._SECONDS, 0.01))


@pytest.mark.parametrize("seed", SEEDS)
def test_any_measure_from_text_to_what_is_published(seed: int, tmp_path: Path) -> None:
    case = Case(seed)
    try:
        plan = pc.plan(case.workload, case.guarantee, case.strategy, recovery=case.recovery)
    except errors.PlanError:  # a strategy that is not for all of this, or parts of a record that are too small
        return
    used = {name for group in plan.groups for name in group_attributes(plan.frame, group)}
    data, told = case.data(tmp_path), [(own, case.told(own, used)) for own in case.records]
    kept = [(own, said) for own, said in told if said is not None]
    ledger = MemoryLedger(plan.guarantee)
    if any("refused" in said for _, said in kept):
        with pytest.raises(errors.DataError):
            gate.measure(plan, engine_for(data), ledger, person=case.person, noise_from=NoNoise())
        return
    exact = pc.Release(gate.measure(plan, engine_for(data), ledger, person=case.person, noise_from=NoNoise()))
    has_the_exact_numbers(case, exact, kept)
    noise_varies_as_predicted(plan)
    release = pc.release(plan, data, person=case.person)
    can_be_asked(case, release)
    release.save(tmp_path / "out")
    assert [check for check in pc.verify(tmp_path / "out") if not check.passed] == []
    for number in range(len(plan.workload)):
        assert release_site(tmp_path / "out").made(f"/tables/{number}.json")
    kind = case.dice.choice(["csv", "xlsx", "json-stat", "report-html", "measurements", "csvw"])
    pc.export(release, tmp_path / "file", [list(plan.workload)[-1]] if kind == "json-stat" else None, format=kind)


def has_the_exact_numbers(case: Case, exact: pc.Release, kept: list[tuple[dict[str, str], Any]]) -> None:
    """Without noise: every sum and count, every mean of what has records, and every part near a knot."""
    for table in case.workload:
        found = added_up(case, table, kept)
        labels = [case.schema[entry].labels for entry in table if isinstance(entry, str)]
        expected = np.array([float(found[cell]) for cell in itertools.product(*labels)])
        size = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(exact.estimates(table).ravel(), expected, atol=1e-9 * size, err_msg=str(table))
        name = measure_of(table)
        if name is None:
            continue
        for cell in itertools.product(*labels):
            where = dict(zip([entry for entry in table if isinstance(entry, str)], cell, strict=True))
            asked = exact.query(where, measure=name)
            assert asked.estimate == pytest.approx(float(found[cell]), abs=1e-9 * size)
            numbers = [said[name] for own, said in kept if where.items() <= own.items()]
            numbers = [number for what, number in numbers if what not in ("missing", "other")]
            mean = exact.mean(name, where)
            if mean.determined:
                assert mean.low - 1e-9 * size <= float(sum(numbers) / len(numbers)) <= mean.high + 1e-9 * size
                assert mean.estimate == pytest.approx(float(sum(numbers) / len(numbers)), abs=1e-9 * size)


def noise_varies_as_predicted(plan: pc.Plan) -> None:
    """The mean square of all errors, each over what is predicted: within six standard errors of 1."""
    known, squares = predictor(plan), []
    weights = 1 / np.maximum(known.mean_variances(), 1e-300)
    sources = list(dict.fromkeys(map(known.source, plan.workload)))
    for _ in range(DRAWS):
        found = known.recover(sources, Measurements(plan, gate._noise(plan, gate.SystemNoise())).counts)
        tables = [known.derived(table, found[known.source(table)]) for table in plan.workload]
        squares.append(np.mean([own * np.mean(each**2) for own, each in zip(weights, tables, strict=True)]))
    assert abs(np.mean(squares) - 1) <= 6 * np.std(squares) / DRAWS**0.5 + 1e-6, np.mean(squares)


def can_be_asked(case: Case, release: pc.Release) -> None:
    """Every table, its means, one sum and mean by query; what is wider is wider. Nothing but our errors."""
    for table in case.workload:
        values = release.values(table)
        assert np.all(np.isfinite(values.estimate))
        assert np.all(values.std_error > 0) or release.plan.known
        means, name = values.means, measure_of(table)
        assert (means is None) == (name is None)
        if means is None or name is None:
            continue
        grid, known = case.schema[name].grid, np.isfinite(means.low)
        assert np.all((means.low[known] >= float(grid.low)) & (means.high[known] <= float(grid.high)))
        assert np.all((means.low_all[known] <= means.low[known]) | np.isnan(means.low_all[known]))
        assert np.all((means.low[known] <= means.estimate[known]) & (means.estimate[known] <= means.high[known]))
        names = [entry for entry in table if isinstance(entry, str)]
        where = {own: case.schema[own].labels[0] for own in names}
        one, first = release.mean(name, where), (means.estimate.ravel()[0], means.low.ravel()[0], means.high.ravel()[0])
        if one.determined and np.isfinite(first[1]):
            assert one.estimate == pytest.approx(first[0], abs=1e-6 * float(grid.high - grid.low))
            assert one.high - one.low <= (first[2] - first[1]) * 1.02 + 1e-6 * float(grid.high - grid.low)
