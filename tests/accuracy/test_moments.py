"""Variances of whole-number noise against their definitions, and against the noise itself."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from privcube import ZCDP, ApproxDP, PureDP, Schema, Workload, plan
from privcube.accuracy.moments import (
    discrete_gaussian_variance,
    discrete_laplace_variance,
    exact_noise_variances,
    helmert_variance,
    helmert_variance_at_most,
    max_norm_variances,
)
from privcube.algebra.rounded_noise import rounded_variance
from privcube.model.frame import Frame
from privcube.model.groups import GroupPart, row_weights
from privcube.planning.steps import with_bundles
from privcube.planning.trees import bundles_by_weight
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace, max_norm_noise, rounded_gaussian


def second_moment(weight, reach: int) -> float:
    numbers = np.arange(-reach, reach + 1)
    weights = np.array([weight(k) for k in numbers])
    return float(np.sum(numbers**2 * weights) / np.sum(weights))


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.0, 40.0])
def test_laplace_and_gaussian_by_their_sums(scale: float) -> None:
    reach = int(60 * scale) + 5
    laplace = second_moment(lambda k: math.exp(-abs(k) / scale), reach)
    gaussian = second_moment(lambda k: math.exp(-(k**2) / (2 * scale)), reach)
    assert discrete_laplace_variance(scale) == pytest.approx(laplace, rel=1e-9)
    assert discrete_gaussian_variance(scale) == pytest.approx(gaussian, rel=1e-9)
    assert discrete_laplace_variance(scale) <= 2 * scale**2
    assert discrete_gaussian_variance(scale) <= scale * (1 + 1e-12)


@pytest.mark.parametrize(("scale", "sizes", "reach"), [(1.0, (1, 1), 50), (0.7, (2, 1), 18), (0.3, (1, 1, 2), 9)])
def test_max_norm_by_enumeration(scale: float, sizes: tuple[int, ...], reach: int) -> None:
    grid = np.array(list(itertools.product(range(-reach, reach + 1), repeat=sum(sizes))))
    edges = np.cumsum((0, *sizes))
    norms = np.max([np.abs(grid[:, a:b]).sum(axis=1) for a, b in itertools.pairwise(edges)], axis=0)
    weights = np.exp(-norms / scale)
    expected = (weights @ grid**2) / weights.sum()
    found = max_norm_variances(scale, {size: sizes.count(size) for size in sizes})
    np.testing.assert_allclose([found[size] for size in sizes for _ in range(size)], expected, rtol=1e-6)


@pytest.mark.parametrize("sizes", [{1: 5}, {3: 1, 1: 2}, {10: 2}])
def test_max_norm_tends_to_the_continuous_formula(sizes: dict[int, int]) -> None:
    rows = sum(n * count for n, count in sizes.items())
    for n, variance in max_norm_variances(300.0, sizes).items():
        formula = 2 * (rows + 1) * (rows + 2) / ((n + 1) * (n + 2)) * 300**2
        assert variance == pytest.approx(formula, rel=1e-4)


@pytest.mark.parametrize(
    ("scale", "sizes"),
    [(1.0, {15_000: 1, 1: 1}), (0.3, {300_000: 1, 300: 3, 1: 9}), (4_000.0, {1: 1, 2: 1}), (300.0, {50: 1, 1: 1})],
)
def test_a_large_radius_is_no_different(scale: float, sizes: dict[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The integral over the radius, and the sum radius by radius, where both are in reach."""
    by_density = max_norm_variances(scale, sizes)
    monkeypatch.setattr("privcube.accuracy.moments._LARGE_RADIUS", 10**9)
    by_radius = max_norm_variances(scale, sizes)
    assert by_density != by_radius
    assert by_density == pytest.approx(by_radius, rel=2e-8)


def test_narrow_noise_on_very_many_rows_is_not_continuous() -> None:
    """One more row in a bundle hardly changes the noise of a million: they have discrete Laplace noise."""
    million = max_norm_variances(1.0, {10**6: 1, 1: 1})[10**6]
    assert million == pytest.approx(discrete_laplace_variance(1.0), rel=1e-5)


def test_rows_of_a_bundle_may_have_more_variance_than_continuous_ones() -> None:
    """Unlike Laplace and Gaussian noise: 6 rows bundled with 3 groups of 3 rows, at scale 0.3."""
    continuous = 2 * 16 * 17 / (7 * 8) * 0.3**2
    assert max_norm_variances(0.3, {6: 1, 3: 3})[6] > 1.03 * continuous


@pytest.mark.parametrize("variance", [1e-4, 0.02, 0.1, 0.5, 1.9, 2.1])
@pytest.mark.parametrize("noise", ["discrete_gaussian", "rounded_gaussian"])
def test_helmert_rows_one_by_one(variance: float, noise: str) -> None:
    schema = Schema.from_sizes({"a": 3, "b": 5, "c": 2})
    group = tuple(GroupPart(axis, 1, "helmert") for axis in range(3))
    weights = row_weights(Frame(schema, "natural"), group)
    drawn = discrete_gaussian_variance if noise == "discrete_gaussian" else rounded_variance
    worth = [drawn(variance * weight) / weight for weight in weights]
    even = helmert_variance(variance, [[0.5] * 2, [0.25] * 4, [1.0]], noise)
    assert even == pytest.approx(np.mean(worth), rel=1e-9)
    shares = np.multiply.outer([0.9, 0.1], [0.1, 0.2, 0.3, 0.4]).ravel()
    expected = pytest.approx(shares @ worth, rel=1e-9)
    assert helmert_variance(variance, [[0.9, 0.1], [0.1, 0.2, 0.3, 0.4], [1.0]], noise) == expected
    made = plan(Workload.tables(schema, [("a", "b", "c")]), ApproxDP(1, "1e-6", calibration="exact"), "residual")
    assert max(worth) <= helmert_variance_at_most(made, variance, group) * (1 + 1e-12)


def test_the_noise_has_these_variances() -> None:
    """Within five standard errors, taken from the fourth moments; 3 % less would be noticed for the first two."""
    pairs = np.array([max_norm_noise(Fraction(2), [1, 2])[1] for _ in range(4000)]).ravel()
    for draws, expected in [
        (discrete_laplace(Fraction(3, 2), 10**6), discrete_laplace_variance(1.5)),
        (discrete_gaussian(Fraction(1, 3), 10**6), discrete_gaussian_variance(1 / 3)),
        (rounded_gaussian(Fraction(1, 3), 10**6), rounded_variance(1 / 3)),
        (pairs, max_norm_variances(2.0, {1: 1, 2: 1})[2]),
    ]:
        squares = draws.astype(float) ** 2
        assert abs(squares.mean() - expected) < 5 * squares.std() / len(squares) ** 0.5


def test_a_plan_knows_the_variances_of_its_own_noise() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 2, "c": 3})
    single = plan(Workload.all_kway(schema, 1), PureDP(2), "marginals")
    scales = [float(single.noise_scale(g)) for g in range(3)]
    np.testing.assert_allclose(exact_noise_variances(single), [discrete_laplace_variance(s) for s in scales])
    fourier = plan(Workload.all_kway(Schema.from_sizes({"a": 2, "b": 2}), 2), PureDP(2), "fourier")
    together = with_bundles(fourier, bundles_by_weight(fourier))
    exact, continuous = exact_noise_variances(together), together.noise_variances()
    assert np.all(exact < continuous)
    assert np.all(exact > 0.5 * continuous)
    wide = plan(Workload.all_kway(schema, 1), ZCDP("0.01"), "marginals")
    np.testing.assert_allclose(exact_noise_variances(wide), wide.noise_variances())
