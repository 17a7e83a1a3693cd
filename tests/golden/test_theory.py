"""The paper's closed forms and bounds: Corollary 3.3, Lemma 4.2, Theorem B.1 and Table 1 against exact predictions."""

from __future__ import annotations

from collections.abc import Callable
from math import comb, factorial, log, sqrt

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
from privcube.planning.bounds.volume_bound import least_by_volume

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


# Counts beside several measures (THEORY section 14)

WITHIN = 2.25 * 2 * np.exp(-1) / (1 - np.exp(-1)) ** 2  # 1.5 times the error of a count as drawn at epsilon 1


def plate(k: int, half: float) -> tuple[float, float]:
    """Variances of the count and of a contrast under e^-s, with moments of s from its density s (H + s)^k e^-s."""
    weights = [comb(k, j) * half ** (k - j) for j in range(k + 1)]

    def mean(power: int) -> float:
        return sum(own * factorial(j + 1 + power) for j, own in enumerate(weights)) / sum(
            own * factorial(j + 1) for j, own in enumerate(weights)
        )

    return mean(2) / 3, (half**2 + 2 * half * mean(1) + mean(2)) / 3


def norm(k: int, height: float) -> tuple[float, float]:
    """Variances under the norm whose ball narrows from h to 1 as the count moves; sums over a fine grid."""
    t = (np.arange(20_000) + 0.5) / 20_000
    u = height - (height - 1) * t
    of_t, of_c = (t**2 * u**k).mean(), (u ** (k + 2)).mean() / 3
    return (k + 2) * (k + 3) * of_t / (u**k).mean(), (k + 2) * (k + 3) * of_c / (u**k).mean()


def sums_at(family: Callable[[int, float], tuple[float, float]], k: int, count: float) -> float:
    """The standard error of a sum over [0, 100] where the count has this variance."""
    low, high = 1.0 if family is norm else 0.0, 1e3
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if family(k, middle)[0] > count else (low, middle)
    return 50 * sqrt(sum(family(k, high)))


def least_sum(k: int, count: float) -> float:
    """The bound of section 9 for the cube of a cell, with a and b in inverse proportion to the variances."""
    m = k + 1
    mean = least_by_volume(m * log(2), m, 0.0) / m
    return 50 * sqrt(count + (mean**m / count) ** (1 / k))


@pytest.mark.parametrize(
    ("k", "bundles", "figures"), [(2, (5, 10), (267, 197, 171, 183)), (3, (7, 14), (397, 271, 199, 218))]
)
def test_what_counts_beside_measures_can_cost(k: int, bundles: tuple[int, int], figures: tuple[int, ...]) -> None:
    """The norms of the planner, noise around a plate, and the bound; the cube is where both families begin."""
    cube = (k + 2) * (k + 3) / 3
    assert plate(k, 0.0) == pytest.approx((cube, cube))
    assert norm(k, 1.0) == pytest.approx((cube, cube))
    found = [sums_at(norm, k, WITHIN), sums_at(plate, k, WITHIN), least_sum(k, WITHIN), sums_at(plate, k, bundles[0])]
    assert found == pytest.approx(figures, abs=0.6)
    assert least_sum(k, bundles[0]) < found[3] < 50 * sqrt(sum(bundles))


def test_noise_around_a_plate_has_its_moments_and_its_price() -> None:
    """Drawn as a mixture of boxes; a step within the cube raises s by at most 1."""
    dice, k, half = np.random.default_rng(1), 3, 5.55
    weights = np.array([comb(k, j) * half ** (k - j) * factorial(j + 1) for j in range(k + 1)])
    s = dice.gamma(dice.choice(k + 1, size=100_000, p=weights / weights.sum()) + 2)
    z = dice.uniform(-1, 1, (k + 1, len(s))) * np.array([s, *[half + s] * k])
    assert (z**2).mean(axis=1) == pytest.approx([plate(k, half)[0], *[plate(k, half)[1]] * k], rel=0.03)

    def level(z: np.ndarray) -> np.ndarray:
        return np.maximum(np.abs(z[0]), np.maximum(np.abs(z[1:]).max(axis=0) - half, 0))

    assert np.all(level(z) <= s)
    assert np.all(level(z + dice.choice([-1, 1], z.shape)) <= level(z) + 1 + 1e-12)
