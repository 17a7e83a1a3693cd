"""The paper's closed forms and bounds: Corollary 3.3, Lemma 4.2, Theorem B.1 and Table 1 against exact predictions."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest

from experiments import bounds
from privcube import ApproxDP, PureDP, Schema, Workload, linear, plan
from privcube.algebra.budgets import (
    gaussian_budgets,
    gaussian_optimum,
    laplace_budgets,
    laplace_optimum,
)

GRID = [(d, k) for d in (5, 6, 8, 11, 16) for k in (1, 2, 3) if k < d / 2]


def all_kway(d: int, k: int) -> Workload:
    return Workload.all_kway(Schema.from_sizes({f"a{i}": 2 for i in range(d)}), k)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_corollary_3_3_in_both_models(epsilon: float) -> None:
    """The optimum of equal C: C^2/eps^2 (sum s^(1/3))^3, and C^2/eps^2 (sum sqrt s)^2 times the Gaussian constant."""
    s, c = np.array([1.0, 2.5, 40.0]), np.full(3, 0.25)
    eta = laplace_budgets(s, c, epsilon)
    assert (c * eta).sum() == pytest.approx(epsilon)
    expected = 0.25**2 / epsilon**2 * np.cbrt(s).sum() ** 3
    assert (s / eta**2).sum() == pytest.approx(expected)
    assert laplace_optimum(s, c, epsilon) == pytest.approx(expected)
    eta = gaussian_budgets(s, c, epsilon)
    assert (c**2 * eta**2).sum() == pytest.approx(epsilon**2)
    expected = 0.25**2 / epsilon**2 * np.sqrt(s).sum() ** 2
    assert (s / eta**2).sum() == pytest.approx(expected)
    assert gaussian_optimum(s, c, epsilon) == pytest.approx(expected)


@pytest.mark.parametrize(("budgets", "optimum", "power"), [
    (laplace_budgets, laplace_optimum, 1), (gaussian_budgets, gaussian_optimum, 2),
])  # fmt: skip
def test_closed_forms_with_unequal_magnitudes_are_optimal(budgets, optimum, power) -> None:
    """No feasible budgets near the closed form, or far from it, do better."""
    s, c = np.array([1.0, 7.0, 0.2, 90.0]), np.array([1.0, 0.5, 3.0, 2.0])
    best = (s / budgets(s, c) ** 2).sum()
    assert best == pytest.approx(optimum(s, c))
    for seed in range(200):
        tried = budgets(s, c) * np.exp(np.sin(np.arange(4) * (seed + 1)) * (0.01 if seed % 2 else 1))
        tried /= (c**power @ tried**power) ** (1 / power)
        assert (s / tried**2).sum() >= best * (1 - 1e-12)


@pytest.mark.parametrize(("d", "k"), [(3, 1), (4, 2), (5, 2), (5, 3)])
def test_row_coefficients_of_lemma_4_2(d: int, k: int) -> None:
    """b_i = 2^(d-k+1) (d-|i| choose k-|i|) for the orthonormal Fourier strategy."""
    queries = linear.workload_matrix(all_kway(d, k))
    strategy = linear.fourier(d).toarray() / 2 ** (d / 2)
    found = linear.row_coefficients(queries @ strategy.T)
    sizes = [bin(i).count("1") for i in range(2**d)]
    expected = [bounds.fourier_row_coefficient(d, k, size) if size <= k else 0.0 for size in sizes]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(("d", "k"), GRID)
@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_lemma_4_2(d: int, k: int, epsilon: float) -> None:
    """The plan's total variance is the sum in the proof, and lies below the bound it proves."""
    pure = plan(all_kway(d, k), PureDP(epsilon), "fourier")
    assert pure.total_variance == pytest.approx(bounds.fourier_total_variance(d, k, epsilon), rel=1e-9)
    assert pure.total_variance <= bounds.fourier_total_variance_bound(d, k, epsilon)
    approx = plan(all_kway(d, k), ApproxDP(epsilon, "1e-6", calibration="classic"), "fourier")
    assert approx.total_variance == pytest.approx(bounds.fourier_total_variance(d, k, epsilon, 1e-6), rel=1e-9)
    assert approx.total_variance <= bounds.fourier_total_variance_bound(d, k, epsilon, 1e-6)


@pytest.mark.parametrize(("d", "k"), GRID)
@pytest.mark.parametrize("delta", [None, 1e-6])
def test_table_1(d: int, k: int, delta: float | None) -> None:
    """2^k times the predicted standard error of a cell bounds the expected L1 error; Table 1 bounds that."""
    guarantee = PureDP(1) if delta is None else ApproxDP(1, "1e-6", calibration="classic")
    for strategy, budgets, row in [
        ("base_counts", "optimal", "base_counts"),
        ("marginals", "uniform", "marginals"),
        ("fourier", "uniform", "fourier_uniform"),
        ("fourier", "optimal", "fourier"),
    ]:
        made = plan(all_kway(d, k), guarantee, strategy, budgets=budgets, recovery="direct")
        predicted = 2**k * made.mean_cell_variance**0.5
        assert predicted <= bounds.expected_error_bound(row, d, k, 1.0, delta) * (1 + 1e-9)


def test_theorem_b_1_holds_for_replacing_a_record() -> None:
    """Its proof takes sensitivity 2; exactly there the bound is met with equality before Jensen."""
    d, k = 8, 2
    made = plan(all_kway(d, k), PureDP(1, neighbors="replace_one"), "fourier", budgets="uniform")
    assert 2**k * made.mean_cell_variance**0.5 == pytest.approx(
        bounds.expected_error_bound("fourier_uniform", d, k, 1.0)
    )


def test_classic_constant() -> None:
    made = plan(all_kway(6, 1), ApproxDP("0.5", "1e-5", calibration="classic"), "base_counts")
    assert made.mean_cell_variance == pytest.approx(2 * log(2e5) / 0.25 * 2**5)


def test_number_of_coefficients() -> None:
    assert bounds.coefficients(16, 2) == 1 + 16 + comb(16, 2)
    assert len(plan(all_kway(16, 2), PureDP(1), "fourier").groups) == 137
