"""Conditioning on known numbers beside dense matrices: every answer of a plan recovered alone, and the formula."""

from __future__ import annotations

import numpy as np
import pytest

import privcube as pc
from privcube.accuracy.known.conditioned import Conditioned, KnownNumbers, conditioned
from privcube.accuracy.moments import exact_noise_variances
from privcube.accuracy.predictor import predictor
from privcube.errors import QueryError
from privcube.model.groups import row_weights
from privcube.model.workload import Axis, Table, axis_cells

AGE = pc.Attribute("age", bins=[0, 15, 18, 40, 65], missing="category", levels=[pc.Level("stage", bins=[0, 18, 65])])
SCHEMA = pc.Schema(
    [AGE, pc.Attribute("sex", values=["F", "M"]), pc.Attribute("one", values=["x"]), pc.Attribute("c", size=3)]
)
LEVELS = pc.Workload.tables(
    SCHEMA, [("age", "sex"), (("age", "stage"), "sex", "c"), (Axis("c", queries="ranges"),), ("one", "c")]
)
FLAT = pc.Workload.all_kway(pc.Schema.from_sizes({"a": 3, "b": 5, "c": 2}), 2)
CASES = [
    (FLAT, pc.PureDP(1), "auto"),
    (FLAT, pc.PureDP("0.3"), "fourier"),
    (LEVELS, pc.PureDP(1), "auto"),
    (LEVELS, pc.ApproxDP(1, "1e-6"), "auto"),
    (FLAT, pc.ZCDP("0.1"), "residual"),
    (FLAT, pc.PureDP(1, neighbors="replace_one"), "marginals"),
    (FLAT, pc.PureDP(1), "base_counts"),
    (pc.Workload.prefixes(pc.Schema.from_sizes({"a": 6}), ["a"]), pc.PureDP(1), "matrix"),
]


def dense_of(plan: pc.Plan, tables: list[Table]) -> dict[Table, np.ndarray]:
    """Per table, the weights of its numbers on the answers, each times the standard deviation of its noise."""
    base = predictor(plan)
    weights = [np.array(row_weights(plan.frame, group), dtype=float) for group in plan.groups]
    own = zip(exact_noise_variances(plan), weights, strict=True)
    deviations = np.sqrt(np.concatenate([variance * weight for variance, weight in own]))
    found: dict[Table, list[np.ndarray]] = {table: [] for table in tables}
    for answers in np.eye(plan.rows):
        recovered = base.recover([base.source(table) for table in tables], answers)
        for table in found:
            found[table].append(base.derived(table, recovered[base.source(table)]).ravel())
    return {table: np.stack(own, axis=1) * deviations for table, own in found.items()}


def facts(plan: pc.Plan, records: float) -> list[KnownNumbers]:
    """A few cells of the largest table, and the number of records."""
    base = predictor(plan)
    source = max((base.source(table) for table in plan.workload), key=len)
    cells = int(np.prod([axis_cells(plan.workload.schema, entry) for entry in source]))
    places = np.unique(np.array([0, cells // 3, cells // 2]))  # not the last one: of prefixes, it is the total
    return [KnownNumbers(source, places, np.zeros(len(places))), KnownNumbers((), np.array([0]), np.array([records]))]


@pytest.mark.parametrize(("workload", "guarantee", "strategy"), CASES)
def test_it_is_the_formula_on_dense_matrices(workload: pc.Workload, guarantee: pc.PureDP, strategy: str) -> None:
    plan = pc.plan(workload, guarantee, strategy)
    base, answers = predictor(plan), np.random.default_rng(1).integers(-50, 200, plan.rows).astype(float)
    # under replace_one the total may have been measured without noise, and is known as it was measured
    known = facts(plan, float(base.recover([()], answers)[()]) if guarantee.neighbors == "replace_one" else 100.0)
    found = conditioned(plan, base, known)
    assert isinstance(found, Conditioned)
    tables = list(workload)
    dense = dense_of(plan, [*tables, *[own.source for own in known]])
    fixed = np.concatenate([dense[own.source][own.places] for own in known])
    gain = fixed.T @ np.linalg.pinv(fixed @ fixed.T, rcond=1e-9)
    sources = {base.source(table) for table in tables} | {own.source for own in known}
    before, after = base.recover(list(sources), answers), found.recover(list(sources), answers)
    off = np.concatenate([before[own.source].ravel()[own.places] - own.values for own in known])
    for table in tables:
        expected = base.derived(table, before[base.source(table)]).ravel() - dense[table] @ (gain @ off)
        np.testing.assert_allclose(found.derived(table, after[base.source(table)]).ravel(), expected, atol=1e-6)
        left = dense[table] - dense[table] @ gain @ fixed
        exact = np.sum(left**2, axis=1)
        stated = found.variances(table).ravel()
        loose = base.variances(table).ravel() / np.maximum(np.sum(dense[table] ** 2, axis=1), 1e-12)
        assert np.all(stated >= exact - 1e-6 * (1 + exact))  # Helmert rows state at most a little more
        np.testing.assert_allclose(stated, exact, atol=1e-6, rtol=max(1e-6, 1.5 * float(loose.max() - 1)))
        if table and not any(isinstance(entry, Axis) for entry in table):
            rows = left.reshape(*found.variances(table).shape, -1)
            with_margin = np.sum(rows * rows.sum(axis=0, keepdims=True), axis=-1)
            np.testing.assert_allclose(found.margin_errors(table, table[1:])[1], with_margin, atol=1e-6, rtol=0.02)
        errors = found.errors(table)
        assert np.all(errors.half_widths(0.95) <= base.errors(table).half_widths(0.95) + 1e-9)
        weights = np.arange(1.0, stated.size + 1).reshape(found.variances(table).shape)
        law = found.query_law(table, weights) if base.source(table) == table else None
        if law is not None:
            assert law.variance == pytest.approx(np.sum((weights.ravel() @ left) ** 2), rel=0.02, abs=1e-6)
    for own in known:
        np.testing.assert_array_equal(after[own.source].ravel()[own.places], own.values)


def test_facts_that_contradict_each_other_are_refused() -> None:
    plan = pc.plan(FLAT, pc.PureDP(1), "marginals")
    known = [
        KnownNumbers(("a", "b"), np.arange(15), np.zeros(15)),
        KnownNumbers((), np.array([0]), np.array([10.0])),
    ]
    found = conditioned(plan, predictor(plan), known)
    assert found is not None
    with pytest.raises(QueryError, match="contradict each other"):
        found.recover([("a", "b")], np.zeros(plan.rows))


def test_too_many_known_numbers_and_direct_recovery_are_left_alone() -> None:
    direct = pc.plan(FLAT, pc.PureDP(1), recovery="direct")
    assert conditioned(direct, predictor(direct), [KnownNumbers((), np.array([0]), np.array([1.0]))]) is None
    wide = pc.plan(pc.Workload.all_kway(pc.Schema.from_sizes({"a": 60, "b": 70}), 2), pc.PureDP(1), "marginals")
    many = np.arange(3001)
    assert conditioned(wide, predictor(wide), [KnownNumbers(("a", "b"), many, np.zeros(len(many)))]) is None


@pytest.mark.parametrize(("guarantee", "strategy"), [(pc.PureDP("0.5"), "marginals"), (pc.ZCDP("0.1"), "residual")])
def test_intervals_hold_with_the_stated_probability(guarantee: pc.PureDP, strategy: str) -> None:
    """Noise alone, recovered again and again: per number, and for all of a table at once."""
    plan = pc.plan(FLAT, guarantee, strategy)
    known = [
        KnownNumbers(("a", "b"), np.arange(12), np.zeros(12)),
        KnownNumbers((), np.array([0]), np.array([0.0])),
    ]
    found = conditioned(plan, predictor(plan), known)
    assert found is not None
    errors = found.errors(("a", "b"))
    alone, together = errors.half_widths(0.95), errors.half_widths(1 - 0.05 / 15)
    weights = [np.array(row_weights(plan.frame, group), dtype=float) for group in plan.groups]
    own = zip(plan.noise_variances(), weights, strict=True)
    deviations = np.sqrt(np.concatenate([variance * weight for variance, weight in own]))
    random = np.random.default_rng(7)
    draw = random.laplace if isinstance(guarantee, pc.PureDP) else random.normal
    noise = draw(size=(300, plan.rows)) * deviations / (2**0.5 if isinstance(guarantee, pc.PureDP) else 1.0)
    units = np.array([found.recover([("a", "b")], unit)["a", "b"] for unit in np.eye(plan.rows)])
    off = np.tensordot(np.rint(noise), units, 1)  # what is known is 0, so that recovery is linear
    np.testing.assert_allclose(off[0], found.recover([("a", "b")], np.rint(noise[0]))["a", "b"], atol=1e-6)
    assert np.mean((np.abs(off) <= alone + 1e-6).reshape(300, -1)[:, 12:]) >= 0.93  # three errors below 0.95
    assert np.mean(np.all(np.abs(off) <= together + 1e-6, axis=(1, 2))) >= 0.915
    assert np.mean(off**2) == pytest.approx(float(errors.variances.mean()), rel=0.2)
