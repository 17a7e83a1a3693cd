"""The worked example of the paper's introduction: tables A and AB of three binary attributes, unit epsilon."""

from __future__ import annotations

import numpy as np
import pytest

from privcube import PureDP, Schema, Workload, linear, plan

# Figure 1(b), and the budgets of the text: 4/9 for the table A, 5/9 for the table AB.
Q = np.array(
    [
        [1, 1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 1, 1],
        [1, 1, 0, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 1, 1],
    ]
)
TEXT = np.array([4 / 9] * 2 + [5 / 9] * 4)


def test_figure_1_is_the_workload_of_two_tables() -> None:
    schema = Schema.from_sizes({"A": 2, "B": 2, "C": 2})
    built = linear.workload_matrix(Workload.tables(schema, [("A",), ("A", "B")]))
    np.testing.assert_array_equal(built.toarray(), Q)


def test_uniform_noise_gives_48() -> None:
    variances = linear.row_variances(np.full(6, 1 / 2))
    assert linear.predicted_variances(np.eye(6), variances).sum() == pytest.approx(48)


def test_budgets_of_the_text_give_46_17() -> None:
    variances = linear.row_variances(TEXT)
    assert linear.predicted_variances(np.eye(6), variances).sum() == pytest.approx(46.17, abs=0.005)


def test_the_recovery_of_the_text_gives_34_6() -> None:
    """Half of the direct answer and half of the answer by way of the other table: 5.77 for every query."""
    half = np.array(
        [
            [1, 0, 1, 1, 0, 0],
            [0, 1, 0, 0, 1, 1],
            [1, 0, 1, -1, 0, 0],
            [1, 0, -1, 1, 0, 0],
            [0, 1, 0, 0, 1, -1],
            [0, 1, 0, 0, -1, 1],
        ]
    )
    recovery = half / 2
    np.testing.assert_allclose(recovery @ Q, Q)
    variances = linear.predicted_variances(recovery, linear.row_variances(TEXT))
    np.testing.assert_allclose(variances, 5.77, atol=0.005)
    assert variances.sum() == pytest.approx(34.6, abs=0.05)


def test_least_squares_is_better_still() -> None:
    """The text's recovery is not the best one: generalized least squares on the same noise gives 30.01."""
    noise = linear.row_variances(TEXT)
    best = linear.predicted_variances(linear.optimal_recovery(Q, Q, noise), noise).sum()
    table_a = 1 / (1 / noise[0] + 1 / (2 * noise[2]))
    table_ab = (table_a + 2 * noise[2]) / 4
    assert best == pytest.approx(2 * table_a + 4 * table_ab)
    assert best == pytest.approx(30.01, abs=0.005)


def test_the_plan_has_the_optimal_budgets_of_corollary_3_3() -> None:
    schema = Schema.from_sizes({"A": 2, "B": 2, "C": 2})
    workload = Workload.tables(schema, [("A",), ("A", "B")])
    uniform = plan(workload, PureDP(1), "marginals", budgets="uniform", recovery="direct")
    optimal = plan(workload, PureDP(1), "marginals", budgets="optimal", recovery="direct")
    assert uniform.total_variance == pytest.approx(48)
    assert optimal.total_variance == pytest.approx((4 ** (1 / 3) + 8 ** (1 / 3)) ** 3)
    assert optimal.total_variance < 46.17
    assert [share / optimal.denominator for share in optimal.shares] == pytest.approx([0.4425, 0.5575], abs=1e-4)
