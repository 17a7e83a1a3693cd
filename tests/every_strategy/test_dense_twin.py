"""Every strategy, structured against dense: the same S, R S = Q, the same predicted variance, the same tables."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from privcube import ZCDP, ApproxDP, Attribute, Axis, Level, PureDP, Schema, Workload, linear, plan
from privcube.accuracy.predictor import drawn_table_variances, recover
from privcube.accuracy.ranges import bounds
from privcube.errors import PlanError
from privcube.model.groups import MatrixGroup, group_rows, has_helmert, is_structured, row_weights
from privcube.model.plan import Plan
from privcube.model.sensitivity import largest_l1, squared_l2
from privcube.strategies import STRATEGIES

GUARANTEES = st.sampled_from(
    [PureDP(1), PureDP("0.3", neighbors="replace_one", max_rows_per_person=2), ZCDP("0.5"), ApproxDP(1, "1e-6")]
)

MANY = 10 if "PRIVCUBE_AUDIT_PLANS" in os.environ else 1  # `make audit`
MOST_GROUPS = 100  # each takes a hundredth of a second where its rows are written out
MOST_ROWS = 150  # of plans whose recovery is read off unit answers, one release for each

NARROW = st.sampled_from(
    [PureDP(9), PureDP(5, max_rows_per_person=2), ZCDP(9), ZCDP(60), ApproxDP(30, "1e-3"), ApproxDP(9, "1e-3")]
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    attributes = []
    for number in range(draw(st.integers(1, 3))):
        name = f"a{number}"
        kind = draw(st.integers(0, 7))
        if kind == 0:
            crossing = [Level("start", bins=[0, 3, 4]), Level("end", bins=[0, 1, 4], of=name)]
            attributes.append(
                Attribute(name, size=4, levels=crossing, missing=draw(st.sampled_from(["refuse", "category"])))
            )
        elif kind <= 2:
            attributes.append(
                Attribute(name, values=["p", "q", "r"], levels=[Level("pq", groups={"x": ["p", "q"], "y": ["r"]})])
            )
        else:
            attributes.append(Attribute(name, size=draw(st.integers(1, 5))))
    return Schema(attributes)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    schema = draw(schemas())
    tables = set()
    for _ in range(draw(st.integers(1, 4))):
        entries: list[str | Axis] = []
        for attribute in schema:
            choice = draw(st.sampled_from(["out", "out", "cells", "cells", "level", "prefixes", "ranges"]))
            if choice == "cells":
                entries.append(attribute.name)
            elif choice == "level" and attribute.levels:
                entries.append(Axis(attribute.name, draw(st.sampled_from(attribute.level_names))))
            elif choice in ("prefixes", "ranges") and attribute.ordered:
                entries.append(Axis(attribute.name, queries=choice))
        tables.add(tuple(entries))
    weights = [draw(st.sampled_from([1.0, 1.0, 3.0])) for _ in tables]
    return Workload.tables(schema, sorted(tables, key=str), weights=weights)


def some_guarantee(strategy: str):
    return ZCDP(1) if strategy == "residual" else PureDP(1)


def planned(strategy: str, workload: Workload, guarantee, budgets: str, recovery: str) -> Plan:
    try:
        made = plan(workload, guarantee, strategy, budgets=budgets, recovery=recovery)
    except PlanError:
        assume(False)
        raise
    assume(len(made.groups) <= MOST_GROUPS)
    return made


def dense(made: Plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S and Q over the padded cells of the plan's frame, and the noise variance of every row of S.

    Groups without product structure are over real cells, whatever the frame.
    """
    rows = [group_rows(made.frame, group) for group in made.groups]
    strategy = linear.strategy_matrix(made.frame, made.groups).toarray()
    queries = linear.workload_matrix(made.workload, made.frame if is_structured(made.groups) else None).toarray()
    weights = np.concatenate([row_weights(made.frame, group) for group in made.groups])
    return strategy, queries, np.repeat(made.noise_variances(), rows) * weights


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=4 * MANY)
@given(data=st.data())
def test_optimal_recovery_equals_dense_least_squares(strategy: str, data: st.DataObject) -> None:
    """Predicted variances and recovered tables of the closed form against pinv, on padded cells."""
    budgets = data.draw(st.sampled_from(["uniform", "optimal", "iterated"]))
    made = planned(strategy, data.draw(workloads()), data.draw(GUARANTEES), budgets, "optimal")
    rows, queries, noise = dense(made)
    recovery = linear.optimal_recovery(queries, rows, noise)
    np.testing.assert_allclose(recovery @ rows, queries, atol=1e-7 if budgets == "iterated" else 1e-9)
    per_query = linear.predicted_variances(recovery, noise)
    start = 0
    for table, variance in zip(made.workload, made.table_variances, strict=True):
        cells = made.workload.tables(made.workload.schema, [table]).cells
        assert variance == pytest.approx(per_query[start : start + cells].mean(), rel=1e-8)
        start += cells
    answers = np.cos(np.arange(len(noise)) * 1.7) * 50
    flat = np.concatenate([table.ravel() for table in recover(made, answers).values()])
    np.testing.assert_allclose(flat, recovery @ answers, atol=1e-6 if budgets == "iterated" else 1e-8)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=4 * MANY)
@given(data=st.data())
def test_exact_answers_give_exact_tables(strategy: str, data: st.DataObject) -> None:
    """R S = Q on real data: without noise both recoveries return the true tables."""
    workload = data.draw(workloads())
    recovery = data.draw(st.sampled_from(["direct", "optimal"]))
    made = planned(strategy, workload, some_guarantee(strategy), "optimal", recovery)
    cells = np.array(data.draw(st.lists(st.integers(0, 9), min_size=workload.schema.domain_size,
                                        max_size=workload.schema.domain_size)), dtype=float)  # fmt: skip
    columns = linear.real_columns(made.frame)
    answers = linear.strategy_matrix(made.frame, made.groups)[:, columns] @ cells
    for table, counts in recover(made, answers).items():
        np.testing.assert_allclose(counts, true_table(workload, table, cells), atol=1e-7)


def true_table(workload: Workload, table, cells: np.ndarray) -> np.ndarray:
    """The ten-line reference: sum over what is not asked for, group levels, add up ranges."""
    counts = cells.reshape(workload.schema.shape)
    axes = {Axis.of(entry).attribute: entry for entry in table}
    for at, attribute in enumerate(workload.schema):
        entry = axes.get(attribute.name)
        moved = np.moveaxis(counts, at, 0)
        if entry is None:
            moved = moved.sum(axis=0, keepdims=True)
        elif isinstance(entry, Axis) and entry.queries != "cells":
            moved = np.stack(
                [moved[a:b].sum(axis=0) for a, b in zip(*bounds(entry.queries, attribute.ordered_cells), strict=True)]
            )
        elif isinstance(entry, Axis):
            of = np.array(attribute.partition(entry.level).group_of)
            moved = np.stack([moved[of == group].sum(axis=0) for group in range(of.max() + 1)])
        counts = np.moveaxis(moved, 0, at)
    return counts.reshape(
        [size for size, name in zip(counts.shape, workload.schema.names, strict=True) if name in axes]
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=4 * MANY)
@given(data=st.data())
def test_direct_recovery_has_the_variance_it_predicts(strategy: str, data: st.DataObject) -> None:
    """The R of step 2 is linear: read it off unit answers, and compare the variance it implies."""
    budgets = data.draw(st.sampled_from(["uniform", "optimal"]))
    made = planned(strategy, data.draw(workloads()), data.draw(GUARANTEES), budgets, "direct")
    rows = sum(group_rows(made.frame, group) for group in made.groups)
    assume(rows <= MOST_ROWS)
    noise = dense(made)[2]
    columns = [recover(made, unit) for unit in np.eye(rows)]
    for table, variance in zip(made.workload, made.table_variances, strict=True):
        recovery = np.stack([column[table].ravel() for column in columns], axis=1)
        assert variance == pytest.approx((recovery**2 @ noise).mean(), rel=1e-8)


def drawn_noise(made: Plan) -> np.ndarray:
    """The variance of the whole-number noise on every row of S, by its definition; wide noise by the geometric sum."""
    k = np.arange(-4000, 4001)
    variances = []
    for number, group in enumerate(made.groups):
        for weight in row_weights(made.frame, group):
            if made.noise_variance(number) > 10_000:
                pure = isinstance(made.guarantee, PureDP)
                step = -np.expm1(-1 / float(made.noise_scale(number))) if pure else None  # 1 - r
                added = 1 / 12 if made.guarantee.noise == "rounded_gaussian" else 0
                wide = weight * float(made.noise_variance(number)) + added
                variances.append(2 * (1 - step) / step**2 if pure else wide)
                continue
            if isinstance(made.guarantee, PureDP):
                chance = np.exp(-np.abs(k) / float(made.noise_scale(number)))
            elif made.guarantee.noise == "rounded_gaussian":
                ends = (np.abs(k)[:, None] + np.array([-0.5, 0.5])) / (
                    weight * float(made.noise_variance(number))
                ) ** 0.5
                chance = ndtr(-ends[:, 0]) - ndtr(-ends[:, 1])
            else:
                chance = np.exp(-(k**2) / (2 * weight * float(made.noise_variance(number))))
            variances.append(np.sum(k**2 * chance) / np.sum(chance))
    return np.array(variances)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("recovery", ["optimal", "direct"])
@settings(deadline=None, max_examples=4 * MANY)
@given(data=st.data())
def test_the_noise_that_is_drawn_has_the_stated_variance(strategy: str, recovery: str, data: st.DataObject) -> None:
    """diag(R U R') with the R for continuous variances and U row by row; unless noise is rounded, never above R V R'.

    R is that of dense least squares, with which the first test here compares; direct recovery is read off unit answers.
    """
    guarantee = data.draw(NARROW.filter(lambda g: strategy != "residual" or not isinstance(g, PureDP)))
    made = planned(strategy, data.draw(workloads()), guarantee, "optimal", recovery)
    rows = sum(group_rows(made.frame, group) for group in made.groups)
    assume(rows <= MOST_ROWS)
    noise, found = drawn_noise(made), drawn_table_variances(made)
    if recovery == "optimal":
        matrix, queries, variances = dense(made)
        whole = linear.optimal_recovery(queries, matrix, variances)
    else:
        columns = [recover(made, unit) for unit in np.eye(rows)]
        whole = np.stack([np.concatenate([table.ravel() for table in column.values()]) for column in columns], axis=1)
    parts = np.split(whole, np.cumsum(made.workload.sizes)[:-1])
    for part, variance in zip(parts, found, strict=True):
        assert variance == pytest.approx((part**2 @ noise).mean(), rel=1e-8)
    if guarantee.noise != "rounded_gaussian":
        assert np.all(found <= np.array(made.table_variances) * (1 + 1e-9))


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=4 * MANY)
@given(data=st.data())
def test_rows_of_a_group_are_disjoint_with_unit_entries(strategy: str, data: st.DataObject) -> None:
    """The formal guarantee rests on this: every record meets every group in one row, with +1 or -1.

    Helmert rows overlap; weighted by their squared norms, every record has the squared length that the plan is charged.
    A matrix has any whole numbers; some record moves it as far as the plan is charged for, and none further.
    """
    guarantee = some_guarantee(strategy)
    made = planned(strategy, data.draw(workloads()), guarantee, "optimal", "optimal")
    columns = linear.real_columns(made.frame)
    for group in made.groups:
        rows = linear.strategy_matrix(made.frame, [group])[:, columns].toarray()
        if has_helmert(group):
            lengths = (rows**2 / np.array(row_weights(made.frame, group))[:, None]).sum(axis=0)
            np.testing.assert_allclose(lengths, float(squared_l2(guarantee, made.frame, group)), rtol=1e-12)
            continue
        if isinstance(group, MatrixGroup):
            assert np.abs(rows).sum(axis=0).max() == largest_l1(guarantee, group)
            continue
        assert set(np.unique(rows)) <= {-1.0, 0.0, 1.0}
        assert np.all(np.abs(rows).sum(axis=0) == 1)
    assert sum(made.shares) <= made.denominator


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=4 * MANY)
@given(data=st.data())
def test_recovered_tables_agree_on_shared_margins(strategy: str, data: st.DataObject) -> None:
    schema = Schema.from_sizes({name: data.draw(st.integers(1, 4)) for name in "abc"})
    workload = Workload.closure(schema, [("a", "b"), ("b", "c")])
    made = planned(strategy, workload, data.draw(GUARANTEES), "optimal", "optimal")
    answers = np.sin(np.arange(made.rows) * 2.3) * 100
    tables = recover(made, answers)
    np.testing.assert_allclose(tables["a", "b"].sum(axis=0), tables["b", "c"].sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(tables["a", "b"].sum(axis=1), tables["a",], atol=1e-9)
    np.testing.assert_allclose(tables["b", "c"].sum(), tables[()], atol=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=4 * MANY)
@given(data=st.data())
def test_each_step_lowers_the_predicted_error(strategy: str, data: st.DataObject) -> None:
    """S+ <= S under the R of step 2; step 3 never raises it; iterating never raises it either."""
    workload, guarantee = data.draw(workloads()), data.draw(GUARANTEES)

    def error(budgets: str, recovery: str) -> float:
        return planned(strategy, workload, guarantee, budgets, recovery).weighted_variance

    slack = 1 + 1e-9
    assert error("optimal", "direct") <= error("uniform", "direct") * slack
    if not planned(strategy, workload, guarantee, "optimal", "optimal").frame.has_padding:  # direct tables do not agree
        assert error("optimal", "optimal") <= error("optimal", "direct") * slack
    assert error("iterated", "optimal") <= error("optimal", "optimal") * slack
