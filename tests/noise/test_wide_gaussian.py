"""Discrete Gaussian noise of large variance: the decisions against mpmath, the draws against the exact distribution."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from privcube.errors import GuaranteeError
from privcube.sensitive.noise import discrete_gaussian, discrete_laplace
from privcube.sensitive.noise import wide_gaussian as wide
from privcube.sensitive.noise.bits import system_words
from privcube.sensitive.noise.wide_gaussian import _exponents, _grid, coarse_table, wide_gaussian

COARSE = 2**16
MANY = 10_000_000 if int(os.environ.get("PRIVCUBE_ATTACK", "1")) > 1 else 250_000


@pytest.mark.parametrize("variance", [Fraction(10**9), Fraction(10**30)], ids=str)
def test_of_numbers_that_are_too_large_nothing_is_known(variance: Fraction) -> None:
    value, cell = np.array([2**31, 2**62]), np.array([100, 2000])
    assert [each.tolist() for each in _exponents(value, cell, variance, COARSE)] == [[0, 0], [2**62, 2**62]]


@pytest.mark.parametrize(
    ("variance", "off"),
    [
        (Fraction(1, 3), 1e-9),
        (Fraction(99, 7), 1e-9),
        (Fraction(65537), 1e-9),
        (Fraction(9 * 2**16), 1e-9),  # where many are exactly 0
        (Fraction(2**20 + 1), 1e-8),
        (Fraction(10**9, 7), 1e-5),
        (Fraction(10**24), 64),
    ],
)
def test_the_exponent_of_the_rejection_and_its_bounds(
    variance: Fraction, off: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold it, and are tight where noise is not absurdly wide; where numbers are too large they say nothing."""
    coarse, width = _grid(variance)
    assert width**2 * coarse >= variance
    cells = np.array([0, 0, 1, 2, 5, 9, 100, 255, 700, 1500, 2500, 2900, 10**6])
    cells = cells[cells < 11 * coarse**0.5].repeat(3)
    value = cells * width + np.tile([0, width // 2, width - 1], len(cells) // 3)
    low, high = (bound.tolist() for bound in _exponents(value, cells, variance, coarse))
    exponents: list[Fraction] = []

    def coins(words: np.ndarray, bounds: object, exact: Callable[[int], Fraction], source: object) -> np.ndarray:
        exponents.extend(map(exact, range(len(words))))  # what decides where bounds do not
        return np.ones(len(words), dtype=bool)

    monkeypatch.setattr(wide, "coins", coins)
    wide._kept(value, cells, variance, coarse, system_words)
    for place, (x, cell) in enumerate(zip(value.tolist(), cells.tolist(), strict=True)):
        exact = (x**2 / variance - Fraction(cell**2, coarse)) / 2
        assert exponents[place] == exact
        assert 0 <= low[place] <= exact * 2**56 <= high[place] or high[place] == 2**62 <= exact * 2**56
        assert high[place] - low[place] <= off * 2**56 or x**2 > 120 * variance


@pytest.mark.parametrize("coarse", [1, 4, 256, COARSE])
def test_the_coarse_table_is_half_a_gaussian(coarse: int) -> None:
    mpmath.mp.dps = 60
    weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * coarse)) for k in range(6000)]
    whole = mpmath.fsum(weights)
    ascending = coarse_table(coarse).ascending
    for k in (k for k in (1, 2, 3, 60, 300, 1000, 2000) if k <= len(ascending)):
        tail = mpmath.fsum(weights[k:]) / whole
        assert int(ascending[len(ascending) - k]) == int(mpmath.floor(tail * 2**64))


@pytest.mark.parametrize("variance", [Fraction(70_000), Fraction(2_000_003, 7), Fraction(3 * 10**6)])
def test_the_draws_have_the_exact_distribution(variance: Fraction) -> None:
    """Chi-square over 80 bins of 250,000 draws or more; a standard deviation 3 % off is rejected by the same test."""
    draws, spread = MANY, float(variance) ** 0.5
    edges = np.round(np.linspace(-3.5, 3.5, 81) * spread).astype(np.int64)

    def statistic(found: np.ndarray) -> float:
        numbers = np.arange(-int(9 * spread), int(9 * spread) + 1)
        pmf = np.exp(-(numbers.astype(float) ** 2) / (2 * float(variance)))
        cumulative = np.concatenate([[0.0], np.cumsum(pmf / pmf.sum())])
        expected = np.diff(cumulative[edges - numbers[0]]) * draws
        observed = np.histogram(found, np.concatenate([edges[:-1], [edges[-1] - 0.5]]))[0]
        return float(np.sum((observed - expected) ** 2 / expected))

    assert statistic(wide_gaussian(variance, draws, system_words)) < 170  # 80 degrees of freedom: 1e-8
    assert statistic(wide_gaussian(variance * Fraction(97**2, 100**2), draws, system_words)) > 170


@pytest.mark.parametrize("noise", [discrete_gaussian, discrete_laplace])
@pytest.mark.parametrize("parameter", [Fraction(1, 4), Fraction(1), Fraction(50, 7), Fraction(300)])
def test_few_draws_at_a_time_have_the_same_distribution(noise, parameter: Fraction) -> None:
    """Few draws come from those of another parameter, by rejection; 20,000 of them, 200 at a time."""
    found = np.concatenate([noise(parameter, 200) for _ in range(100)])
    reach = int(np.abs(found).max()) + 1
    numbers = np.arange(-reach, reach + 1)
    gaussian = np.exp(-(numbers.astype(float) ** 2) / (2 * float(parameter)))
    pmf = gaussian if noise is discrete_gaussian else np.exp(-np.abs(numbers) / float(parameter))
    expected = pmf / pmf.sum() * len(found)
    observed = np.bincount(found + reach, minlength=len(numbers))
    common = expected > 20
    statistic = np.sum((observed[common] - expected[common]) ** 2 / expected[common])
    freedom = common.sum()
    assert statistic < freedom + 6 * (2 * freedom) ** 0.5 + 30


def test_zero_is_not_counted_twice_and_signs_are_even() -> None:
    found = wide_gaussian(Fraction(65537), 500_000, system_words)
    expected = 500_000 / (2 * np.pi * 65537) ** 0.5
    assert abs(np.sum(found == 0) - expected) < 6 * expected**0.5
    assert abs(np.sum(found == 7) + np.sum(found == -7) - 2 * expected) < 6 * (2 * expected) ** 0.5
    assert abs(np.sum(np.sign(found))) < 6 * 500_000**0.5


@pytest.mark.parametrize("variance", [Fraction(10**12), Fraction(10**30)])
def test_huge_variances(variance: Fraction) -> None:
    found = discrete_gaussian(variance, 10_000) / float(variance) ** 0.5
    assert abs(found.var() - 1) < 0.08
    assert np.mean(np.abs(found) > 2) == pytest.approx(0.0455, abs=0.012)


def test_what_is_refused() -> None:
    for variance in (Fraction(0), Fraction(-1), Fraction(10**30 + 1), Fraction(1, 10**15 + 1), 1.0, 5):
        with pytest.raises(GuaranteeError, match="noise variance"):
            discrete_gaussian(variance, 1)


def test_zero_is_drawn_with_one_sign_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would be twice as likely: where all tries are 0 and signs take turns, each other try is dropped."""
    tried: list[int] = []

    class Zeros:
        def draw(self, count: int, source: object) -> np.ndarray:
            tried.append(count)
            return np.zeros(count, dtype=np.int64)

    def turns(ones: np.ndarray, source: object) -> np.ndarray:
        return np.where(np.arange(len(ones)) % 2, 1, -1)

    monkeypatch.setattr(wide, "coarse_table", lambda coarse: Zeros())
    monkeypatch.setattr(wide, "uniform_below", lambda width, count, source: np.zeros(count, dtype=np.int64))
    monkeypatch.setattr(wide, "signed", turns)
    monkeypatch.setattr(wide, "_kept", lambda value, *given: np.ones(len(value), dtype=bool))
    assert not wide.wide_gaussian(Fraction(10**7), 1_000, system_words).any()
    assert sum(tried) >= 2_000


def test_draws_lie_in_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """From K m on, so that what is proposed is never less likely than what is kept: no exponent is below 0."""
    seen: list[np.ndarray] = []

    def kept(value: np.ndarray, cell: np.ndarray, variance: Fraction, coarse: int, source: object) -> np.ndarray:
        seen.extend([value // _grid(variance)[1] - cell, value])
        return np.ones(len(value), dtype=bool)

    monkeypatch.setattr(wide, "_kept", kept)
    drawn = wide.wide_gaussian(Fraction(10**12), 1_000, system_words)
    assert not seen[0].any()
    assert len(set((seen[1] % 2).tolist())) == 2
    assert set(np.abs(drawn).tolist()) <= set(seen[1].tolist())


@pytest.mark.parametrize("coarse", [4, 64])
def test_tails_of_coarse_draws_at_more_bits(coarse: int) -> None:
    """Those that are worked out one by one: P(K >= k) of weights exp(-k^2 / 2c), k >= 0."""
    bits = 500
    with mpmath.workdps(200):
        weights = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * coarse)) for k in range(60 * int(coarse**0.5))]
        for k in (1, 2, 5):
            low, high = coarse_table(coarse).tail(k, bits)
            exact = sum(weights[k:]) / sum(weights) * mpmath.mpf(2) ** bits
            assert low <= exact <= high
            assert high - low < 2**20
