"""Optimized matrices: objective and gradient against dense algebra and differences, the optimum against its bound."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privcube import ZCDP, Schema, Workload, linear, plan
from privcube.accuracy.ranges import gram
from privcube.linear.gaussian_optimum import gaussian_optimum, shared_optimum
from privcube.linear.p_identity import objective, p_identity


def slow_objective(products: np.ndarray, theta: np.ndarray) -> float:
    """trace(W (S'S)^-1) with S written out, its columns divided by their L1 norms."""
    rows = np.vstack([np.eye(len(products)), theta])
    rows = rows / np.abs(rows).sum(axis=0)
    return float(np.trace(products @ np.linalg.inv(rows.T @ rows)))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 10**6))
def test_objective_and_gradient_against_the_slow_twin(cells: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries = rng.integers(0, 3, (cells + 2, cells)).astype(float)
    products, theta = queries.T @ queries, rng.random((rows, cells)) * 2
    value, gradient = objective(lambda rows: rows @ products, np.diag(products), theta)
    assert value == pytest.approx(slow_objective(products, theta), rel=1e-9, abs=1e-9)
    step = 1e-6
    for place in np.ndindex(*theta.shape):
        moved = np.zeros_like(theta)
        moved[place] = step
        slope = (slow_objective(products, theta + moved) - slow_objective(products, theta - moved)) / (2 * step)
        assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-5 * (1 + abs(value)))


@pytest.mark.parametrize("queries", ["ranges", "prefixes"])
def test_p_identity_is_never_worse_than_its_starts(queries: str) -> None:
    products = gram(queries, 20)
    starts = [np.zeros((0, 20)), np.ones((1, 20)), np.kron(np.eye(4), np.ones((1, 5)))]
    best = p_identity(products, starts)
    np.testing.assert_allclose(np.abs(best).sum(axis=0), 1, rtol=1e-12)
    assert np.all(best >= 0)
    found = np.trace(products @ np.linalg.inv(best.T @ best))
    assert found <= min(slow_objective(products, start) for start in starts) * (1 + 1e-12)


@pytest.mark.parametrize("queries", ["ranges", "prefixes"])
@pytest.mark.parametrize("cells", [1, 2, 7, 40])
def test_the_gaussian_optimum_meets_its_lower_bound(queries: str, cells: int) -> None:
    """X = S'S has a diagonal of ones and X^-1 W X^-1 is diagonal: the conditions of optimality (Lagrange)."""
    products = gram(queries, cells)
    best, bound = gaussian_optimum(products, 1e-10)
    assert np.all(np.tril(best, -1) == 0)
    lengths = np.sum(best**2, axis=0)
    assert lengths.max() <= 1 + 1e-12
    inverse = np.linalg.inv(best.T @ best)
    assert np.trace(products @ inverse) == pytest.approx(bound, rel=1e-9)
    np.testing.assert_allclose(lengths, 1, atol=1e-6)
    multipliers = inverse @ products @ inverse
    np.testing.assert_allclose(multipliers, np.diag(np.diag(multipliers)), atol=1e-4 * multipliers.max())


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 6), st.integers(0, 10**6))
def test_no_other_strategy_beats_the_lower_bound(cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries = rng.standard_normal((cells + 1, cells))
    products = queries.T @ queries
    best, bound = gaussian_optimum(products, 1e-8)
    assert np.trace(products @ np.linalg.inv(best.T @ best)) == pytest.approx(bound, rel=1e-7)
    for _ in range(20):
        other = best + rng.standard_normal((cells, cells)) * rng.choice([0.01, 0.3, 3])
        other /= np.sqrt(np.sum(other**2, axis=0).max())
        assert np.trace(products @ np.linalg.inv(other.T @ other)) >= bound * (1 - 1e-9)


def test_products_have_the_product_of_the_optima() -> None:
    one, two = gram("ranges", 5), gram("prefixes", 4)
    alone = [gaussian_optimum(products, 1e-10)[1] for products in (one, two)]
    assert gaussian_optimum(np.kron(one, two), 1e-10)[1] == pytest.approx(alone[0] * alone[1], rel=1e-9)


def test_a_workload_that_leaves_directions_unasked() -> None:
    """W = Q'Q of two margins is singular; the optimum is that of the residual strategy but for the floor."""
    schema = Schema.from_sizes({"a": 3, "b": 3})
    margins = linear.workload_matrix(Workload.all_kway(schema, 1)).toarray()
    best, _ = gaussian_optimum(margins.T @ margins, 1e-9)
    total = np.trace(margins.T @ margins @ np.linalg.inv(best.T @ best))
    assert total == pytest.approx(plan(Workload.all_kway(schema, 1), ZCDP("0.5"), "residual").total_variance, rel=1e-4)


def test_a_gap_below_rounding_ends_all_the_same() -> None:
    best, bound = gaussian_optimum(gram("ranges", 8), -1.0)
    assert np.trace(gram("ranges", 8) @ np.linalg.inv(best.T @ best)) == pytest.approx(bound, rel=1e-12)


def test_out_of_patience_a_rough_gap_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    products = gram("ranges", 24)
    errors = []
    module = sys.modules[shared_optimum.__module__]
    monkeypatch.setattr(module, "_ROUGH", 1e-2)
    for steps in (0, 5, 400):
        monkeypatch.setattr(module, "_WORK", {"fast": steps * 24**3})
        (best,), bound = shared_optimum([products], 1e-9, "fast")
        errors.append(float(np.trace(products @ np.linalg.inv(best.T @ best))))
        assert bound <= errors[-1] * (1 + 1e-9)
        assert errors[-1] <= bound * 1.01
    assert errors[0] >= errors[1] >= errors[2]
    assert errors[0] > errors[2] * (1 + 1e-6)
