"""Plans for schemas nobody has tried: one value, missing categories, levels, ranges, all guarantees. Only our errors.

PRIVCUBE_AUDIT_SCHEMAS says how many times 40 there are (1 here, 75 in `make audit`).
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, PureDP, Schema, Workload, errors, plan
from privcube.accuracy.predictor import drawn_table_variances
from privcube.accuracy.privacy import verify_privacy
from privcube.planning.search import annealing
from privcube.strategies import STRATEGIES

FORTIES = int(os.environ.get("PRIVCUBE_AUDIT_SCHEMAS", "1"))


@pytest.fixture(autouse=True)
def _short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "_SECONDS", dict.fromkeys(annealing._SECONDS, 0.01))


def any_attribute(dice: random.Random, name: str) -> Attribute:
    count = dice.choice([1, 1, 2, 2, 3, 4, 5, 7, 9])
    values = [f"v{number}" for number in range(count)]
    policies: dict[str, Any] = {key: "category" for key in ("missing", "other") if dice.random() < 0.35}
    kind = dice.randrange(4)
    if kind == 0:
        return Attribute(name, values=values, **policies) if policies else Attribute(name, size=count)
    if kind == 1:
        ends = {end: dice.choice(["refuse", "clamp", "category"]) for end in ("underflow", "overflow")}
        return Attribute(name, bins=list(range(count + 1)), **policies, **ends)
    if kind == 2:
        halves = {"x": values[: max(1, count // 2)], "y": values[max(1, count // 2) :]}
        levels = [Level("half", groups=halves)] if count > 1 else []
        return Attribute(name, values=values, levels=levels, ordered=dice.random() < 0.5, **policies)
    return Attribute(name, values=list(range(count)), ordered=True, **policies)


def any_workload(dice: random.Random) -> Workload:
    schema = Schema([any_attribute(dice, f"a{number}") for number in range(dice.randint(1, 4))])
    tables: dict[tuple[Any, ...], None] = {}
    for _ in range(dice.randint(1, 4)):
        table: list[Any] = []
        for attribute in schema:
            draw = dice.random()
            if attribute.level_names and draw < 0.2:
                table.append(Axis(attribute.name, "half"))
            elif attribute.ordered and draw < 0.4:
                table.append(Axis(attribute.name, queries=dice.choice(["prefixes", "ranges"])))
            elif draw < 0.6:
                table.append(attribute.name)
        tables[tuple(table)] = None
    return Workload.tables(schema, list(tables))


CALIBRATIONS = ["exact", "zcdp"]


@pytest.mark.parametrize("forty", range(FORTIES))
def test_plans_are_made_or_refused_in_our_own_words(forty: int) -> None:
    made_in_all = 0
    for seed in range(40 * forty, 40 * forty + 40):
        dice = random.Random(seed)
        changed: dict[str, Any] = {
            "neighbors": dice.choice(["add_remove", "replace_one"]),
            "max_rows_per_person": dice.choice([1, 1, 3]),
        }
        guarantee = dice.choice(
            [
                PureDP(dice.choice(["1e-9", "0.01", "1", "20"]), **changed),
                ZCDP(dice.choice(["1e-9", "0.1", "5"]), **changed),
                ApproxDP(dice.choice(["0.01", "1", "10"]), "1e-6", calibration=CALIBRATIONS[seed % 2], **changed),
            ]
        )
        strategy = dice.choice(["auto"] * 6 + ["search", *STRATEGIES])
        options: dict[str, Any] = {
            "budgets": dice.choice(["optimal", "uniform", "iterated"]),
            "recovery": dice.choice(["optimal", "optimal", "direct"]),
            "objective": dice.choice(["total", "total", "total", "largest"]),
        }
        try:
            made = plan(any_workload(dice), guarantee, strategy, **options)
        except errors.PrivcubeError:
            continue
        verify_privacy(made)
        variances = drawn_table_variances(made)
        assert np.all(np.isfinite(variances) & (variances >= 0)), seed
        made_in_all += 1
    assert made_in_all > 12


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(1)], ids=str)
def test_an_attribute_of_one_value_beside_ranges(guarantee) -> None:
    schema = Schema([Attribute("only", values=["x"]), Attribute("age", bins=list(range(8)), missing="category")])
    workload = Workload.tables(schema, [("only", Axis("age", queries="prefixes")), ("only",), ()])
    assert plan(workload, guarantee).mean_cell_variance > 0


@pytest.mark.parametrize("guarantee", [PureDP(3), ZCDP(1, neighbors="replace_one")], ids=str)
def test_more_attributes_of_one_value_than_an_array_has_axes(guarantee) -> None:
    """Few cells, but an explicit matrix over them would have 70 axes."""
    schema = Schema.from_sizes({f"a{number:02d}": 1 for number in range(66)} | {"b": 2, "c": 3, "d": 2, "e": 5})
    workload = Workload.all_kway(schema, 1)
    made = plan(workload, guarantee)
    for name in ("matrix", "sketch"):
        with pytest.raises(errors.PlanError, match="at most 30 attributes, given 70"):
            plan(workload, guarantee, name)
    assert made.weighted_variance <= plan(workload, guarantee, "marginals").weighted_variance
