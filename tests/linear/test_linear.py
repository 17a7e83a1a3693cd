"""Explicit matrices: grouping, budgets, recovery. Dense algebra and a real solver are the judges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import PureDP, Schema, Workload, errors, linear, plan


def ranges(n: int) -> np.ndarray:
    return np.array([[float(i <= c <= j) for c in range(n)] for i in range(n) for j in range(i, n)])


STRATEGIES = {
    "identity": (linear.identity(8), 1),
    "hierarchy": (linear.hierarchy(8), 4),
    "ternary hierarchy": (linear.hierarchy(9, 3), 3),
    "haar": (linear.haar(8), 4),
    "fourier": (linear.fourier(3), 8),
    "sketch": (linear.sketch(8, 4, 5), 5),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_papers_strategies_are_groupable(name: str) -> None:
    """Grouping numbers of section 3.1: 1 for I, the depth for H, depth + 1 for W, N for F, t for sketches."""
    matrix, number = STRATEGIES[name]
    found = linear.grouping(matrix)
    assert found is not None
    found.check(matrix)
    assert len(found.magnitudes) == number


def test_marginals_have_one_group_each() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 3})
    found = linear.grouping(linear.workload_matrix(Workload.full_cube(schema)))
    assert found is not None
    assert len(found.magnitudes) == 4


def test_what_cannot_be_grouped() -> None:
    assert linear.grouping(ranges(3)) is None  # overlapping rows that do not cover all columns
    assert linear.grouping(np.array([[1.0, 2.0]])) is None  # unequal magnitudes in one row
    assert linear.grouping(np.array([[1.0, 0.0]])) is None  # a column that no row meets


@pytest.mark.parametrize(
    ("groups", "magnitudes", "message"),
    [([0, 0], [1.0], "disjoint"), ([0, 1], [1.0, 2.0], "magnitude"), ([0], [1.0], "each of the 2 rows")],
)
def test_a_wrong_grouping_is_refused(groups: list[int], magnitudes: list[float], message: str) -> None:
    with pytest.raises(errors.PlanError, match=message):
        linear.Grouping(np.array(groups), np.array(magnitudes)).check(np.array([[1, 1], [1, 1]]))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_closed_form_equals_the_convex_program(name: str, noise: str) -> None:
    """Theorem 3.4: where the rows of a group are alike, the closed form solves (1)-(3).

    The buckets of a sketch are uneven, and there the program does better: Lemma 3.2 needs more than equal b_i.
    """
    matrix = STRATEGIES[name][0].toarray()
    matrix = matrix[np.abs(matrix).sum(axis=1) > 0]
    recovery = np.ones((1, len(matrix)))
    closed = linear.optimal_budgets(matrix, recovery, noise=noise, method="grouping")
    solved = linear.optimal_budgets(matrix, recovery, noise=noise, method="convex")
    value = [(linear.row_coefficients(recovery) / budgets**2).sum() for budgets in (closed, solved)]
    if name == "sketch":
        assert value[1] < value[0] * 0.99
        chosen = linear.optimal_budgets(matrix, recovery, noise=noise)
        assert (linear.row_coefficients(recovery) / chosen**2).sum() == pytest.approx(value[1], rel=1e-6)
    else:
        assert value[0] == pytest.approx(value[1], rel=1e-6)


@settings(deadline=None, max_examples=24)
@given(data=st.data())
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_convex_program_is_feasible_and_beats_uniform(noise: str, data: st.DataObject) -> None:
    rows, columns = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    entries = st.lists(st.sampled_from([0.0, 1.0, -1.0, 2.5]), min_size=columns, max_size=columns)
    matrix = np.array([data.draw(entries.filter(any)) for _ in range(rows)])
    recovery = np.array([[data.draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in range(rows)]])
    power = 1 if noise == "laplace" else 2
    budgets = linear.optimal_budgets(matrix, recovery, noise=noise)
    cost = (np.abs(matrix) ** power).T @ budgets**power
    assert cost.max() == pytest.approx(1.0, rel=1e-9)
    uniform = np.full(rows, 1 / (np.abs(matrix) ** power).sum(axis=0).max() ** (1 / power))
    b = linear.row_coefficients(recovery)
    assert (b / budgets**2).sum() <= (b / uniform**2).sum() * (1 + 1e-6)


def test_convex_program_meets_the_optimality_conditions() -> None:
    """Two rows, one of them also alone in a column: the answer can be worked out by hand."""
    matrix = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    budgets = linear.optimal_budgets(matrix, np.diag([1.0, 2.0]))  # b = (2, 8): eps_i ~ b_i^(1/3) in the middle column
    expected = np.cbrt([2.0, 8.0]) / np.cbrt([2.0, 8.0]).sum()
    np.testing.assert_allclose(budgets, expected, rtol=1e-5)


def test_rows_out_of_use_get_no_budget() -> None:
    budgets = linear.optimal_budgets(ranges(3), np.array([[0, 0, 0, 0, 0, 1.0]]))
    np.testing.assert_allclose(budgets, [0, 0, 0, 0, 0, 1], atol=1e-9)
    assert linear.row_variances(budgets)[0] == np.inf


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_optimal_recovery_is_best_and_unbiased(data: st.DataObject) -> None:
    """R S = Q, also for S of deficient rank; any other R with R S = Q has no smaller variance."""
    rows, columns = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 5))
    numbers = st.integers(-2, 2)
    matrix = np.array([[data.draw(numbers) for _ in range(columns)] for _ in range(rows)], dtype=float)
    mix = np.array([[data.draw(numbers) for _ in range(rows)] for _ in range(2)], dtype=float)
    queries = mix @ matrix
    noise = np.array([data.draw(st.floats(0.1, 10)) for _ in range(rows)])
    recovery = linear.optimal_recovery(queries, matrix, noise)
    np.testing.assert_allclose(recovery @ matrix, queries, atol=1e-8)
    best = linear.predicted_variances(recovery, noise)
    assert np.all(best <= linear.predicted_variances(mix, noise) + 1e-8)
    weights = np.diag(1 / noise)
    twin = queries @ np.linalg.pinv(matrix.T @ weights @ matrix) @ matrix.T @ weights
    np.testing.assert_allclose(best, linear.predicted_variances(twin, noise), rtol=1e-6, atol=1e-9)


def test_a_query_outside_the_row_space_is_named() -> None:
    with pytest.raises(errors.PlanError, match="none for query 1"):
        linear.optimal_recovery(np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 1.0]]), np.ones(1))


def test_large_sparse_strategies_take_the_iterative_path() -> None:
    """1,050 cells under a tree of 4,095 rows: the same answers as the dense recovery gives on a part of the queries."""
    cells = 1050
    tree = linear.hierarchy(cells)
    noise = np.linspace(1, 3, tree.shape[0])
    answers = np.cos(np.arange(tree.shape[0]))
    queries = scipy.sparse.csr_array(np.vstack([np.ones(cells), np.arange(cells) < 700, np.arange(cells) == 5]))
    found = linear.recovered(queries, tree, noise, answers)
    scaled = tree.toarray() / np.sqrt(noise)[:, None]
    estimate = np.linalg.lstsq(scaled, answers / np.sqrt(noise), rcond=None)[0]
    np.testing.assert_allclose(found, queries @ estimate, atol=1e-6)
    with pytest.raises(errors.PlanError, match="query 0"):
        linear.recovered(queries[[2]], tree[: tree.shape[0] // 2], noise[: tree.shape[0] // 2],
                         answers[: tree.shape[0] // 2])  # fmt: skip


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_steps_in_turn_never_raise_the_error(noise: str) -> None:
    queries = ranges(6)
    errors_by_rounds = []
    for rounds in (1, 2, 5, 50):
        found = linear.optimize(queries, linear.hierarchy(6), noise=noise, rounds=rounds)
        np.testing.assert_allclose(found.recovery @ linear.hierarchy(6).toarray(), queries, atol=1e-8)
        errors_by_rounds.append(found.variances.sum())
    assert errors_by_rounds == sorted(errors_by_rounds, reverse=True)
    assert errors_by_rounds[-1] < errors_by_rounds[0] * 0.99


def test_the_planner_and_the_matrices_agree_on_iteration() -> None:
    schema = Schema.from_sizes({"x": 8})
    made = plan(Workload.ranges(schema, ["x"]), PureDP(1), "hierarchy", budgets="iterated")
    found = linear.optimize(ranges(8), linear.hierarchy(8))
    assert made.total_variance == pytest.approx(found.variances.sum(), rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear.optimal_budgets(np.eye(2), np.eye(3)), "3|columns"),
        (lambda: linear.optimal_budgets(np.eye(2), np.zeros((1, 2))), "zeros"),
        (lambda: linear.optimal_budgets(np.eye(2), np.eye(2), epsilon=0), "above 0"),
        (lambda: linear.optimal_budgets(np.eye(2), np.eye(2), noise="uniform"), "laplace"),
        (lambda: linear.optimal_budgets(ranges(3), np.eye(6), method="grouping"), "grouped"),
        (lambda: linear.optimal_budgets(np.eye(2), np.eye(2), weights=[1.0, -1.0]), "weights"),
        (lambda: linear.optimal_recovery(np.eye(2), np.eye(2), [1.0, 0.0]), "above 0"),
        (lambda: linear.optimal_recovery(np.array([[np.nan, 1.0]]), np.eye(2), np.ones(2)), "finite"),
        (lambda: linear.recovered(np.eye(2), np.eye(2), np.ones(2), np.ones(3)), "rows of S"),
        (lambda: linear.consistent(np.eye(2), np.ones(2), norm=3), "1, 2 or infinity"),
        (lambda: linear.consistent(np.eye(2), np.ones(3)), "one per query"),
        (lambda: linear.sketch(0, 1, 1), "at least one"),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises(errors.PlanError, match=message):
        call()


def test_without_a_solver_the_message_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'privcube\[linear\]'"):
        linear.optimal_budgets(ranges(3), np.eye(6))
