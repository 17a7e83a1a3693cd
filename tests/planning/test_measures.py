"""Plans for counts and sums together: better than a divided budget, and sound on any schema."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from privcube import ZCDP, ApproxDP, Axis, Measure, PureDP, Schema, Workload, errors, plan, release
from privcube.accuracy.privacy import verify_privacy
from privcube.planning.targets import margins, plan_for, std_errors

SCHEMA = Schema([*Schema.from_sizes({"sex": 2, "education": 16}), Measure("hours", low=0, high=100, step=1)])
COUNTS = Workload.tables(SCHEMA, ["sex x education"])


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.05")], ids=str)
def test_counts_and_sums_share_a_budget(guarantee) -> None:
    (alone,) = std_errors(plan(COUNTS, guarantee), list(COUNTS))
    both = COUNTS.with_sums()
    count, total = std_errors(plan(both, guarantee), list(both))
    assert count <= 1.4 * alone
    divided = np.sqrt(2) if guarantee.kind == "zcdp" else 2.0  # half of the budget for each
    assert count < 0.9 * divided * alone
    assert total < 0.9 * divided * alone * 100


def test_sums_alone_leave_the_count_out() -> None:
    """Around 0 a sum is a contrast, which has half the variance of a cell."""
    schema = Schema([*Schema.from_sizes({"a": 4}), Measure("change", low=-10, high=10, step=1)])
    sums = Workload.tables(schema, ["a x change"])
    made = plan(sums, ZCDP("0.5"))
    (error,) = std_errors(made, list(sums))
    (of_cells,) = std_errors(plan(sums, ZCDP("0.5"), "marginals"), list(sums))
    assert error == pytest.approx(of_cells / np.sqrt(2), rel=1e-3)


def test_wanted_margins_of_sums_are_in_units_of_the_measure() -> None:
    made = plan_for(COUNTS.with_sums(), {("sex", "education", "hours"): 500}, ZCDP(1))
    _, margin = margins(made, list(made.workload), 0.95)
    assert margin == pytest.approx(500, rel=0.01)


def test_a_wanted_margin_of_sums_is_one_of_what_means_need() -> None:
    """In parts of what a record can add: 500 hours of 100 are 5 records that have a number."""
    schema = Schema([*Schema.from_sizes({"sex": 2}), Measure("hours", low=0, high=100, step=1, missing="category")])
    workload = Workload.tables(schema, ["sex x hours"])
    made = plan_for(workload, {("sex", "hours"): 500}, ZCDP(1))
    total, count = margins(made, list(workload), 0.95)
    assert total <= 500
    assert count <= 5
    assert max(total / 500, count / 5) == pytest.approx(1, rel=0.01)
    made = plan_for(workload, {("sex", "hours"): 500, ("sex", Axis("hours", queries="count")): 20}, ZCDP(1))
    assert 5 < margins(made, list(workload), 0.95)[1] <= 20


@pytest.mark.parametrize("seed", range(4))
def test_any_schema_with_measures(seed: int) -> None:
    chance = random.Random(seed)
    attributes = list(Schema.from_sizes({f"a{at}": chance.choice([1, 2, 3, 5]) for at in range(chance.randint(1, 3))}))
    for at in range(chance.randint(1, 2)):
        steps = chance.choice([1, 2, 7, 100, 1000])
        low = chance.choice([-steps, 0, 3, -1_000_000])
        step = chance.choice([1, "0.1", 1000])
        high = low + steps * (0.1 if step == "0.1" else step)
        policies = {"missing": chance.choice(["category", "drop"]), "overflow": chance.choice(["clamp", "category"])}
        measure = Measure(f"m{at}", low=low, high=round(high, 6), step=step, other=policies["missing"], **policies)
        attributes.insert(chance.randint(0, len(attributes)), measure)
    schema = Schema(attributes)
    rows = chance.choice([0, 1, 60])
    data = pa.table(
        {
            own.name: pa.array([chance.uniform(-2000, 2000) for _ in range(rows)], pa.float64())
            if own.is_measure
            else pa.array([chance.randrange(own.cells) for _ in range(rows)], pa.int64())
            for own in schema
        }
    )
    guarantee = chance.choice(
        [PureDP("0.01"), PureDP(50, neighbors="replace_one"), ZCDP(1), ApproxDP(1, "1e-9", neighbors="replace_one")]
    )
    workload = Workload.full_cube(schema).with_sums()
    for strategy in ("marginals", "residual", "base_counts"):
        try:
            made = plan(workload, guarantee, strategy)
            verify_privacy(made)
            found = release(made, data)
        except errors.PrivcubeError:
            continue
        for table in workload:
            values = found.values(table)
            assert np.all(np.isfinite(values.estimate))
            assert np.all(values.std_error >= 0)


def cone(measures: int, height: float) -> tuple[float, float]:
    """The variances of a count and of a contrast under the norm that favors the count (THEORY section 14)."""
    t = np.linspace(0, 1, 20_001)
    u = height - (height - 1) * t
    factor = (measures + 2) * (measures + 3)
    mean = np.trapezoid if hasattr(np, "trapezoid") else np.trapz
    whole = mean(u**measures, t)
    return factor * mean(t**2 * u**measures, t) / whole, factor * mean(u ** (measures + 2), t) / (3 * whole)


def test_counts_within_one_and_a_half_of_their_error_would_cost_sums_more() -> None:
    """What the guide says of several measures under a pure guarantee, and what a norm that favors counts would do."""
    for measures, height, count, total, dearer in ((1, 1.0, 1.83, 158, 141), (2, 2.5, 2.24, 194, 275)):
        of_count, of_contrast = cone(measures, height)
        assert 50 * np.sqrt(of_count + of_contrast) == pytest.approx(dearer, rel=0.02)
        many = Schema(
            [
                *Schema.from_sizes({"sex": 2, "education": 16}),
                *(Measure(f"m{at}", low=0, high=100, step=1) for at in range(measures)),
            ]
        )
        workload = Workload.tables(many, ["sex x education"]).with_sums()
        errors = std_errors(plan(workload, PureDP(1)), list(workload))
        assert errors == pytest.approx([count, *[total] * measures], rel=0.01)
        if measures > 1:
            assert np.sqrt(of_count) / 1.357 < 1.51
    assert np.sqrt(cone(3, 3.0)).tolist() == pytest.approx([1.357 * 1.49, 7.79], rel=0.01)
