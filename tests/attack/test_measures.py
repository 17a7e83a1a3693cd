"""Records that are divided between cells, priced by what the gate asks of the samplers, under every law of noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from tests.attack.test_as_drawn import prices
from tests.sensitive.test_measures import NoNoise

from privcube import ZCDP, ApproxDP, Attribute, Measure, PureDP, Schema, Workload, errors, plan
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.model.plan import Plan
from privcube.planning.steps import with_bundles
from privcube.sensitive import gate
from privcube.sensitive.brute_force import verify_by_brute_force
from privcube.sensitive.ledger import MemoryLedger
from privcube.sensitive.sources import engine_for

SCHEMA = Schema(
    [
        Attribute("a", size=2),
        Measure("x", low=0, high=3, step=1),
        Measure("z", low=0, high=7, step=1, knots=[2], overflow="category"),
    ]
)
WORKLOAD = Workload.tables(SCHEMA, ["a"]).with_sums()
RECORDS = [(0, 1, 1), (1, 2, 5)]
KNOTS = [(0, 0, 0), (1, 3, 7), (0, 3, 2), (1, 0, 9)]


def bundled(guarantee: PureDP) -> Plan:
    """All tables in one bundle."""
    made = plan(WORKLOAD, guarantee, "marginals")
    return with_bundles(made, [[group for group in range(len(made.groups)) if group not in made.known]])


def rounded(made: Plan) -> Plan:
    """The same plan with rounded noise for its max-norm bundles, as wider ones have it."""
    pairs = zip(made.noised_together, made.noise_laws, strict=True)
    laws = ["rounded_max_norm" if law == "max_norm" and len(bundle) > 1 else law for bundle, law in pairs]
    assert "rounded_max_norm" in laws
    return replace(made, laws=tuple(laws))  # type: ignore[arg-type]


MADE: dict[str, Callable[[], Plan]] = {
    "max-norm": lambda: bundled(PureDP(1)),
    "rounded max-norm": lambda: rounded(bundled(PureDP(1))),
    "rounded max-norm, persons": lambda: rounded(bundled(PureDP("0.5", max_rows_per_person=3))),
    "rounded max-norm, replaced": lambda: rounded(bundled(PureDP(1, neighbors="replace_one"))),
    "base counts": lambda: plan(WORKLOAD, PureDP(1), "base_counts"),
    "marginals, replaced": lambda: plan(WORKLOAD, PureDP(1, neighbors="replace_one"), "marginals"),
    "residual": lambda: plan(WORKLOAD, ZCDP("0.5"), "residual"),
    "rounded Gaussian, replaced": lambda: plan(WORKLOAD, ApproxDP(1, "1e-6", neighbors="replace_one"), "residual"),
}


def answers(made: Plan, record: tuple[int, ...]) -> np.ndarray:
    """The exact answers to a single record, in parts, as they reach the noise; the checks of the gate come first."""
    free = replace(made, guarantee=replace(made.guarantee, max_rows_per_person=1))
    data = pa.table({name: [each] for name, each in zip(SCHEMA.names, record, strict=True)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "verify_privacy", lambda made: None)
        patch.setattr(gate, "verify_by_brute_force", lambda made: None)
        found = gate.measure(free, engine_for(data), MemoryLedger(free.guarantee), noise_from=NoNoise())
    return np.asarray(found.answers)


@pytest.mark.parametrize("name", MADE)
def test_divided_records_cost_as_drawn_at_most_what_plans_say(name: str) -> None:
    """Records on the grid; those at knots cost just that, where no pair of records is in question."""
    made = MADE[name]()
    verify_privacy(made)
    verify_by_brute_force(made)
    price, times, said = prices(made), made.guarantee.max_rows_per_person, float(privacy_cost(made))
    columns = [answers(made, record) for record in (*KNOTS, *RECORDS)]
    if made.guarantee.neighbors == "replace_one":
        columns = [one - other for one, other in combinations(columns, 2)]
    found = [price(column) * (times if isinstance(made.guarantee, PureDP) else times**2) for column in columns]
    assert max(found) <= said * (1 + 1e-9)
    assert said <= float(made.guarantee.capacity) * (1 + 1e-9)
    if made.guarantee.neighbors == "add_remove_one":
        assert max(found[: len(KNOTS)]) == pytest.approx(said, rel=1e-9)


def test_groups_of_a_rounded_bundle_are_counted_in_their_own_parts() -> None:
    whole, own = MADE["max-norm"](), MADE["rounded max-norm"]()
    assert {whole.parts[group] for bundle in whole.noised_together for group in bundle} == {3 * 10}
    assert sorted(set(own.parts)) == [64, 66, 70]
    assert {own.noise_scale(group) for group in range(len(own.groups))} == {whole.noise_scale(0)}


@pytest.mark.parametrize("group", range(2))
def test_a_rounded_bundle_with_one_scale_short_is_refused(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = MADE["rounded max-norm"]()
    true = Plan.drawn_scale

    def short(self: Plan, number: int) -> Fraction:
        return true(self, number) * (Fraction(9, 10) if number == group else 1)

    monkeypatch.setattr(Plan, "drawn_scale", short)
    with pytest.raises(errors.PlanError):
        verify_privacy(made)
    with pytest.raises(errors.PlanError):
        verify_by_brute_force(made)
    assert max(prices(made)(answers(made, record)) for record in KNOTS) > 1.05


def test_a_single_group_cannot_be_rounded() -> None:
    made = plan(WORKLOAD, PureDP(1), "marginals")
    with pytest.raises(errors.PlanError, match="two or more groups"):
        replace(made, bundles=made.noised_together, laws=("rounded_max_norm",) * len(made.noised_together))


def test_steps_with_little_in_common_are_noised_together() -> None:
    """73, 100 and 100,000 steps have 7,300,000 parts in common: too many for whole numbers, not for rounded ones."""
    sizes, steps = Schema.from_sizes({"a": 4}), {"x": 73, "y": 100, "z": 100_000}
    made, best = (
        plan(Workload.tables(schema, ["a"]).with_sums(), PureDP(1))
        for schema in (
            Schema([*sizes, *(Measure(name, low=0, high=high, step=1) for name, high in steps.items())]),
            Schema([*sizes, *(Measure(name, low=0, high=high, step=high) for name, high in steps.items())]),
        )
    )
    assert "rounded_max_norm" in made.noise_laws
    assert "rounded_max_norm" not in best.noise_laws
    assert np.allclose(made.table_variances, best.table_variances, rtol=1e-3)
