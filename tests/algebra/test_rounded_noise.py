"""Moments and characteristic function of rounded noise, against sums of exact probabilities."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from privcube.algebra.rounded_noise import rounded_characteristic, rounded_fourth_cumulant, rounded_variance


def chances(variance: float) -> dict[int, mpmath.mpf]:
    """P(|X| = k) at 40 digits."""
    with mpmath.workdps(40):
        scale = mpmath.sqrt(2 * mpmath.mpf(variance))
        tails = [mpmath.mpf(1)] + [mpmath.erfc((k - mpmath.mpf(1) / 2) / scale) for k in range(1, 400)]
        return {k: tails[k] - tails[k + 1] for k in range(399)}


@pytest.mark.parametrize("variance", [1e-15, 0.004, 0.05, 0.3, 1.0, 1.99, 2.01, 30.0, 400.0])
def test_moments(variance: float) -> None:
    exact = chances(variance)
    second = float(sum(k**2 * chance for k, chance in exact.items()))
    fourth = float(sum(k**4 * chance for k, chance in exact.items()))
    assert rounded_variance(variance) == pytest.approx(second, rel=1e-12, abs=1e-300)
    assert rounded_variance(variance) <= variance + 1 / 12
    assert rounded_fourth_cumulant(variance) == pytest.approx(fourth - 3 * second**2, abs=1e-9 * max(1, fourth))


@pytest.mark.parametrize("variance", [0.05, 0.3, 1.99, 2.01, 30.0])
def test_characteristic_function(variance: float) -> None:
    exact = chances(variance)
    t = np.linspace(-15, 15, 101)
    found = rounded_characteristic(variance, t)
    expected = sum(float(chance) * np.cos(k * t) for k, chance in exact.items())
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("variance", [0.1, 0.5, 1.5])
def test_the_formula_of_the_docstring(variance: float) -> None:
    j = np.arange(1, 30)
    terms = (-1.0) ** j * np.exp(-2 * np.pi**2 * j**2 * variance) * (variance + 1 / (4 * np.pi**2 * j**2))
    assert rounded_variance(variance) == pytest.approx(variance + 1 / 12 + 4 * terms.sum(), rel=1e-12)
