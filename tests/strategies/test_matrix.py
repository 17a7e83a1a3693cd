"""The matrix strategy: what rounding costs, products, what goes through the gate, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from coded_records import CodedRecords
from many_draws import ManyDraws

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, Plan, PureDP, Schema, Workload, errors, plan
from privcube.accuracy.matrix_structure import workload_gram
from privcube.accuracy.predictor import drawn_table_variances, recover
from privcube.accuracy.privacy import privacy_cost, verify_privacy
from privcube.accuracy.ranges import gram
from privcube.linear.gaussian_optimum import gaussian_optimum
from privcube.model.groups import MatrixGroup
from privcube.sensitive.gate import measure, verify_by_brute_force
from privcube.sensitive.ledger import MemoryLedger
from privcube.strategies.matrix import _pure_optimum, filled, total_variance

AGES = Schema.from_sizes({"age": 24})
WIDE = Schema.from_sizes({"sex": 2, "area": 1000, "age": 12})
BY_SEX = Workload.tables(WIDE, [("sex", Axis("age", queries="ranges"))])
GUARANTEES = [
    PureDP(1),
    PureDP("0.3", neighbors="replace_one", max_rows_per_person=3),
    ZCDP("0.5"),
    ZCDP(2, neighbors="replace_one"),
    ApproxDP(1, "1e-6", max_rows_per_person=2),
]


@pytest.mark.parametrize("queries", ["ranges", "prefixes"])
@pytest.mark.parametrize("cells", [1, 2, 5, 24, 100])
def test_rounding_the_gaussian_optimum_costs_next_to_nothing(queries: str, cells: int) -> None:
    schema = Schema.from_sizes({"age": cells})
    made = plan(Workload.tables(schema, [(Axis("age", queries=queries),)]), ZCDP("0.5"), "matrix")
    _, bound = gaussian_optimum(gram(queries, cells), 1e-9)
    assert bound * (1 - 1e-8) <= made.total_variance <= bound * (1 + 1e-7)


@pytest.mark.parametrize("queries", ["ranges", "prefixes"])
def test_rounding_keeps_all_columns_of_a_p_identity_equally_long(queries: str) -> None:
    made = plan(Workload.tables(AGES, [(Axis("age", queries=queries),)]), PureDP(1), "matrix")
    (group,) = made.groups
    assert isinstance(group, MatrixGroup)
    assert set(group.matrix.sum(axis=0).tolist()) == {2**16}
    assert made.noise_scale(0) == 2**16


@pytest.mark.parametrize("queries", ["ranges", "prefixes"])
@pytest.mark.parametrize("cells", [5, 48])
def test_rounding_a_p_identity_costs_next_to_nothing(queries: str, cells: int) -> None:
    schema = Schema.from_sizes({"age": cells})
    workload = Workload.tables(schema, [(Axis("age", queries=queries),)])
    real = _pure_optimum(schema, workload)
    made = plan(workload, PureDP(1), "matrix")
    assert made.total_variance == pytest.approx(2 * total_variance(gram(queries, cells), real), rel=1e-6)


def test_filled_columns_are_as_long_as_the_longest_at_most() -> None:
    rows = np.triu(np.random.default_rng(3).integers(-1000, 1000, (9, 9)))
    found = filled(rows)
    before, after = np.sum(rows**2, axis=0), np.sum(found**2, axis=0)
    assert np.all(after >= before)
    assert after.max() == before.max()
    assert np.all(np.abs(found - rows) <= 1)
    assert np.all(found[rows == 0] == 0)


def test_only_the_attributes_of_the_workload_count() -> None:
    """The domain has 24,000 cells, the tables use 24; a product with cells is two of the ranges alone."""
    for guarantee in (PureDP(1), ZCDP("0.5")):
        made = plan(BY_SEX, guarantee, "matrix")
        alone = plan(Workload.ranges(Schema.from_sizes({"age": 12}), ["age"]), guarantee, "matrix")
        (group,) = made.groups
        assert isinstance(group, MatrixGroup)
        assert group.attributes == ("sex", "age")
        assert made.total_variance <= 2 * alone.total_variance * (1 + 1e-6)


def test_a_product_of_ranges_is_no_worse_than_the_product_of_optima() -> None:
    flat = Schema.from_sizes({"x": 7, "y": 12})
    for guarantee in (PureDP(1), ZCDP("0.5")):
        both = plan(Workload.prefixes(flat, ["x", "y"]), guarantee, "matrix").total_variance
        alone = [
            plan(Workload.prefixes(Schema.from_sizes({"x": cells}), ["x"]), guarantee, "matrix").total_variance
            for cells in (7, 12)
        ]
        noise = 2 if isinstance(guarantee, PureDP) else 1
        assert both <= alone[0] * alone[1] / noise * (1 + 1e-6)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_plans_cost_what_they_say_and_survive_json(guarantee) -> None:
    mixed = Workload.tables(
        WIDE, [("sex", Axis("age", queries="ranges")), ("sex",), (Axis("age", queries="prefixes"),)]
    )
    made = plan(mixed, guarantee, "matrix")
    again = Plan.from_json(made.to_json())
    assert again == made
    assert again.digest == made.digest
    for each in (made, again):
        verify_privacy(each)
        assert privacy_cost(each) == each.guarantee.capacity


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_brute_force_at_the_gate_prices_columns_and_pairs(guarantee) -> None:
    """An honest plan passes; one whose matrix claims half of what its columns say is caught."""

    class Understated(MatrixGroup):
        def largest_l1(self, neighbors) -> int:
            return super().largest_l1(neighbors) // 2

        def largest_l2(self, neighbors) -> int:
            return super().largest_l2(neighbors) // 2

    schema = Schema.from_sizes({"age": 12})
    made = plan(Workload.ranges(schema, ["age"]), guarantee, "matrix")
    verify_by_brute_force(made)
    (group,) = made.groups
    assert isinstance(group, MatrixGroup)
    with pytest.raises(errors.PlanError, match="costs more"):
        verify_by_brute_force(replace(made, groups=(Understated(group.attributes, group.rows),)))


def test_brute_force_finds_no_slack_under_add_remove() -> None:
    """The dearest record costs the whole budget: noise for one unit less is refused."""
    schema = Schema.from_sizes({"age": 12})
    for guarantee in (PureDP(1), ZCDP("0.5")):
        made = plan(Workload.ranges(schema, ["age"]), guarantee, "matrix")
        verify_by_brute_force(made)
        with pytest.raises(errors.PlanError, match="costs more"):
            verify_by_brute_force(replace(made, groups=(_one_shorter(made.groups[0]),)))


def _one_shorter(group) -> MatrixGroup:
    class Shorter(MatrixGroup):
        def largest_l1(self, neighbors) -> int:
            return super().largest_l1(neighbors) - 1

        def largest_l2(self, neighbors) -> int:
            return super().largest_l2(neighbors) - 1

    return Shorter(group.attributes, group.rows)


@pytest.mark.parametrize("change", ["attributes", "cells", "order", "entry", "row"])
def test_a_matrix_that_does_not_fit_is_refused(change: str) -> None:
    made = plan(BY_SEX, PureDP(1), "matrix")
    (group,) = made.groups
    assert isinstance(group, MatrixGroup)
    if change in ("entry", "row"):
        document = json.loads(made.to_json())
        if change == "entry":
            document["groups"][0]["rows"][0][1] += 1
        else:
            document["groups"][0]["rows"].pop()
        with pytest.raises(errors.PlanError, match="digest"):
            Plan.from_json(json.dumps(document))
        return
    other = {
        "attributes": MatrixGroup(("sex", "area"), group.rows),
        "cells": MatrixGroup(("sex",), group.rows),
        "order": MatrixGroup(("age", "sex"), group.rows),
    }[change]
    with pytest.raises(errors.PlanError, match="a matrix over the cells of its attributes"):
        verify_privacy(replace(made, groups=(other,)))


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP("0.5")], ids=str)
def test_whole_releases_have_the_stated_variance(guarantee) -> None:
    """Through the real gate, without records, so that what comes back is the error; a scale 15 % off is told apart."""
    workload = Workload.tables(WIDE, [("sex", Axis("age", queries="ranges")), ("sex",)])
    made = plan(workload, guarantee, "matrix")
    engine, runs = CodedRecords(WIDE, []), 400
    source = ManyDraws(runs)
    squares = np.zeros(runs)
    for run in range(runs):
        answers = measure(made, engine, MemoryLedger(guarantee), noise_from=source).answers
        tables = recover(made, answers.astype(np.float64))
        squares[run] = sum(float(np.sum(counts**2)) for counts in tables.values())
    expected = float(np.dot([2, 156], drawn_table_variances(made)))
    five_errors = 5 * squares.std() / runs**0.5
    assert abs(squares.mean() - expected) < five_errors < 0.3 * expected
    assert made.total_variance == pytest.approx(expected, rel=1e-6)


def test_records_are_counted_into_the_tables() -> None:
    """With a budget that leaves no noise to speak of, every range is its true count."""
    schema = Schema.from_sizes({"sex": 2, "age": 5})
    made = plan(Workload.tables(schema, [("sex", Axis("age", queries="ranges"))]), PureDP(10**8), "matrix")
    records = [(0, 0), (0, 3), (0, 3), (1, 4)]
    answers = measure(made, CodedRecords(schema, records), MemoryLedger(made.guarantee)).answers
    (table,) = recover(made, answers.astype(np.float64)).values()
    expected = [[sum(a <= age <= b for s, age in records if s == sex) for a in range(5) for b in range(a, 5)]
                for sex in (0, 1)]  # fmt: skip
    np.testing.assert_allclose(table, expected, atol=1e-2)


def test_levels_and_cells_that_are_not_asked_for() -> None:
    schema = Schema(
        [
            Attribute("age", bins=list(range(10)), missing="category"),
            Attribute("town", values=["p", "q", "r"], levels=[Level("county", groups={"x": ["p", "q"], "y": ["r"]})]),
        ]
    )
    workload = Workload.tables(schema, [(Axis("age", queries="prefixes"), Axis("town", "county"))])
    for guarantee in (PureDP(1), ZCDP("0.5")):
        made = plan(workload, guarantee, "matrix")
        verify_privacy(made)
        products = workload_gram(schema, workload)
        (group,) = made.groups
        assert isinstance(group, MatrixGroup)
        dense = np.trace(products @ np.linalg.pinv((group.matrix.T @ group.matrix).astype(float)))
        assert made.total_variance == pytest.approx(dense * float(made.noise_variance(0)), rel=1e-6)


def test_the_same_workload_has_the_same_plan() -> None:
    for guarantee in (PureDP(1), ZCDP("0.5")):
        assert len({plan(Workload.ranges(AGES, ["age"]), guarantee, "matrix").digest for _ in range(2)}) == 1


def test_what_is_too_large_or_empty_is_refused_with_what_to_use() -> None:
    with pytest.raises(errors.PlanError, match=r"at most 1,024 joint cells.*1,025 cells.*hierarchy"):
        plan(Workload.ranges(Schema.from_sizes({"x": 1025}), ["x"]), PureDP(1), "matrix")
    with pytest.raises(errors.PlanError, match="the total alone"):
        plan(Workload.tables(AGES, [()]), PureDP(1), "matrix")
